"""How well each node's model does on the node's own data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

__all__ = ["Metric", "row_mean"]


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
