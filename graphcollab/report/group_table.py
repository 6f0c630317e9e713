"""The quality of models for groups of rows, such as women and men, or age bands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.errors import EmptyError, MismatchError, UnsupportedError
from graphcollab._base.findings import Finding
from graphcollab._base.settings import Count, Finite
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.bootstrap import bootstrap, percentile_interval
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, judging
from graphcollab.analysis.trial import SHARES
from graphcollab.data._values import factorized
from graphcollab.data.table import open_table, read_column
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Rows
from graphcollab.report._terms import noted, weighted
from graphcollab.report.site_table import SMALL, results_by_name
from graphcollab.report.values import Cell, Table, count_cell, number_cell, shown, shown_in
from graphcollab.train import Result

FEW, MOST = 6, 20  # maximum number of distinct numbers that are groups themselves, and of words with a row
LEVEL = 0.05
RANKS = ("auc", "concordance")  # metrics that rank outputs of one model
KEYS = 1000  # offset between the keys of the draws of two sites


@shown
def group_table(
    comparison: Comparison,
    frame: Any,
    column: str,
    bands: Sequence[Finite] | None = None,
    metrics: AnyMetrics = None,
    resamples: Count = 1000,
) -> Table:
    """Return the metrics of every method's models for groups of test rows, over all sites.

    A star marks a group for which models are worse than for all other rows: the bootstrap interval of the difference
    excludes 0, with Bonferroni correction for all cells of the table. Groups of fewer than 20 rows have none, and no
    group has one if rows belong together (``group=``), since rows are drawn one by one. AUC and concordance rank only
    rows of one site, and are means over sites weighted by rows. Models are those of the last seed.

    Args:
        frame: The table that the tasks were made from.
        column: The column that names the groups; models need not use it. With many words, the 20 most frequent have
            rows.
        bands: Upper ends of the bands of a numeric column, such as ``[40, 60]``. Default: its quartiles, if it has
            more than 6 distinct values.
        metrics: A metric, or several. Default: the tasks' own.
        resamples: Number of bootstrap resamples.

    Returns:
        A table to ``print``.
    """
    results, _ = results_by_name(comparison)
    if not results:
        raise EmptyError("comparison", "there are no results of the last seed to look into")
    first = next(iter(results.values()))
    tasks, judged = first.tasks, as_metrics(metrics, first.tasks.metric)
    grouped = any(pool.group is not None for pool in tasks.pools.values())
    owner = tasks.splits["test"].owner
    names, codes = _groups(_values(tasks, frame, column), bands)
    kinds, counts = (one.tolist() for one in codes.unique(return_counts=True))
    columns, many = [column, "rows"], len(kinds) * len(results) * len(judged)
    cells = [[Cell(names[kind]), count_cell(size)] for kind, size in zip(kinds, counts, strict=True)]
    for (name, result), metric in product(results.items(), judged):
        judge, sign = judging(metric, result.env.engine.objective), 1 if metric.higher_is_better else -1
        scale, digits, unit = shown_in(metric.name in SHARES, 1)
        columns.append(f"{name} {metric.name}{unit}")
        samples, within = _tested(result), owner if metric.name in RANKS else torch.zeros_like(owner)
        for row, kind, size in zip(cells, kinds, counts, strict=True):
            value, own = _drawn(judge, samples, codes == kind, within, resamples, kind)
            _, others = _drawn(judge, samples, codes != kind, within, resamples, len(names) + kind)
            low, high = (scale * percentile_interval(own, 1 - LEVEL)).tolist()
            best = float((sign * percentile_interval(own - others, 1 - LEVEL / many)).max())
            ends = (low, high) if low < high else None
            row.append(number_cell(scale * value, digits, ends, star=best < 0 and size >= SMALL and not grouped))
    ranks = " (only rows of one site are ranked against each other)" * any(one.name in RANKS for one in judged)
    said = (
        f"test rows of all sites together{ranks}, seed {first.env.seed}; in brackets 95 % bootstrap intervals, with "
        f"models as they are; * worse than all other rows, corrected for {many} comparisons"
    )
    belong = "rows that belong together count as if they did not: intervals are too narrow, and there is no *"
    notes = [Finding("groups", column, said), *weighted(tasks), *noted("grouped", "rows", belong * grouped)]
    return Table(columns, cells, notes, caption=f"Groups of rows by {column}")


def _drawn(
    judge: Metric, samples: Sequence[Tensor], mask: Tensor, owner: Tensor, resamples: int, key: int
) -> tuple[float, Tensor]:
    """Return a metric of the given rows, and of their resamples, [B]: row-weighted means over owners for ranks."""
    values, drawn, sizes = [torch.zeros(0)], [torch.zeros(0, resamples)], []
    for one in owner[mask].unique().tolist():
        outputs, targets, *weight = (part[mask & (owner == one)] for part in samples)
        values.append(judge(outputs[None], targets[None], weight=weight[0][None] if weight else None).double())
        given = weight[0] if weight else None
        drawn.append(bootstrap(judge, outputs, targets, resamples, 0, key + KEYS * one, given)[None])
        sizes.append(len(targets))
    every = torch.cat([torch.cat(values)[:, None], torch.cat(drawn)], 1)  # [owners, 1 + B]
    known = torch.tensor(sizes)[:, None] * ~every.isnan()
    every = (every.nan_to_num() * known).sum(0) / known.sum(0)
    return float(every[0]), every[1:]


def _values(tasks: Tasks, frame: Any, name: str) -> np.ndarray:
    """Return the values of a table column in the test rows of all nodes, node after node."""
    tasks.require_here(torch.arange(tasks.num_nodes), ": groups are of rows of all nodes")
    split, told = tasks.splits["test"], tasks.preparation
    row = tasks.pools[split.pool].row
    if told is None or row is None:
        raise UnsupportedError("comparison", "groups are of rows of a table: make tasks by Tasks.from_frame")
    table, rows = open_table(frame, told.node), row[split.index].numpy()
    owner = np.repeat(np.array(tasks.names, object), split.sizes.numpy())
    known, codes = factorized(read_column(table, told.node))
    if rows.max() >= len(table) or (np.array(known, object)[codes[rows]] != owner).any():
        raise MismatchError(
            "frame", "rows of the table are of other sites than those of the tasks: give the same table"
        )
    return read_column(table, name)[rows]


def _groups(values: np.ndarray, bands: Sequence[float] | None) -> tuple[list[str], Tensor]:
    """Return the names of groups, the last for rows without a value, and the group of every row."""
    words, codes = factorized(values)
    names, place = [*words], np.arange(len(words))
    if values.dtype.kind != "O" and (bands or len(words) > FEW):
        ends = np.unique(bands or np.nanquantile(values, (0.25, 0.5, 0.75)))
        texts = [f"{end:g}" for end in ends]
        names = [f"below {texts[0]}", *(f"{a} to below {b}" for a, b in pairwise(texts)), f"{texts[-1]} and more"]
        place = np.searchsorted(ends, np.array(words, float), side="right")
    elif len(words) > MOST:
        often = np.sort(np.bincount(codes[codes >= 0]).argsort(kind="stable")[-MOST:])
        names = [*(words[k] for k in often), f"{len(words) - MOST} others"]
        place = np.where(np.isin(place, often), np.searchsorted(often, place), MOST)
    return [*names, "missing"], torch.from_numpy(np.append(place, len(names))[codes])


def _tested(result: Result) -> list[Tensor]:
    """Return outputs, targets and optional weights of the test samples of all nodes, node after node."""
    found: dict[int, list[Tensor]] = {}
    for chunk in result.env.engine.predict(Rows.own(result.stacks), "test"):
        parts = [part.detach().cpu() for part in (chunk.outputs, chunk.targets, chunk.weight) if part is not None]
        for r, (node, size) in enumerate(zip(chunk.rows.tolist(), chunk.sizes.tolist(), strict=True)):
            found[node] = [part[r, :size] for part in parts]
    return [torch.cat(parts) for parts in zip(*(found[k] for k in sorted(found)), strict=True)]
