"""The quality of every site's model, site by site, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import EmptyError, MismatchError, UnknownError
from graphcollab._base.files import write_csv
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few
from graphcollab._base.settings import Count, Real, Seed
from graphcollab.analysis import Comparison
from graphcollab.analysis.baseline import BASELINES
from graphcollab.analysis.held import rarer_held
from graphcollab.analysis.metrics import Metric, Scores
from graphcollab.analysis.metrics.bootstrap import bootstrap_nodes, percentile_interval
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, not_defined
from graphcollab.analysis.trial import SHARES
from graphcollab.data.losses import predicted_by
from graphcollab.data.tasks import Tasks
from graphcollab.persistence.history import in_deviations
from graphcollab.report._terms import noted, unequal_terms, weighted, with_few
from graphcollab.report.values import Cell, Table, count_cell, decimals, number_cell, shown, shown_in
from graphcollab.train import Result
from graphcollab.train.fingerprint import digests

SMALL = 20  # samples, below which percentile intervals are reported as too narrow
Results: TypeAlias = Annotated[
    Result | Mapping[str, Result] | Comparison, "what run or compare returns, or results by the names of their methods"
]


VALUE, DIFFERENCE = ["value", "low", "high"], ["difference", "difference_low", "difference_high"]


@dataclass(frozen=True)
class SiteScores:
    """Metrics of every site and method, with bootstrap intervals; the result of `site_table`.

    ``str`` formats the tables. The samples in their last row are those of all sites with a value in some column. If a
    model has diverged, there are no means; sites that have left (`graphcollab.components.Participation`) have a row,
    but are excluded from means.

    Args:
        frame: The numbers, a row per site, metric and method: ``site``, ``samples``, ``metric``, ``method``, ``value``,
            ``low``, ``high``, and with a reference ``difference``, ``difference_low`` and ``difference_high``.
        tables: A table per metric, with a row per site and the means over sites with a value; notes are below the last.
        metrics: The metrics.
        reference: Name of the method that the others are compared with, or None.
    """

    frame: pd.DataFrame = field(repr=False)
    tables: Sequence[Table] = field(repr=False)
    metrics: Sequence[Metric]
    reference: str | None = None

    def of(self, method: str, m: int = 0) -> pd.DataFrame:
        """Return the rows of a method and a metric, one per site."""
        return self.frame[(self.frame.method == method) & (self.frame.metric == self.metrics[m].name)]

    @property
    def others(self) -> list[str]:
        """The methods other than the reference; none without one."""
        return [name for name in self.frame.method.unique() if self.reference not in (None, name)]

    def to_csv(self, path: str | Path) -> Path:
        """Write ``frame`` to a file atomically; missing values are empty."""
        cells = self.frame.astype(object).where(self.frame.notna(), "")
        return write_csv(path, [*cells], cells.to_numpy().tolist())

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables))


def _table(sites: SiteScores, m: int, scores: Mapping[str, Scores]) -> Table:
    """Return the table of a metric: values, differences, and two rows of means at the end."""
    first, metric = next(iter(scores.values())), sites.metrics[m].name
    scale, digits, unit = shown_in(share := metric in SHARES, 1)
    shown = [(f"{name} {metric}{unit}".removeprefix(f"{name} " * (len(scores) == 1)), name, [name]) for name in scores]
    ref = str(sites.reference)
    shown += [(f"{name} − {ref}, {'points' if share else metric}", name, [name, ref]) for name in sites.others]
    rows = [[Cell(name), count_cell(size)] for name, size in zip(first.names, first.sizes.tolist(), strict=True)]
    plain, weighted, counted = [Cell("mean"), Cell("")], list[Cell](), torch.zeros(len(rows), dtype=torch.bool)
    for _, name, both in shown:
        write, by = partial(number_cell, digits=digits, signed=len(both) > 1), [scores[one] for one in both]
        values = torch.from_numpy(scale * sites.of(name, m)[DIFFERENCE if len(both) > 1 else VALUE].to_numpy())
        known = torch.stack([one.counted(metric) for one in by]).all(0)
        lost = any(bool((one.loss.isinf() & one.members).any()) for one in by)
        plain.append(_mean(write, values[:, 0], torch.ones(len(rows)), known, lost))
        weighted.append(_mean(write, values[:, 0], first.sizes, known, lost))
        counted |= known
        for row, value in zip(rows, values.tolist(), strict=True):
            row.append(_cell(write, value))
    by_samples = [Cell("mean, by samples"), count_cell(int(first.sizes[counted].sum())), *weighted]
    columns = ["site", "samples", *(title for title, *_ in shown)]
    return Table(columns, [*rows, plain, by_samples], foot=2, caption=f"Every site, {metric}")


def _limits(frame: pd.DataFrame, every: Iterable[Scores]) -> Iterator[Finding]:
    away = {one.names[k] for one in every for k in (~one.members & ~one.loss.isnan()).nonzero()}
    left = f"left the collaboration, so in no mean, and judged by the model of then: {few(sorted(away))}"
    yield from noted("left", "nodes", left * bool(away), nodes=sorted(away))
    rows = frame[frame.samples.between(2, SMALL - 1)]
    small = dict(zip(rows.site, rows.samples.tolist(), strict=True))
    narrow = few([f"{name} ({n})" for name, n in small.items()])
    said = f"with fewer than {SMALL} samples intervals are too narrow: {narrow}" * bool(small)
    yield from noted("few-samples", "nodes", said, samples=small)
    lacking = frame[frame.low.isna()].site.unique().tolist()
    said = f"no interval, from one sample, resamples all alike or no value: {few(lacking)}" * bool(lacking)
    yield from noted("no-interval", "nodes", said, nodes=lacking)


def _mean(write: Callable[..., Cell], values: Tensor, weight: Tensor, known: Tensor, lost: bool) -> Cell:
    """Return the weighted mean of known values [K], empty if a model has diverged."""
    weight = weight.double()[known]
    cell = Cell() if lost else write(float((weight * values[known]).sum() / weight.sum()))
    note = f" ({int(known.sum())} of {len(known)} sites)" * (not bool(known.all()))
    return replace(cell, text=cell.text + note)


def _cell(write: Callable[..., Cell], value: Sequence[float]) -> Cell:
    mean, low, high = value
    return write(mean, interval=None if math.isnan(low) else (low, high))


def sites_of_comparison(sites: SiteScores, reference: str) -> Table:
    """Return a row for every site: the first metric for the reference, and for the best method at this site."""
    own, others, metric = sites.of(reference), sites.others, sites.metrics[0]
    (scale, digits, unit), sign = shown_in(metric.name in SHARES, 1), 1 if metric.higher_is_better else -1
    gains = np.stack([sites.of(name)[DIFFERENCE] for name in others])  # [M, K, 3]
    best = np.nan_to_num(sign * gains[..., 0], nan=-math.inf).argmax(0)
    places = decimals(own.value.tolist()) if digits is None else digits
    rows = []
    for k, (name, size, value) in enumerate(zip(own.site, own.samples, own.value, strict=True)):
        told = (scale * gains[best[k], k]).tolist()
        better = sign * told[0] > 0
        gain = _cell(partial(number_cell, digits=places, signed=True), told)
        way = [Cell(others[best[k]]), gain] if better else [Cell(reference), Cell()]
        rows.append([Cell(name), count_cell(size), number_cell(scale * value, places), *way])
    title = f"difference to {reference}, {'points' if scale > 1 else metric.name}"
    columns = ["site", "test rows", f"{reference}, {metric.name}{unit}", "did best", title]
    said = "What did best at a site may have by chance: no advice. In brackets 95 % intervals, on the last seed."
    return Table(columns, rows, [Finding("best-way", "sites", said)], caption=f"Every site, {metric.name}")


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
    """Return a table with a row per site: its samples, and every method's metrics with bootstrap intervals.

    Intervals are percentiles of the metric over resamples of a site's own samples. They express the uncertainty due to
    the number of samples, with models and data fixed; for the variation over other partitions or seeds, see
    `paired_table`. Samples of one group are drawn together. Differences to a reference use the same resamples (a paired
    bootstrap). A site with fewer than two samples has no interval. A site whose metric is undefined (an AUC of one
    class) has no value, a warning names it, and means are over the other sites. Notes below the table name sites with
    fewer than 20 samples, whose intervals are too narrow, and sites without an interval.

    Args:
        results: The output of `run` or `compare`, or results by method. A comparison shows the last seed, with the
            chosen settings; a method that failed on it is omitted, with a note.
        metrics: A name, a ``Metric`` or a function, or several of them. Default: the tasks' own.
        reference: Name of the method for differences, such as ``"local"``. Default: no differences.
        split: The samples on which the models are evaluated.
        confidence: Confidence level of the intervals.
        resamples: Number of bootstrap resamples.
        seed: Seed of the resamples.

    Returns:
        A `SiteScores` to ``print``, with ``frame`` and ``to_csv(path)``.
    """
    many, about = results_by_name(results)
    if not many:
        raise EmptyError("results", f"there are no results to show; {about}")
    if reference is not None and reference not in many:
        there = f"there are {sorted(many)}; {about}"
        raise UnknownError("reference", f"there is no method {reference!r} to compare with; {there}")
    first = next(iter(many.values()))
    _require_same_samples(many, split)
    judged = as_metrics(metrics, first.tasks.metric)
    with own_filter("ignore", code="quality", subject="metric"):  # reported below, once for all methods
        scores = {name: result.scores(judged, split) for name, result in many.items()}
    _warn_of_undefined(scores, split)
    drawn = {}  # [M, K, B]; NaN for nodes in other processes, without a value, or with one sample
    for name, result in many.items():
        values = bootstrap_nodes(result.env.engine, result.stacks, split, judged, resamples, seed)
        unknown = _stacked(scores[name]).isnan() | (scores[name].sizes < 2)
        drawn[name] = values.masked_fill(unknown[..., None], torch.nan)

    def interval(values: Tensor) -> Tensor:  # only its ends are published, which reveal less than all resamples
        ends = percentile_interval(values, confidence)
        alike = ends[..., :1] == ends[..., 1:]  # identical resamples carry no information about the variation
        own = ends.masked_fill(alike, torch.nan).transpose(0, 1).contiguous()
        (every,) = first.env.plane.all_gather(first.env.plane.local_values(own))
        return every.transpose(0, 1)

    parts = []
    for name in many:
        values = torch.cat([_stacked(scores[name])[..., None], interval(drawn[name])], 2)  # [M, K, 3]
        if reference is not None:
            apart = _stacked(scores[name]) - _stacked(scores[reference])
            ends = interval(drawn[name] - drawn[reference])
            gains = torch.cat([apart[..., None], ends], 2)
            values = torch.cat([values, gains if name != reference else gains * torch.nan], 2)
        for metric, numbers in zip(judged, values.double().numpy(), strict=True):
            about_sites = {"site": scores[name].names, "samples": scores[name].sizes.tolist()}
            part = pd.DataFrame({**about_sites, "metric": metric.name, "method": name})
            parts.append(part.join(pd.DataFrame(numbers, columns=[*VALUE, *DIFFERENCE][: numbers.shape[1]])))
    frame = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)  # site after site
    grouped = split in first.tasks.splits and first.tasks.pools[first.tasks.splits[split].pool].group is not None
    said = (
        f"in brackets {100 * confidence:.4g} % intervals of {resamples} bootstrap resamples of each site's {split} "
        f"samples{', whole groups' * grouped}; {about}"
    )
    notes = [
        Finding("intervals", "nodes", said, {"confidence": confidence, "resamples": resamples, "seed": first.env.seed}),
        *(unequal_terms(results) if isinstance(results, Comparison) else ()),
        *weighted(first.tasks),
        *noted("units", "metrics", in_deviations(first.tasks, [metric.name for metric in judged])),
        *_rare(first.tasks, split),
        *_limits(frame, scores.values()),
    ]
    fewer = [metric.name for metric in judged if not metric.higher_is_better]
    so = f", so − is an improvement on {reference}" * (reference is not None and len(many) > 1)
    said = f"of {' and '.join(fewer)} less is better{so}" * bool(fewer)
    notes[1:1] = noted("less-is-better", ", ".join(fewer), said)
    found = SiteScores(frame, [], judged, reference)
    tables = [_table(found, m, scores) for m in range(len(judged))]
    return replace(found, tables=[*tables[:-1], tables[-1].noting(*notes)])


def _rare(tasks: Tasks, split: str) -> list[Finding]:
    rarer, sizes = rarer_held(tasks, split), tasks.sizes(split).tolist()
    if rarer is None:
        return []
    held = {name: many for name, many, size in zip(tasks.names, rarer.tolist(), sizes, strict=True) if size}
    events = predicted_by(tasks.loss) == "times"
    said = with_few(held.items(), "no event" if events else "one class only")
    what = "events" if events else "samples of the rarer class"
    return noted("rare-class", "nodes", f"few {what}, be wary: {said}" * bool(said), samples=held)


def results_by_name(results: Results) -> tuple[dict[str, Result], str]:
    """Return results of one seed by name, and a note on that seed, the number of seeds, and omitted methods."""
    if not isinstance(results, Comparison):
        many = {results.method.name: results} if isinstance(results, Result) else dict(results)
        return many, f"seed {next(iter(many.values())).env.seed} of the run" if many else "none was given"
    seeds = [trial.seed for trial in next(iter(results.chosen.values()))]
    kept = {name: result for name, result in results.results.items() if result.env.seed == seeds[-1]}
    lost = [name for name in results.chosen if name not in kept and name not in BASELINES]
    of_all = f" alone, the last of {len(seeds)}: differences paired over seeds are of all of them" * (len(seeds) > 1)
    return kept, f"seed {seeds[-1]}{of_all}{f'; no result of {few(lost)}' * bool(lost)}"


def _require_same_samples(many: Mapping[str, Result], split: str) -> None:
    (first, one), *others = many.items()
    for name, other in others:
        if other.tasks is one.tasks:
            continue
        same = one.tasks.names == other.tasks.names and torch.equal(_held(one.tasks, split), _held(other.tasks, split))
        if not all(one.env.plane.all_gather_object(same)):  # each process has the samples of its own nodes
            raise MismatchError(
                "results",
                f"{first!r} and {name!r} have other sites or {split} samples: give results of the same tasks and seed",
            )


def _held(tasks: Tasks, split: str) -> Tensor:
    """Return the number of samples of every node in a split, and checksums of the local ones, [4, K]."""
    if split not in tasks.splits:
        return torch.empty(0)
    held = tasks.splits[split]
    pool = tasks.pools[held.pool]
    values = (pool.inputs, pool.targets, torch.ones(len(pool)) if pool.weight is None else pool.weight)
    return torch.stack([held.sizes, *(digests(held, one) for one in values)])


def _warn_of_undefined(scores: Mapping[str, Scores], split: str) -> None:
    first = next(iter(scores.values()))
    for metric in first.metrics:
        lost = {name for one in scores.values() for name in one.undefined(metric.name)}
        if nodes := [name for name in first.names if name in lost]:
            left = min(one.nodes(metric.name) for one in scores.values())
            issue("quality", f"metric {metric.name!r}", not_defined(metric, {split: (nodes, left)}, len(first.names)))


def _stacked(scores: Scores) -> Tensor:
    """Return all metrics as [M, K]."""
    return torch.stack([scores[metric.name] for metric in scores.metrics])
