"""How well each node's model does on the node's own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeAlias

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.engine import Engine, Rows
from graphcollab.settings import checked, look_up

__all__ = ["METRICS", "Metric", "accuracy", "as_metric", "auc", "mae", "mse", "score_rows"]


@dataclass(frozen=True)
class Metric:
    """How well each node's model does on the node's own data.

    A metric is called with the outputs of all rows at once. Rows may have unequal numbers of samples: they are padded,
    and ``mask`` says what is real. What stands in the padding never changes the result. A row without samples gives
    NaN.

    Args:
        name: What tables and histories call it.
        higher_is_better: Whether a larger value is a better one.
        measure: Returns the value of each row, given outputs, targets and mask, whose R and n agree. `Metric.per_node`
            makes it of a function for the samples of one node.
        undefined: When a node with samples has no value all the same, for messages.

    Shapes:
        outputs: [R, n, ...], the outputs of R rows on n samples each.
        targets: [R, n, ...].
        mask: [R, n], bool. Default: all samples are real.
        Output: [R], float64.

    Example:
        >>> def share(outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        ...     return row_mean(outputs > targets, mask)
        >>> Metric("share", True, share)(torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 2.0]]))
        tensor([0.5000], dtype=torch.float64)
    """

    name: str
    higher_is_better: bool
    measure: Callable[[Tensor, Tensor, Tensor], Tensor] = field(repr=False)
    undefined: str = ""

    @classmethod
    def per_node(cls, name: str, higher_is_better: bool, function: Callable[[Tensor, Tensor], Any]) -> Metric:
        """Make a metric of ``function(outputs [n, ...], targets [n, ...]) -> number``, given one node's real samples.

        It is called once per node, so it costs what K calls cost, and not for nodes without samples, whose value is
        NaN. It returns a number or a tensor with one element; the metric raises a ``TypeError`` where it does not.

        Example:
            >>> largest = Metric.per_node("largest error", False, lambda out, targets: (out - targets).abs().max())
            >>> largest(torch.tensor([[1.0, 5.0]]), torch.zeros(1, 2), torch.tensor([[True, False]]))
            tensor([1.], dtype=torch.float64)
        """
        return cls(name, higher_is_better, partial(_each_node, name, function))

    def __call__(self, outputs: Tensor, targets: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the value of each row."""
        if mask is None:
            mask = targets.new_ones(targets.shape[:2]).bool()
        if not outputs.shape[:2] == targets.shape[:2] == mask.shape:
            raise ValueError(
                f"{self.name}: outputs [R, n, ...], targets [R, n, ...] and mask [R, n] must agree in R and n, "
                f"got {list(outputs.shape)}, {list(targets.shape)} and {list(mask.shape)}"
            )
        return self.measure(outputs.detach(), targets, mask.bool())


def _each_node(name: str, function: Callable[..., Any], outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    found = torch.full((len(mask),), torch.nan, dtype=torch.float64, device=outputs.device)
    for row in mask.any(1).nonzero().flatten().tolist():
        value = function(outputs[row][mask[row]], targets[row][mask[row]])
        try:
            found[row] = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"metric {name}: expected one number for row {row}, got {type(value).__name__}: {error}"
            ) from error
    return found


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of each row of values [R, n, ...] over real samples and all further dimensions, [R], float64.

    It is NaN for a row without samples.
    """
    # [R, n]
    values = values.double().flatten(2).mean(dim=2) if values.dim() > 2 else values.double()
    return values.where(mask, 0.0).sum(dim=1) / mask.sum(dim=1)


def _accuracy(outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    if outputs.dim() == 2:
        outputs = outputs.unsqueeze(2)
    predicted = outputs.argmax(dim=2) if outputs.size(2) > 1 else (outputs > 0).long().squeeze(2)
    if predicted.shape != targets.shape:
        raise ValueError(
            "accuracy: outputs [R, n, C, ...] and targets [R, n, ...] do not belong together, "
            f"got {list(outputs.shape)} and {list(targets.shape)}"
        )
    return row_mean(predicted == targets, mask)


accuracy = Metric("accuracy", True, _accuracy)
"""The share of samples whose predicted class is the true one.

