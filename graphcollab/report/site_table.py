"""The quality of every site's model, site by site, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

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


@dataclass(frozen=True)
class SiteScores:
    """Metrics of every site and method, with bootstrap intervals; the result of `site_table`.

    ``str`` formats a table with a row per site for every metric, followed by the means over sites with a value. The
    samples in the last row are those of all sites with a value in some column. If a model has diverged, there are no
    means; sites that have left (`graphcollab.components.Participation`) have a row, but are excluded from means. `rows`
    holds the numbers, which `to_csv` writes to a file.

    Args:
        scores: Metrics of all sites, by method.
        intervals: Ends of the metrics' intervals, by method, [M, K, 2].
        differences: Difference to the reference and the ends of its interval, by method except the reference,
            [M, K, 3].
        reference: Name of the method that the others are compared with, or None.
        about: Notes on the meaning and units of the numbers, on unequal terms of comparison, and on sites with few
            samples of their rarer class.
    """

    scores: Mapping[str, Scores]
    intervals: Mapping[str, Tensor] = field(repr=False)
    differences: Mapping[str, Tensor] = field(repr=False)
    reference: str | None = None
    about: Sequence[Finding] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The numbers, one dictionary per site, metric and method; missing values are NaN.

        ``site``, ``samples``, ``metric``, ``method``, ``value``, ``low``, ``high``, and with a reference
        ``difference``, ``difference_low`` and ``difference_high``.
        """
        out, first, none = [], self._first, torch.full((len(self._first.metrics), len(self._first.names), 3), torch.nan)
        for (k, site), (m, metric), method in product(enumerate(first.names), enumerate(first.metrics), self.scores):
            low, high = self.intervals[method][m, k].tolist()
            row = {"site": site, "samples": int(first.sizes[k]), "metric": metric.name, "method": method}
            row |= {"value": float(self.scores[method][metric.name][k]), "low": low, "high": high}
            if self.reference is not None:
                told = self.differences.get(method, none)[m, k].tolist()
                row |= dict(zip(("difference", "difference_low", "difference_high"), told, strict=True))
            out.append(row)
        return out

    def to_csv(self, path: str | Path) -> Path:
        """Write `rows` to a file atomically; missing values are empty."""
        rows = self.rows
        cells = (["" if value != value else value for value in row.values()] for row in rows)
        return write_csv(path, list(rows[0]), cells)

    @property
    def tables(self) -> list[Table]:
        """A table for every metric, with the common notes below the last."""
        tables = [self._table(m) for m in range(len(self._first.metrics))]
        return [*tables[:-1], tables[-1].noting(*self._notes())]

    @property
    def _first(self) -> Scores:
        return next(iter(self.scores.values()))

    def _notes(self) -> Iterator[Finding]:
        yield from self.about[:1]
        fewer = [metric.name for metric in self._first.metrics if not metric.higher_is_better]
        so = f", so − is an improvement on {self.reference}" * bool(self.differences)
        said = f"of {' and '.join(fewer)} less is better{so}" * bool(fewer)
        yield from noted("less-is-better", ", ".join(fewer), said)
        yield from self.about[1:]
        yield from self._limits()

    def _table(self, m: int) -> Table:
        """Return the table of a metric: values, differences, and two rows of means at the end."""
        first, metric = self._first, self._first.metrics[m].name
        rows = [[Cell(name), count_cell(size)] for name, size in zip(first.names, first.sizes.tolist(), strict=True)]
        plain, weighted, counted = [Cell("mean"), Cell("")], [], torch.zeros(len(rows), dtype=torch.bool)
        columns = ["site", "samples"]
        for column, values, by in self._columns(m):
            write = partial(number_cell, digits=shown_in(metric in SHARES, 1)[1], signed=len(by) > 1)
            known = torch.stack([scores.counted(metric) for scores in by]).all(0)
            lost = any(bool((scores.loss.isinf() & scores.members).any()) for scores in by)
            plain.append(_mean(write, values[:, 0], torch.ones(len(rows)), known, lost))
            weighted.append(_mean(write, values[:, 0], first.sizes, known, lost))
            counted |= known
            columns.append(column)
            for row, value in zip(rows, values.tolist(), strict=True):
                row.append(_cell(write, value))
        by_samples = [Cell("mean, by samples"), count_cell(int(first.sizes[counted].sum())), *weighted]
        return Table(columns, [*rows, plain, by_samples], foot=2, caption=f"Every site, {metric}")

    def _columns(self, m: int) -> Iterator[tuple[str, Tensor, list[Scores]]]:
        """Yield titles, values and interval ends, [K, 3], of all methods and differences, with their scores."""
        metric = self._first.metrics[m]
        share = metric.name in SHARES
        scale, _, unit = shown_in(share, 1)
        for method, scores in self.scores.items():
            values = torch.cat([scores[metric.name][:, None], self.intervals[method][m]], 1)
            title = f"{method} {metric.name}{unit}" if len(self.scores) > 1 else f"{metric.name}{unit}"
            yield title, scale * values, [scores]
        for method, values in self.differences.items():
            title = f"{method} − {self.reference}, {'points' if share else metric.name}"
            both = [self.scores[method], self.scores[str(self.reference)]]
            yield title, scale * values[m], both

    def _limits(self) -> Iterator[Finding]:
        first, every = self._first, self.scores.items()
        away = {first.names[k] for _, one in every for k in (~one.members & ~one.loss.isnan()).nonzero()}
        left = f"left the collaboration, so in no mean, and judged by the model of then: {few(sorted(away))}"
        yield from noted("left", "nodes", left * bool(away), nodes=sorted(away))
        small = {name: n for name, n in zip(first.names, first.sizes.tolist(), strict=True) if 1 < n < SMALL}
        narrow = few([f"{name} ({n})" for name, n in small.items()])
        said = f"with fewer than {SMALL} samples intervals are too narrow: {narrow}" * bool(small)
        yield from noted("few-samples", "nodes", said, samples=small)
        why = {
            f"{first.names[k]} ({_missing(scores, metric, k)})": first.names[k]
            for method, scores in every
            for m, metric in enumerate(scores.metrics)
            for k in self.intervals[method][m, :, 0].isnan().nonzero().flatten().tolist()
        }
        said = f"no interval: {few([*why])}" * bool(why)
        yield from noted("no-interval", "nodes", said, nodes=[*dict.fromkeys(why.values())])

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables))


