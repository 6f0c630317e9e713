"""The uncertainty of a metric due to its finite sample: the bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from graphcollab._base.keyed import keyed_uniform
from graphcollab._base.settings import Count, Real, Seed, checked
from graphcollab.analysis.metrics.metric import Metric
from graphcollab.analysis.metrics.scores import judging
from graphcollab.engine import Engine, Rows
from graphcollab.engine.stack import Stacks

_STREAM = 161
LARGE = 2**22  # maximum number of output values of the resamples evaluated at a time


@checked
def bootstrap(
    metric: Metric,
    outputs: Tensor,
    targets: Tensor,
    resamples: Count = 1000,
    seed: Seed = 0,
    node_id: int = 0,
    weight: Tensor | None = None,
    group: Tensor | None = None,
) -> Tensor:
    """Return a metric of B resamples of one node, [B], float64: n of its n samples, drawn with replacement.

    The draw is a function of ``seed``, ``node_id`` and n alone. Two models evaluated on the same samples are thus
    evaluated on the same resamples, and differences of the returned values are those of a paired bootstrap. Weighted
    samples [n] are drawn with equal probability and keep their weights. If samples have integer groups [n], whole
    groups are drawn, as many as there are. NaN if a resample has no value (an AUC of one class).

    Example:
        >>> from graphcollab.analysis.metrics.classification import accuracy
        >>> found = bootstrap(accuracy, torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1, 1, 1, 1]))
        >>> round(float(found.mean()), 1), sorted(set(found.tolist()))
        (0.5, [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    n = len(targets)
    if n == 0:
        return torch.full((resamples,), torch.nan, dtype=torch.float64)
    unit = torch.arange(n) if group is None else group.cpu().unique(return_inverse=True)[1]
    sizes = unit.bincount()
    members = pad_sequence(unit.argsort(stable=True).split(sizes.tolist()), True, -1)  # [units, samples of the largest]
    at_a_time = max(LARGE // max(outputs[0].numel() * members.numel(), 1), 1)
    found = []
    for some in torch.arange(resamples).split(at_a_time):
        uniform = keyed_uniform(seed, _STREAM, node_id, some[:, None], torch.arange(len(sizes)))
        drawn = members[(uniform * len(sizes)).long()].flatten(1).to(outputs.device)  # [b, units x samples]
        mask, drawn = None if group is None else drawn >= 0, drawn.clamp(min=0)
        found.append(metric(outputs[drawn], targets[drawn], mask, None if weight is None else weight[drawn]).cpu())
    return torch.cat(found)


def percentile_interval(values: Tensor, confidence: Annotated[float, Real(above=0, below=1)] = 0.95) -> Tensor:
    """Return the ends of percentile intervals, [..., 2], of bootstrapped values [..., B].

    Resamples without a value are ignored; if fewer than half have one, the interval is NaN.

    Example:
        >>> percentile_interval(torch.arange(101.0), 0.5).tolist()
        [25.0, 75.0]
    """
    flat = values.double().reshape(-1, values.shape[-1])
    out = torch.full((len(flat), 2), torch.nan, dtype=torch.float64)
    enough = (2 * (~flat.isnan()).sum(1) >= flat.shape[1]).nonzero().flatten()
    if len(enough):
        ends = [(1 - confidence) / 2, (1 + confidence) / 2]
        out[enough] = torch.as_tensor(np.nanquantile(flat[enough].numpy(), ends, axis=1)).T
    return out.reshape(*values.shape[:-1], 2)


def bootstrap_nodes(
    engine: Engine, models: Stacks, split: str, metrics: Sequence[Metric], resamples: int, seed: int = 0
) -> Tensor:
    """Return metrics of every node's resampled split, [M, K, B]; NaN for nodes without samples in this process."""
    found = torch.full((len(metrics), engine.tasks.num_nodes, resamples), torch.nan, dtype=torch.float64)
    ids, held = engine.tasks.ids.tolist(), engine.tasks.splits[split]
    groups = engine.tasks.pools[held.pool].group
    for chunk in engine.predict(Rows.own(models), split):
        for r, (node, n) in enumerate(zip(models.nodes[chunk.rows].tolist(), chunk.sizes.tolist(), strict=True)):
            for m, metric in enumerate(metrics if n else ()):
                one = chunk.outputs[r, :n].detach(), chunk.targets[r, :n]
                weight = None if chunk.weight is None else chunk.weight[r, :n]
                judged = judging(metric, engine.objective)
                group = None if groups is None else groups[held.of(node)]
                found[m, node] = bootstrap(judged, *one, resamples, seed, ids[node], weight, group)
    return found