Outputs [R, n, C, ...] with C classes are read as PyTorch's cross-entropy reads them: classes are the dimension after
the samples. Outputs [R, n] without classes, or with one, [R, n, 1], are read as logits of class 1 in a binary task.
Targets [R, n, ...] are class indices.
"""


def _auc(outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    scores = outputs.double()
    if scores.dim() == 3 and scores.size(2) == 1:
        scores = scores.squeeze(2)
    elif scores.dim() == 3 and scores.size(2) == 2:
        scores = scores[:, :, 1] - scores[:, :, 0]
    if scores.dim() != 2:
        raise ValueError(
            "auc: outputs must be scores [R, n] or [R, n, 1], or two logits [R, n, 2], "
            f"got {list(outputs.shape)}; it is a metric of binary tasks"
        )
    targets = targets.squeeze(2) if targets.dim() == 3 and targets.size(2) == 1 else targets
    if targets.dim() != 2:
        raise ValueError(f"auc: targets must have shape [R, n] or [R, n, 1], got {list(targets.shape)}")
    strange = mask & (targets != 0) & (targets != 1)
    if bool(strange.any()):
        row, sample = strange.nonzero()[0].tolist()
        raise ValueError(f"auc: targets must be 0 or 1, but row {row} has a target {targets[row, sample].item()}")
    # Padding sorts behind everything real; a real score of infinity that stands among it is put right by ``real``.
    padded = scores.masked_fill(~mask, torch.inf).contiguous()
    ordered = padded.sort(dim=1).values
    real = mask.sum(dim=1, keepdim=True)
    below = torch.searchsorted(ordered, padded, right=False)
    not_above = torch.searchsorted(ordered, padded, right=True).minimum(real)
    rank = (below + not_above + 1).double() / 2
    positive = mask & (targets == 1)
    positives = positive.sum(dim=1)
    negatives = real.view(-1) - positives
    wins = rank.where(positive, 0.0).sum(dim=1) - positives * (positives + 1) / 2
    # A node of one class only divides 0 by 0.
    area = wins / (positives * negatives)
    return area.masked_fill((scores.isnan() & mask).any(dim=1), torch.nan)


auc = Metric("auc", True, _auc, undefined="it needs samples of both classes")
r"""The area under the ROC curve of a binary task: how often a positive sample scores above a negative one.

.. math::
    \mathrm{AUC} = \frac{\sum_{s \in +} r_s - P (P + 1) / 2}{P N}

where :math:`r_s` is the rank of sample s among the node's scores (the mean rank where scores are equal), and P and N
count the positive and negative samples. The value is NaN for a node that has samples of one class only, where the area
is not defined, and for a node with a score that is NaN.

Outputs are scores [R, n] or [R, n, 1], or two logits [R, n, 2], whose difference is the score of class 1. Targets
[R, n] or [R, n, 1] are 0 or 1; others are an error.
"""


def _mean_error(name: str, power: float, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    if outputs.shape == (*targets.shape, 1):
        outputs = outputs.squeeze(-1)
    if outputs.shape != targets.shape:
        raise ValueError(
            f"{name}: outputs and targets must have the same shape, got {list(outputs.shape)} and {list(targets.shape)}"
        )
    return row_mean((outputs.double() - targets.double()).abs().pow(power), mask)


mse = Metric("mse", False, partial(_mean_error, "mse", 2.0))
"""The mean of (output - target)² over samples and output dimensions.

Outputs and targets have the same shape [R, n, ...], but [R, n, 1] goes with targets [R, n] too; nothing is broadcast.
"""
mae = Metric("mae", False, partial(_mean_error, "mae", 1.0))
"""The mean of abs(output - target) over samples and output dimensions; of the same shapes as `mse`."""

METRICS: dict[str, Metric] = {metric.name: metric for metric in (accuracy, auc, mae, mse)}
"""The metrics that have a name."""

AnyMetric: TypeAlias = Annotated[str | Metric | Callable[..., Any], "a name, a Metric or a function"]


@checked
def as_metric(metric: AnyMetric) -> Metric:
    """Return the metric that a name or a function stands for, such as ``tasks.metric``.

    Args:
        metric: A name from ``METRICS``, a `Metric`, or a function ``(outputs [n, ...], targets [n, ...]) -> number``
            for the samples of one node, with an attribute ``higher_is_better`` (else a ValueError).
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return look_up("metric", metric, METRICS)
    name = getattr(metric, "__name__", type(metric).__name__)
    higher_is_better = getattr(metric, "higher_is_better", None)
    if higher_is_better is None:
        raise ValueError(
            f"metric {name} is a function: say higher_is_better by an attribute of that name (True or False), or make "
            f"it a Metric.per_node({name!r}, higher_is_better, function)"
        )
    return Metric.per_node(name, bool(higher_is_better), metric)


def score_rows(engine: Engine, rows: Rows, split: str, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return loss and metric of every row on a split of its node's data, [R] each, float64.

    They are NaN where the node has no such samples. A model whose loss, or one of whose predictions, is not finite has
    diverged: its loss is infinite and its metric NaN.
    """
    found = torch.full((2, len(rows)), torch.nan, dtype=torch.float64, device=rows.source.device)
    for chunk in engine.predict(rows, split):
        values = engine.losses_of(chunk).double()
        finite = torch.isfinite(chunk.outputs).reshape(*chunk.mask.shape, -1).all(2)
        diverged = chunk.mask.any(1) & ~((finite | ~chunk.mask).all(1) & torch.isfinite(values))
        score = metric(chunk.outputs, chunk.targets, chunk.mask).to(found).masked_fill(diverged, torch.nan)
        found[:, beside(chunk.rows, found)] = torch.stack([values.masked_fill(diverged, torch.inf), score])
    loss, score = found.cpu()
    return loss, score