def _missing(scores: Scores, metric: Metric, k: int) -> str:
    if int(scores.sizes[k]) < 2:
        return "one sample" if int(scores.sizes[k]) else "no samples"
    if bool(scores.loss[k].isnan() & ~scores.members[k]):
        return "it has not joined"
    if not bool(scores.loss[k].isfinite()):
        return "its model has diverged"
    if bool(scores[metric.name][k].isnan()):
        return f"{metric.name} is not defined"
    return "all resamples alike, or without a value"


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
    first, others = sites.scores[reference], [*sites.differences]
    metric, values = first.metrics[0], first[first.metrics[0].name]
    (scale, digits, unit), sign = shown_in(metric.name in SHARES, 1), 1 if metric.higher_is_better else -1
    gains = torch.stack([sites.differences[name][0] for name in others])  # [M, K, 3]
    best = (sign * gains[..., 0]).nan_to_num(-math.inf).argmax(0).tolist()
    places = decimals(values.tolist()) if digits is None else digits
    rows = []
    for k, name in enumerate(first.names):
        told = (scale * gains[best[k], k]).tolist()
        better = sign * told[0] > 0
        gain = _cell(partial(number_cell, digits=places, signed=True), told)
        way = [Cell(others[best[k]]), gain] if better else [Cell(reference), Cell()]
        own = number_cell(scale * float(values[k]), places)
        rows.append([Cell(name), count_cell(int(first.sizes[k])), own, *way])
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
    fewer than 20 samples, whose intervals are too narrow, and explain missing intervals.

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
        A `SiteScores` to ``print``, with ``rows`` and ``to_csv(path)``.
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

    differences = {}
    for name in many:
        if reference is not None and name != reference:
            value = _stacked(scores[name]) - _stacked(scores[reference])
            differences[name] = torch.cat([value[..., None], interval(drawn[name] - drawn[reference])], 2)
    intervals = {name: interval(values) for name, values in drawn.items()}
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
    ]
    return SiteScores(scores, intervals, differences, reference, notes)


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
