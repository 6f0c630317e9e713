"""How good every node's model is, node by node, with what its few samples leave open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import torch
from torch import Tensor

from graphcollab.checks import own_filter, warn
from graphcollab.files import write_csv
from graphcollab.gains.held import rarer_held
from graphcollab.metrics import Metric, Scores, as_metrics, percentile_interval
from graphcollab.metrics.bootstrap import bootstrap_nodes
from graphcollab.metrics.scores import AnyMetrics, not_defined
from graphcollab.naming import few
from graphcollab.report._terms import unequal_terms
from graphcollab.report._text import MISSING, Cells, below, number, shown, shown_in, weighted, with_few
from graphcollab.settings import Count, Real, Seed
from graphcollab.train import Comparison, Result
from graphcollab.train.summaries import in_deviations
from graphcollab.train.trial import SHARES

__all__ = ["SiteScores", "site_table"]

WIDE = 120  # letters, above which several metrics are not put side by side
SMALL = 20  # samples, below which percentile intervals are too narrow to go without a word

Results: TypeAlias = Annotated[
    Result | Mapping[str, Result] | Comparison, "what run or compare returns, or results by the names of their methods"
]


@dataclass(frozen=True)
class SiteScores:
    """Metrics of every node and method, with bootstrap intervals; what `site_table` returns.

    ``str`` and `text` write it as a table with a row per node, `rows` are its numbers one by one, and `to_csv` writes
    them to a file.

    Args:
        scores: For every method the metrics of all nodes.
        intervals: For every method the ends of the metrics' intervals, [M, K, 2].
        differences: For every method but the reference what it has more than the reference and the ends of that
            interval, [M, K, 3].
        reference: Name of the method that the others are compared with, or None.
        about: What the numbers are, in words.
        units: In what units errors are, where these are not those of the data.
        rare: Which nodes have few samples of their rarer class, and how many, where there are two classes; in words.
        terms: Where methods of a comparison did other work, had other models or more settings to choose from.
    """

    scores: Mapping[str, Scores]
    intervals: Mapping[str, Tensor] = field(repr=False)
    differences: Mapping[str, Tensor] = field(repr=False)
    reference: str | None = None
    about: str = ""
    units: str = ""
    terms: Sequence[str] = ()
    rare: str = ""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The numbers, one dictionary per node, metric and method; what has no value is NaN.

        ``node``, ``samples``, ``metric``, ``method``, ``value``, ``low``, ``high``, and with a reference
        ``difference``, ``difference_low`` and ``difference_high``.
        """
        out = []
        first = next(iter(self.scores.values()))
        for k, node in enumerate(first.names):
            for m, metric in enumerate(first.metrics):
                for method, scores in self.scores.items():
                    low, high = self.intervals[method][m, k].tolist()
                    row = {"node": node, "samples": int(first.sizes[k]), "metric": metric.name, "method": method}
                    row |= {"value": float(scores[metric.name][k]), "low": low, "high": high}
                    if self.reference is not None:
                        told = [math.nan] * 3
                        if method in self.differences:
                            told = self.differences[method][m, k].tolist()
                        row |= dict(zip(("difference", "difference_low", "difference_high"), told, strict=True))
                    out.append(row)
        return out

    def to_csv(self, path: str | Path) -> Path:
        """Write `rows` to a file, whole or not at all; what has no value is empty."""
        rows = self.rows
        cells = (["" if value != value else value for value in row.values()] for row in rows)
        return write_csv(path, list(rows[0]), cells)

    def text(self, markdown: bool = False) -> str:
        """Return a table with a row per node, and below them the means over the nodes that have a value.

        Several metrics have a table each where they would not fit side by side. The samples in the last row are those
        of all nodes that have a value in some column. Where a model has diverged there are no means. Nodes that have
        left the collaboration (`graphcollab.control.Attendance`) have a row, and are in no mean.
        """
        every = [*range(len(next(iter(self.scores.values())).metrics))]
        table = self.cells(every).text(markdown)
        if len(every) > 1 and table.index("\n") > WIDE:
            table = "\n\n".join(self.cells([m]).text(markdown) for m in every)
        return below(table, *self.notes)

    @property
    def notes(self) -> list[str]:
        """What is to be said below tables; what there is nothing to say of is empty."""
        return [self.about, self._signs(), *self.terms, self.units, *self._limits()]

    def _signs(self) -> str:
        """Say of which metrics less is better."""
        metrics = next(iter(self.scores.values())).metrics
        fewer = [metric.name for metric in metrics if not metric.higher_is_better]
        so = f", so − is an improvement on {self.reference}" * bool(self.differences)
        return f"of {' and '.join(fewer)} less is better{so}" if fewer else ""

    def cells(self, which: Sequence[int]) -> Cells:
        """Return some of the metrics side by side, a row per node, and two of means at the end."""
        first = next(iter(self.scores.values()))
        header, columns = ["node", "samples"], [[*first.names], [str(n) for n in first.sizes.tolist()]]
        means, weighted = ["mean", ""], ["mean, by samples"]
        counted = torch.zeros(len(first.names), dtype=torch.bool)

        def add(title: str, values: Tensor, digits: int | None, by: Sequence[str], signed: bool = False) -> None:
            """Add a column of values and the ends of their intervals, [K, 3], ``by`` some methods, and their means."""
            known = torch.stack([self.scores[method].counted(metric.name) for method in by]).all(0)
            lost = torch.stack([self.scores[method].loss.isinf() & self.scores[method].members for method in by])
            counted.logical_or_(known)
            header.append(title)
            columns.append([_cell(value, digits, signed) for value in values])
            few = f" ({int(known.sum())} of {len(known)} nodes)" if not bool(known.all()) else ""
            for line, weight in ((means, torch.ones(len(known))), (weighted, first.sizes)):
                weight = weight.double()[known]
                mean = math.nan if bool(lost.any()) else float((weight * values[known, 0]).sum() / weight.sum())
                line.append(number(mean, digits, signed) + few)

        for m in which:
            metric = first.metrics[m]
            share = metric.name in SHARES
            scale, digits, unit = shown_in(share, 1)
            for method, scores in self.scores.items():
                values = torch.cat([scores[metric.name][:, None], self.intervals[method][m]], 1)
                title = f"{method} {metric.name}{unit}" if len(self.scores) > 1 else f"{metric.name}{unit}"
                add(title, scale * values, digits, [method])
            for method, values in self.differences.items():
                title = f"{method} − {self.reference}, {'points' if share else metric.name}"
                add(title, scale * values[m], digits, [method, str(self.reference)], signed=True)
        weighted.insert(1, str(int(first.sizes[counted].sum())))
        return Cells(header, [*zip(*columns, strict=True), means, weighted])

    def _limits(self) -> list[str]:
        """Say which intervals are too narrow, and why others are missing."""
        first = next(iter(self.scores.values()))
        small = [f"{name} ({n})" for name, n in zip(first.names, first.sizes.tolist(), strict=True) if 1 < n < SMALL]
        away = {first.names[k] for one in self.scores.values() for k in (~one.members & ~one.loss.isnan()).nonzero()}
        why: dict[str, None] = {}
        flat = False
        for method, scores in self.scores.items():
            for m, metric in enumerate(scores.metrics):
                low, high = self.intervals[method][m].unbind(1)
                flat = flat or bool((low == high).any())
                for k in low.isnan().nonzero().flatten().tolist():
                    why[f"{first.names[k]} ({_missing(scores, metric, k)})"] = None
        return [
            f"left the collaboration, so in no mean, and judged by the model of then: {few(sorted(away))}" * bool(away),
            f"few samples of the rarer class, be wary: {self.rare}" * bool(self.rare),
            f"with fewer than {SMALL} samples intervals are too narrow: {few(small)}" * bool(small),
            "an interval of no width says that all resamples gave the same, not that the value is certain" * flat,
            f"no interval: {few([*why])}" * bool(why),
        ]

    def __str__(self) -> str:
        return self.text()


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
        A `SiteScores`: ``print`` it, or take its ``rows``, ``text(markdown=True)`` or ``to_csv(path)``.
    """
    many, note = _by_name(results)
    if not many:
        raise ValueError(f"there are no results to show{note}")
    if reference is not None and reference not in many:
        raise ValueError(f"there is no method {reference!r} to compare with; there are {sorted(many)}{note}")
    first = next(iter(many.values()))
    for name, result in many.items():
        _require_same_samples(next(iter(many)), first, name, result, split)
    judged = as_metrics(metrics, first.tasks.metric)
    with own_filter("ignore", ".* is not defined for"):  # it is said below, once for all methods
        scores = {name: result.scores(judged, split) for name, result in many.items()}
    drawn = {name: _resampled(result, split, judged, resamples, seed, scores[name]) for name, result in many.items()}
    differences = {}

    def told(ends: Tensor) -> Tensor:  # which says less than what metrics are of every resample
        return first.env.plane.publish(ends.transpose(0, 1).contiguous()).transpose(0, 1)

    for name in many:
        if reference is not None and name != reference:
            value = _stacked(scores[name]) - _stacked(scores[reference])
            ends = told(percentile_interval(drawn[name] - drawn[reference], confidence))
            differences[name] = torch.cat([value[..., None], ends], 2)
    intervals = {name: told(percentile_interval(values, confidence)) for name, values in drawn.items()}
    _warn_of_undefined(scores, split)
    about = (
        f"in brackets {100 * confidence:.4g} % intervals of {resamples} bootstrap resamples of each node's {split} "
        f"samples; {_which(results, first.env.seed)}{note}"
    )
    units = in_deviations(first.tasks, [metric.name for metric in judged])
    terms = [*(unequal_terms(results) if isinstance(results, Comparison) else ()), weighted(first.tasks)]
    rarer, sizes = rarer_held(first.tasks, split), first.tasks.sizes(split).tolist()
    held = [] if rarer is None else zip(first.tasks.names, rarer.tolist(), sizes, strict=True)
    rare = with_few((name, many) for name, many, size in held if size)
    return SiteScores(scores, intervals, differences, reference, about, units, terms, rare)


def _by_name(results: Result | Mapping[str, Result] | Comparison) -> tuple[dict[str, Result], str]:
    """Return results of one seed by name, and what is to be said of those that are left out."""
    if isinstance(results, Result):
        return {results.method.name: results}, ""
    if not isinstance(results, Comparison):
        return dict(results), ""
    last = [trials[-1].seed for trials in results.chosen.values()]
    kept = {name: r for name, r in results.results.items() if r.env.seed == last[0]}
    lost = [name for name in results.chosen if name not in kept]
    return kept, f"; without {', '.join(lost)}, of which there is no result on that seed" if lost else ""


def _which(results: Results, seed: int) -> str:
    """Say of which seed numbers are, and that there are others where that is so."""
    seeds = [trial.seed for trial in next(iter(results.chosen.values()))] if isinstance(results, Comparison) else []
    if len(seeds) < 2:
        return f"seed {seed} of the run"
    return f"seed {seed} alone, the last of {len(seeds)}: paired_table is over all of them"


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
        raise ValueError(
            f"{name!r} and {other_name!r} have other nodes or other {split} samples (seeds {one.env.seed} and "
            f"{other.env.seed}), so they cannot stand side by side: give results of the same tasks and seed"
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
            warn(not_defined(metric, {split: (nodes, left)}, len(first.names)))


def _missing(scores: Scores, metric: Metric, k: int) -> str:
    """Say why a node has no interval of a metric."""
    if int(scores.sizes[k]) < 2:
        return "one sample" if int(scores.sizes[k]) else "no samples"
    if bool(scores.loss[k].isnan() & ~scores.members[k]):
        return "it has not joined"
    if not bool(scores.loss[k].isfinite()):
        return "its model has diverged"
    if bool(scores[metric.name][k].isnan()):
        return f"{metric.name} is not defined"
    return f"{metric.name} is not defined in most resamples"


def _stacked(scores: Scores) -> Tensor:
    """Return all metrics as [M, K]."""
    return torch.stack([scores[metric.name] for metric in scores.metrics])


def _cell(value: Tensor, digits: int | None, signed: bool = False) -> str:
    """Write a value and the ends of its interval."""
    mean, low, high = (number(end, digits, signed) for end in value.tolist())
    return mean if MISSING in (mean, low) else f"{mean} ({low} … {high})"
