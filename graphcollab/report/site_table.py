"""How good every node's model is, node by node, with what its few samples leave open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import torch
from torch import Tensor

from graphcollab.checks import issue, own_filter
from graphcollab.errors import EmptyError, MismatchError, UnknownError
from graphcollab.findings import Finding
from graphcollab.gains.held import rarer_held
from graphcollab.metrics import Metric, Scores, as_metrics, percentile_interval
from graphcollab.metrics.bootstrap import bootstrap_nodes
from graphcollab.metrics.scores import AnyMetrics, not_defined
from graphcollab.naming import few
from graphcollab.report._terms import unequal_terms
from graphcollab.report._text import noted, shown, weighted, with_few
from graphcollab.report.site_scores import SiteScores
from graphcollab.settings import Count, Real, Seed
from graphcollab.tasks import Tasks
from graphcollab.train import Comparison, Result
from graphcollab.train.summaries import in_deviations

Results: TypeAlias = Annotated[
    Result | Mapping[str, Result] | Comparison, "what run or compare returns, or results by the names of their methods"
]


@shown
def site_table(
    results: Results,
    metrics: AnyMetrics = None,
    reference: str | None = None,
    split: Literal["test", "val", "train"] = "test",
    confidence: Annotated[float, Real(above=0, below=1)] = 0.95,
    resamples: Count = 1000,
    seed: Seed = 0,
) -> SiteScores:
    """Return a table with a row per node: its samples, and every method's metrics with bootstrap intervals.

    Samples of a node are drawn from its own with replacement, and an interval goes from one percentile of what the
    metric is then to another. It says what so few samples leave open, with models and data as they are; what another
    partition or seed would have brought is another question, see `paired_table`. Differences to a reference are of the
    same resamples (a paired bootstrap). A node with fewer than two samples has no interval; one whose metric is not
    defined (an AUC of one class) has no value, a warning names it, and means are over the others. Lines below the table
    name nodes with fewer than 20 samples, whose intervals are too narrow, and say why others have none.

    Args:
        results: What `run` or `compare` returns, or results by the names of their methods. A comparison shows the last
            seed, with the settings that were chosen; a method that failed there is left out, and named.
        metrics: A name, a ``Metric`` or a function, or several of them. Default: the tasks' own.
        reference: Name of the method that differences are taken to, such as ``"local"``. Default: there are none.
        split: Which samples the models are judged on.
        confidence: Level of the intervals.
        resamples: How often samples are drawn.
        seed: Seed of the draw.

    Returns:
        A `SiteScores`: ``print`` it, or take its ``rows``, ``text()`` or ``to_csv(path)``.
    """
    many, about = _by_name(results)
    if not many:
        raise EmptyError("results", f"there are no results to show; {about}")
    if reference is not None and reference not in many:
        there = f"there are {sorted(many)}; {about}"
        raise UnknownError("reference", f"there is no method {reference!r} to compare with; {there}")
    first = next(iter(many.values()))
    for name, result in many.items():
        _require_same_samples(next(iter(many)), first, name, result, split)
    judged = as_metrics(metrics, first.tasks.metric)
    with own_filter("ignore", code="quality", subject="metric"):  # it is said below, once for all methods
        scores = {name: result.scores(judged, split) for name, result in many.items()}
    _warn_of_undefined(scores, split)
    drawn = {name: _resampled(result, split, judged, resamples, seed, scores[name]) for name, result in many.items()}

    def interval(values: Tensor) -> Tensor:  # published are its ends, which say less than every resample
        ends = percentile_interval(values, confidence)
        return first.env.plane.publish(ends.transpose(0, 1).contiguous()).transpose(0, 1)

    differences = {}
    for name in many:
        if reference is not None and name != reference:
            value = _stacked(scores[name]) - _stacked(scores[reference])
            differences[name] = torch.cat([value[..., None], interval(drawn[name] - drawn[reference])], 2)
    intervals = {name: interval(values) for name, values in drawn.items()}
    said = (
        f"in brackets {100 * confidence:.4g} % intervals of {resamples} bootstrap resamples of each node's {split} "
        f"samples; {about}"
    )
    notes = [
        Finding("intervals", "nodes", said, {"confidence": confidence, "resamples": resamples, "seed": first.env.seed}),
        *(unequal_terms(results) if isinstance(results, Comparison) else ()),
        *weighted(first.tasks),
        *noted("units", "metrics", in_deviations(first.tasks, [metric.name for metric in judged])),
        *_rare(first.tasks, split),
    ]
    return SiteScores(scores, intervals, differences, reference, notes)


def _rare(tasks: Tasks, split: str) -> list[Finding]:
    """Say which nodes have few samples of their rarer class, where there are two classes."""
    rarer, sizes = rarer_held(tasks, split), tasks.sizes(split).tolist()
    if rarer is None:
        return []
    held = {name: many for name, many, size in zip(tasks.names, rarer.tolist(), sizes, strict=True) if size}
    said = with_few(held.items())
    return noted("rare-class", "nodes", f"few samples of the rarer class, be wary: {said}" * bool(said), samples=held)


def _by_name(results: Results) -> tuple[dict[str, Result], str]:
    """Return results of one seed by name, and which seed that is, of how many, and without which methods."""
    if not isinstance(results, Comparison):
        many = {results.method.name: results} if isinstance(results, Result) else dict(results)
        return many, f"seed {next(iter(many.values())).env.seed} of the run" if many else "none was given"
    seeds = [trial.seed for trial in next(iter(results.chosen.values()))]
    kept = {name: result for name, result in results.results.items() if result.env.seed == seeds[-1]}
    lost = [name for name in results.chosen if name not in kept]
    of_all = f" alone, the last of {len(seeds)}: differences paired over seeds are of all of them" * (len(seeds) > 1)
    return kept, f"seed {seeds[-1]}{of_all}{f'; no result of {few(lost)}' * bool(lost)}"


def _require_same_samples(name: str, one: Result, other_name: str, other: Result, split: str) -> None:
    if one.tasks is other.tasks:
        return
    mine, theirs = one.tasks.splits.get(split), other.tasks.splits.get(split)
    same = one.tasks.names == other.tasks.names and (mine is None) == (theirs is None)
    if same and mine is not None and theirs is not None:
        a, b = one.tasks.pools[mine.pool], other.tasks.pools[theirs.pool]
        same = torch.equal(mine.ptr, theirs.ptr) and all(
            torch.equal(x[mine.here].cpu(), y[theirs.here].cpu())
            for x, y in ((a.targets, b.targets), (a.inputs, b.inputs))
        )
        same = same and _same_weights(a.weight, b.weight, mine.here, theirs.here)
    same = all(one.env.plane.everyone(bool(same)))  # each process knows the samples of its own nodes
    if not same:
        raise MismatchError(
            "results",
            f"{name!r} and {other_name!r} have other nodes or other {split} samples (seeds {one.env.seed} and "
            f"{other.env.seed}), so they cannot stand side by side: give results of the same tasks and seed",
        )


def _same_weights(one: Tensor | None, other: Tensor | None, mine: Tensor, theirs: Tensor) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one.cpu()[mine], other.cpu()[theirs])


def _resampled(
    result: Result, split: str, metrics: tuple[Metric, ...], resamples: int, seed: int, scores: Scores
) -> Tensor:
    """Return the metrics of resamples, [M, K, B]; NaN of nodes elsewhere, without a value, or with one sample."""
    drawn = bootstrap_nodes(result.env.engine, result.stacks, split, metrics, resamples, seed)
    return drawn.masked_fill((_stacked(scores).isnan() | (scores.sizes < 2))[..., None], torch.nan)


def _warn_of_undefined(scores: Mapping[str, Scores], split: str) -> None:
    """Warn of nodes for which a metric is not defined with some method."""
    first = next(iter(scores.values()))
    for metric in first.metrics:
        lost = {name for one in scores.values() for name in one.undefined(metric.name)}
        if nodes := [name for name in first.names if name in lost]:
            left = min(one.nodes(metric.name) for one in scores.values())
            issue("quality", f"metric {metric.name!r}", not_defined(metric, {split: (nodes, left)}, len(first.names)))


def _stacked(scores: Scores) -> Tensor:
    """Return all metrics as [M, K]."""
    return torch.stack([scores[metric.name] for metric in scores.metrics])
