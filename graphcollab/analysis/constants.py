"""Constant predictors from the training targets, their mean or class frequencies, as a baseline for models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.scores import judging
from graphcollab.data.samples import Pool
from graphcollab.data.tasks import Tasks
from graphcollab.engine.losses import objective_of
from graphcollab.engine.objective import Context
from graphcollab.train.start import all_gather

ADDED = 0.5  # samples added to each class


def constants(
    tasks: Tasks, metrics: Sequence[Metric], splits: Sequence[str], shape: Sequence[int] | None = None
) -> tuple[Tensor, Tensor] | None:
    """Return validation losses [K] and test metrics [M, H, K] of constants fitted to the training targets, float64.

    The constant is the mean for ``"mse"``, its logarithm for ``"poisson"``, the logits of (weighted) class frequencies
    for ``"cross_entropy"`` and ``"bce"``, 0 for ``"cox"``, and None for other losses; half a sample added to each class
    keeps losses finite. If targets are noise, models of more sites overfit less, which is no gain: constants do better.
    ``shape`` is that of a model's output for one sample; default: a number for each class, or target. Without
    validation samples, losses are NaN.
    """
    if not isinstance(tasks.loss, str):
        return None
    shape, loss = _shape(tasks) if shape is None else tuple(shape), objective_of(tasks)
    losses = torch.full((tasks.num_nodes,), torch.nan, dtype=torch.float64)
    constant = {}
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        train = tasks.of(node, "train").to("cpu")
        constant[node] = said = _said(tasks.loss, train.targets, train.weight, shape, tasks.scale)
        if "val" in tasks.splits:
            rows = tasks.of(node, "val").to("cpu")
            share = None if rows.weight is None else rows.weight / rows.weight.sum()
            losses[node] = loss(said.expand(len(rows), *shape), rows.targets, Context(share, {})).double()
    (scores,) = scores_of(tasks, metrics, splits, lambda node, rows: [constant[node].expand(len(rows), *shape)], 1)
    every = all_gather(torch.cat([losses[:, None], scores.movedim(-1, 0).flatten(1)], 1), tasks)
    return every[:, 0], every[:, 1:].T.reshape(scores.shape)


def scores_of(
    tasks: Tasks,
    metrics: Sequence[Metric],
    splits: Sequence[str],
    predict: Callable[[int, Pool], Sequence[Tensor]],
    count: int,
) -> Tensor:
    """Return metrics [count, M, H, K] of the outputs that ``predict`` makes of a node's samples in splits, float64.

    They are NaN without samples, and for nodes of other processes.
    """
    judges = [judging(metric, objective_of(tasks)) for metric in metrics]
    found = torch.full((count, len(metrics), len(splits), tasks.num_nodes), torch.nan, dtype=torch.float64)
    for node in (~tasks.elsewhere).nonzero().flatten().tolist():
        for h, split in enumerate(splits):
            rows = tasks.of(node, split).to("cpu")
            weight = None if rows.weight is None else rows.weight[None]
            for b, outputs in enumerate(predict(node, rows) if len(rows) else ()):
                for m, judge in enumerate(judges):
                    found[b, m, h, node] = judge(outputs[None].float(), rows.targets[None], weight=weight)[0]
    return found


def _shape(tasks: Tasks) -> tuple[int, ...]:
    if tasks.loss == "cross_entropy" and tasks.classes is not None:
        return (tasks.classes.size(1),)
    return (1,) if tasks.loss == "cox" else tuple(tasks.pools[tasks.splits["train"].pool].targets.shape[1:])


def _said(loss: str, targets: Tensor, weight: Tensor | None, shape: Sequence[int], scale: float) -> Tensor:
    """Return the output for every sample of a site with these training targets [n, ...], in the given shape."""
    if loss == "mse":
        return _mean(targets, weight).reshape(tuple(shape))
    if loss == "poisson":  # without any events, as if there were half a one
        return _mean(targets, weight).clamp(min=ADDED / len(targets)).div(scale).log().reshape(tuple(shape))
    if loss == "cox":
        return torch.zeros(tuple(shape))
    classes = shape[0] if loss == "cross_entropy" else 2
    if loss == "cross_entropy":
        targets = functional.one_hot(targets, classes)
    # the sum is the number of samples even with weights, of which only ratios matter
    share = (len(targets) * _mean(targets, weight) + ADDED) / (len(targets) + classes * ADDED)
    return share.log() if loss == "cross_entropy" else share.logit().reshape(tuple(shape))


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over samples of values [n, ...], in double precision."""
    values = values.double()
    return values.mean(0) if weight is None else torch.einsum("n,n...->...", weight / weight.sum(), values)
