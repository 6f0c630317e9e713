"""Models that say the same whatever they see: what a model must beat to have learned anything from its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context
from graphcollab.gains.arms import Measured
from graphcollab.tasks import Tasks
from graphcollab.train.elsewhere import told_by_owners

FREQUENCIES = "the class frequencies"
CONSTANTS = {"mse": "the mean of the targets", "cross_entropy": FREQUENCIES, "bce": FREQUENCIES}
"""What constants say, by loss."""

ADDED = 0.5  # samples of each class beside those there are


def constants(tasks: Tasks, measured: Measured, shape: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Return validation losses [K] and test metrics [M, H, K] of what training targets say by themselves, float64.

    They are the mean for ``"mse"``, logits of (weighted) class frequencies for ``"cross_entropy"`` and ``"bce"``, None
    for other losses; half a sample added to each class keeps losses finite. Where targets are noise, models of more
    sites overfit less, which is no gain: constants do better. ``shape`` is that of a model's output for one sample.
    """
    if not isinstance(tasks.loss, str) or tasks.loss not in CONSTANTS:
        return None
    loss = as_objective(tasks.loss)
    losses = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    scores = torch.full((len(measured.metrics), len(measured.splits), tasks.num_nodes), torch.nan, dtype=torch.float64)
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        said = _said(tasks.loss, *_targets(tasks, "train", node), shape)
        targets, weight = _targets(tasks, "val", node)
        share = None if weight is None else weight / weight.sum()
        losses[node] = loss(said.expand(len(targets), *shape), targets, Context(share, {})).double()
        for h, split in enumerate(measured.splits):
            targets, weight = _targets(tasks, split, node)
            outputs = said.expand(len(targets), *shape).float()
            weight = None if weight is None else weight[None]
            for m, metric in enumerate(measured.metrics if len(targets) else ()):
                scores[m, h, node] = metric(outputs[None], targets[None], weight=weight)[0]
    every = told_by_owners(tasks, torch.cat([losses[:, None], scores.movedim(-1, 0).flatten(1)], 1))
    return every[:, 0], every[:, 1:].T.reshape(scores.shape)


def _said(loss: str, targets: Tensor, weight: Tensor | None, shape: Sequence[int]) -> Tensor:
    """Return the output for every sample of a site with these training targets [n, ...], of the given shape."""
    if loss == "mse":
        return _mean(targets, weight).reshape(tuple(shape))
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
