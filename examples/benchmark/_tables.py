"""Tables of reproductions: how soon methods are good, what that costs, and whether graphs show the true clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import recovery_auc
from graphcollab.analysis.metrics.edges import Graph, Graphs, pair_weights
from graphcollab.analysis.metrics.recovery import adjusted_rand_index
from graphcollab.analysis.metrics.traffic import cluster_traffic, contact_counts, never_sampled
from graphcollab.analysis.trial import Trial
from graphcollab.report._terms import failures
from graphcollab.report.values import Cell, Table, byte_size, count_cell, mean_cell, number, number_cell, shown_in


def time_to_table(comparison: Comparison, target: float) -> str:
    """Return rounds, seconds and bytes until the mean test metric was first as good as a target, for every method.

    Values are means over the seeds on which the target was reached; the last column says how many those are. Nothing is
    interpolated: the first evaluation counts at which the target is reached.

    A target of a metric that is a share is in [0, 1].
    """
    rows = []
    for name, trials in comparison.chosen.items():
        found = [end for trial in trials if (end := _reached(trial, target, comparison.higher_is_better))]
        cells = [Cell(failures(comparison, name) or "not reached"), Cell(), Cell()]
        if found:
            rounds, seconds, sent = _column(found).mean(0).tolist()
            cells = [count_cell(rounds), number_cell(seconds, 1), Cell(byte_size(sent), sent)]
        rows.append([Cell(name), *cells, count_cell(len(found), f"of {len(trials)}")])
    goal = f"{100 * target:.4g} %" if comparison.share else number(target, None)
    columns = [f"mean test {comparison.metric} {goal}", "rounds", "seconds", "sent per node", "reached on"]
    return str(Table(columns, rows))


def _reached(trial: Trial, target: float, higher: bool) -> tuple[float, float, float] | None:
    """Return rounds, seconds and bytes a node at the first evaluation as good as a target, if there is one."""
    for t, (round_, value) in enumerate(zip(*trial.curve, strict=True)):
        if value >= target if higher else value <= target:
            return round_, trial.seconds[t], trial.sent[t]
    return None


def budget_table(comparison: Comparison, budget: float | None = None) -> str:
    """Return how many messages and bytes nodes sent, and how good models were when a budget of messages was spent.

    It is Table 4 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_. A message is one
    edge used in one round (see ``messages_sent`` in `History`); "of all pairs" is the share of the
    K (K - 1) messages in every round that all pairs of K nodes would send. Bytes are of all nodes together. Values are
    means over seeds.

    The last two columns are the mean test metric at the last evaluation before which no more than the budget was sent,
    and its round. Nothing is interpolated. Where more was sent before the first evaluation, there is none.
    """
    scale, digits, percent = shown_in(comparison.share, 2)
    digits = digits or 4
    columns = ["method", f"mean test {comparison.metric}{percent}", "messages", "of all pairs (%)", "sent"]
    if budget is not None:
        columns += [f"within {budget:,.0f} messages{percent}", "in round"]
    rows = []
    for name, trials in comparison.chosen.items():
        if failed := failures(comparison, name):
            rows.append([Cell(name), Cell(failed)])
            continue
        messages, sent = _column([(t.messages[-1], len(t.per_node) * t.sent[-1]) for t in trials]).T  # [S] each
        pairs = _column([len(t.per_node) * (len(t.per_node) - 1) * t.curve[0][-1] or math.nan for t in trials])
        share = (100 * messages / pairs).mean()
        cells = [Cell(name), mean_cell(scale * _column(comparison.values(name)), digits)]
        total = float(sent.mean())
        cells += [count_cell(float(messages.mean())), number_cell(float(share), 1), Cell(byte_size(total), total)]
        if budget is not None:
            found = _column([_within(trial, budget) for trial in trials])  # [S, 2]
            cells += [mean_cell(scale * found[:, 1], digits), count_cell(float(found[:, 0].mean()))]
        rows.append(cells)
    return str(Table(columns, rows))


def _within(trial: Trial, budget: float) -> tuple[float, float]:
    """Return round and metric at the last evaluation before which a number of messages was not exceeded, or NaN."""
    kept = [one for *one, sent in zip(*trial.curve, trial.messages, strict=True) if sent <= budget]
    return tuple(kept[-1]) if kept else (math.nan, math.nan)


def weight_table(runs: Mapping[str, Sequence[Graph]], cluster: Tensor, threshold: float = 0.5) -> str:
    """Return how well weights show the true clusters, mean and standard deviation over runs.

    Columns are the mean weight of pairs inside a cluster and of pairs of different ones (pairs without an edge weigh
    0), the area under the ROC curve (`recovery_auc`), the adjusted Rand index (`adjusted_rand_index`), and on how many
    runs the clusters are exact.

    Clusters are exact if every receiver tells its own from the others: with m the largest weight that it gives to
    another node, it gives more than half of m to everybody in its cluster, and at most half of m to everybody else. So
    it does not matter whether weights are in [0, 1] or sum to 1. A node that is alone in its cluster is compared with
    itself: m is the weight of its self-loop, 0 without one. A node that listens to nobody has not found its cluster,
    unless it is alone in it.

    Args:
        runs: For every method one graph, edges j -> i, [2, E], and their weights, [E], for each seed.
        cluster: The true cluster of each node, [K].
        threshold: What separates listening from not listening, as a share of m.
    """
    cluster = cluster.cpu()
    same, own = cluster[:, None] == cluster, torch.eye(len(cluster), dtype=torch.bool)
    alone, rows = same.sum(1) == 1, []
    for name, seeds in runs.items():
        values, exact = [], 0
        for edge_index, weight in seeds:
            weights = pair_weights(edge_index.cpu(), weight.cpu(), len(cluster)).nan_to_num(0.0)
            inside, between = float(weights[same & ~own].mean()), float(weights[~same].mean())
            area, rand = (of(edge_index, weight, cluster) for of in (recovery_auc, adjusted_rand_index))
            values.append((inside, between, area, rand))
            most = torch.where(alone, weights.diagonal(), weights.masked_fill(own, 0).amax(1)).clamp(min=0)
            chosen = weights > threshold * most[:, None]
            exact += bool((chosen | ~same | own).all() and (~chosen | same).all())
        rows.append([Cell(name), *_cells(values, (3, 3, 3, 2)), count_cell(exact, f"of {len(seeds)}")])
    columns = ["method", "weight inside", "weight between", "recovery AUC", "adjusted Rand", "exact on"]
    return str(Table(columns, rows))


def peer_table(runs: Mapping[str, Sequence[Graphs]], cluster: Tensor, last: int | None = None) -> str:
    """Return how well the graphs of methods show the true clusters, mean and standard deviation over runs.

    Of the last rounds: the share of the merged models that came from a receiver's own cluster (`cluster_traffic`, mean
    over rounds), and of the counts who listened to whom how often (`contact_counts`) the area under the ROC curve
    (`recovery_auc`, pairs that never met count 0) and the adjusted Rand index (`adjusted_rand_index`). Of the whole
    run: how many nodes nobody else ever listened to (`never_sampled`). Methods whose nodes listen to nobody have no
    values. The area is below 1 for nodes that find enough peers and stop looking for the others.

    Args:
        runs: For every method the graphs by round, such as ``history.graphs``, for each seed.
        cluster: The true cluster of each node, [K].
        last: How many of the recorded rounds count as the last ones. Default: a third of them, rounded up.
    """
    cluster, rows = cluster.cpu(), []
    for name, seeds in runs.items():
        values = []
        for graphs in seeds:
            late = {round_: graphs[round_] for round_ in sorted(graphs)[-(last or math.ceil(len(graphs) / 3)) :]}
            edge_index, times = contact_counts(late, len(cluster))
            if not len(times):
                values.append((math.nan,) * 4)
                continue
            share = 100 * float(cluster_traffic(late, cluster)[1].nanmean())
            area, rand = (of(edge_index, times.double(), cluster) for of in (recovery_auc, adjusted_rand_index))
            values.append((share, area, rand, len(never_sampled(graphs, len(cluster)))))
        rows.append([Cell(name), *_cells(values, (1, 3, 2, 1))])
    return str(Table(["method", "from own cluster (%)", "recovery AUC", "adjusted Rand", "never heard"], rows))


def _cells(values: Sequence[tuple[float, ...]], digits: Sequence[int]) -> list[Cell]:
    """Return what was measured of each run, a column after the other."""
    return [*map(mean_cell, _column(values).T, digits)]


def _column(values: Sequence[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
