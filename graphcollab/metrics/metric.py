"""What a metric is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

__all__ = ["Metric"]


@dataclass(frozen=True)
class Metric(ABC):
    """Base class of metrics: how well each node's model does on the node's own data.

    A metric is called with the outputs of all rows at once. Rows may have unequal numbers of samples: they are padded,
    and ``mask`` says what is real. What stands in the padding never changes the result. A row without samples gives
    NaN. A subclass writes :meth:`measure` only.

    Args:
        name: What tables and histories call it.
        higher_is_better: Whether a larger value is a better one.

    Shapes:
        outputs: [R, n, ...], the outputs of R rows on n samples each.
        targets: [R, n, ...].
        mask: [R, n], bool. Default: all samples are real.
        Output: [R], float64.

    Raises:
        ValueError: If the shapes do not belong together.

    Example:
        >>> import torch
        >>> class Share(Metric):
        ...     def measure(self, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        ...         return row_mean((outputs > targets).double(), mask)
        >>> Share("share", True)(torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 2.0]]))
        tensor([0.5000], dtype=torch.float64)
    """

    name: str
    higher_is_better: bool
    undefined: ClassVar[str] = ""
    """When a node with samples has no value all the same, for messages."""

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

    @abstractmethod
    def measure(self, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Return the value of each row; shapes are as above and agree in R and n."""


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of each row over its real samples and all further dimensions; NaN for a row without samples.

    Shapes:
        values: [R, n, ...].
        mask: [R, n], bool.
        Output: [R], float64.
    """
    # [R, n]
    values = values.double().flatten(2).mean(dim=2) if values.dim() > 2 else values.double()
    return values.where(mask, 0.0).sum(dim=1) / mask.sum(dim=1)
