"""What samples sites have: how many of their rarer class, of other targets than most, of how many groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graphcollab.engine.losses import objective_of
from graphcollab.engine.objective import Context
from graphcollab.gains.arms import Measured
from graphcollab.metrics.scores import judging
from graphcollab.tasks import Tasks
from graphcollab.tasks._pairs import class_labels
from graphcollab.train.start import plane_of

LEAST = 5  # samples beside the most frequent target, with which something is claimed of a site


def rarer_held(tasks: Tasks, split: str = "test") -> Tensor | None:
    """Return how many samples of a split are of each node's rarer class, [K], where there are two classes in all."""
    if tasks.classes is not None and int(tasks.classes.any(0).sum()) != 2:
        return None
    held = tasks.splits[split]
    targets = tasks.pools[held.pool].targets.cpu()
    known = class_labels(targets)
    labels = torch.zeros(len(targets)) if known is None else known.double()
    low, high = labels.min(), labels.max()
    odd = torch.tensor(known is None) | ((labels != low) & (labels != high)).any()
    counts = [held.totals((labels == one).double()) for one in (low, high)]
    own = torch.stack([low, high, odd.double()]).double().expand(tasks.num_nodes, -1)
    low, high, odd, lows, highs = plane_of(tasks).publish(torch.cat([own, torch.stack(counts, 1)], 1)).T
    least, most = low.min(), high.max()
    several = ((low != least) & (low != most)) | ((high != least) & (high != most))
    if bool((several | odd.bool()).any()) or bool(least == most):
        return None
    return torch.minimum(lows.where(low == least, 0.0), highs.where(high == most, 0.0))


def asked(dealt: Sequence[Tasks]) -> dict[str, Any]:
    """Return the rows of every node by split, all doubts, and of a table its columns: sites, target, groups, inputs."""
    tasks = dealt[0]
    splits = [name for name in ("train", "val", "test") if name in tasks.splits]
    many = {name: torch.stack([one.sizes(name) for one in dealt]).double().mean(0).round().long() for name in splits}
    about: dict[str, Any] = {"rows": {name: sizes.tolist() for name, sizes in many.items()}, "loss": str(tasks.loss)}
    every = {(one.code, one.subject): str(one) for split in reversed(dealt) for one in split.findings}
    about["doubts"] = [*every.values()]
    table = tasks.preparation
    if table is not None:
        about |= {"site": table.node, "target": table.target.name, "classes": [*table.classes], "group": table.group}
        about |= {"columns": [column.name for column in table.columns], "inputs": len(table.features)}
    return about


def groups_held(tasks: Tasks) -> Tensor | None:
    """Return of how many groups (``group`` of `Tasks.from_frame`) nodes' test samples are, [K], or None."""
    held = tasks.splits["test"]
    group = tasks.pools[held.pool].group
    if group is None:
        return None
    counts = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        counts[node] = len(group.cpu()[held.of(node)].unique())
    return plane_of(tasks).publish(counts)


def minority_held(tasks: Tasks) -> Tensor:
    """Return how many samples of all splits (groups as one) have another target than most, [K]; at most `LEAST`.

    Of times until an event it is those that end with one.
    """
    counts = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    held = [(split, tasks.pools[split.pool]) for name in ("train", "val", "test") if (split := tasks.splits.get(name))]
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        targets = torch.cat([pool.targets.cpu()[split.of(node)] for split, pool in held])
        _, kind, many = targets.reshape(len(targets), -1).unique(dim=0, return_inverse=True, return_counts=True)
        other = targets[:, 1] > 0 if tasks.loss == "cox" else kind != many.argmax()
        groups = [pool.group.cpu()[split.of(node)] for split, pool in held if pool.group is not None]
        counts[node] = len(torch.cat(groups)[other].unique()) if groups else int(other.sum())
    return plane_of(tasks).publish(counts.clamp(max=LEAST))


FREQUENCIES = "the class frequencies"
MEAN = "the mean of the targets"
CONSTANTS = {"mse": MEAN, "poisson": MEAN, "cross_entropy": FREQUENCIES, "bce": FREQUENCIES, "cox": "one risk for all"}
"""What constants say, by loss."""

ADDED = 0.5  # samples of each class beside those there are


def constants(tasks: Tasks, measured: Measured, shape: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Return validation losses [K] and test metrics [M, H, K] of what training targets say by themselves, float64.

    They are the mean for ``"mse"`` and (its logarithm) ``"poisson"``, logits of (weighted) class frequencies for
    ``"cross_entropy"`` and ``"bce"``, 0 for ``"cox"``, None for other losses; half a sample added to each class keeps
    losses finite. Where targets are noise, models of more sites overfit less, which is no gain: constants do better.
    ``shape`` is that of a model's output for one sample.
    """
    if not isinstance(tasks.loss, str) or tasks.loss not in CONSTANTS:
        return None
    loss = objective_of(tasks)
    losses = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    scores = torch.full((len(measured.metrics), len(measured.splits), tasks.num_nodes), torch.nan, dtype=torch.float64)
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        said = _said(tasks.loss, *_targets(tasks, "train", node), shape, tasks.scale)
        targets, weight = _targets(tasks, "val", node)
        share = None if weight is None else weight / weight.sum()
        losses[node] = loss(said.expand(len(targets), *shape), targets, Context(share, {})).double()
        for h, split in enumerate(measured.splits):
            targets, weight = _targets(tasks, split, node)
            outputs = said.expand(len(targets), *shape).float()
            weight = None if weight is None else weight[None]
            for m, metric in enumerate(measured.metrics if len(targets) else ()):
                scores[m, h, node] = judging(metric, loss)(outputs[None], targets[None], weight=weight)[0]
    every = plane_of(tasks).publish(torch.cat([losses[:, None], scores.movedim(-1, 0).flatten(1)], 1))
    return every[:, 0], every[:, 1:].T.reshape(scores.shape)


def _said(loss: str, targets: Tensor, weight: Tensor | None, shape: Sequence[int], scale: float) -> Tensor:
    """Return the output for every sample of a site with these training targets [n, ...], of the given shape."""
    if loss == "mse":
        return _mean(targets, weight).reshape(tuple(shape))
    if loss == "poisson":  # of no events at all, as of half a one
        return _mean(targets, weight).clamp(min=ADDED / len(targets)).div(scale).log().reshape(tuple(shape))
    if loss == "cox":
        return torch.zeros(tuple(shape))
    classes = shape[0] if loss == "cross_entropy" else 2
    if loss == "cross_entropy":
        targets = functional.one_hot(targets, classes)
    # as many as there are, also where they have weights, of which only ratios matter
    share = (len(targets) * _mean(targets, weight) + ADDED) / (len(targets) + classes * ADDED)
    return share.log() if loss == "cross_entropy" else share.logit().reshape(tuple(shape))


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over samples of values [n, ...], in double precision."""
    values = values.double()
    return values.mean(0) if weight is None else torch.einsum("n,n...->...", weight / weight.sum(), values)


def _targets(tasks: Tasks, split: str, node: int) -> tuple[Tensor, Tensor | None]:
    held = tasks.splits[split]
    pool, own = tasks.pools[held.pool], held.of(node)
    return pool.targets.cpu()[own], None if pool.weight is None else pool.weight.cpu()[own]
