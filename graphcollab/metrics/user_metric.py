"""A metric made of a user's own function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab.metrics.metric import Metric

__all__ = ["UserMetric"]


@dataclass(frozen=True)
class UserMetric(Metric):
    """Applies ``fn(outputs [n, ...], targets [n, ...]) -> float`` to every node's samples, without padding.

    The function is called once per node, so it costs what K calls cost. A node without samples gives NaN, and the
    function is not called for it.

    Args:
        name: What tables call it.
        higher_is_better: Whether a larger value is a better one.
        fn: The function; it returns a number or a tensor with one element.

    Shapes:
        outputs: [R, n, ...].
        targets: [R, n, ...].
        mask: [R, n], bool.
        Output: [R], float64.

    Raises:
        TypeError: If the function returns something that is no number; the message names the row.

    Example:
        >>> largest = UserMetric("largest error", False, lambda outputs, targets: (outputs - targets).abs().max())
        >>> largest(torch.tensor([[1.0, 5.0]]), torch.zeros(1, 2), torch.tensor([[True, False]]))
        tensor([1.], dtype=torch.float64)
    """

    fn: Callable[[Tensor, Tensor], float | Tensor]

    def measure(self, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Call the function for each row."""
        values = [self._value(row, outputs[row][mask[row]], targets[row][mask[row]]) for row in range(mask.size(0))]
        return torch.tensor(values, dtype=torch.float64, device=outputs.device)

    def _value(self, row: int, outputs: Tensor, targets: Tensor) -> float:
        if targets.size(0) == 0:
            return float("nan")
        value = self.fn(outputs, targets)
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"metric {self.name}: expected one number for row {row}, got {type(value).__name__}: {error}"
            ) from error
