"""Errors of regression."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphcollab.metrics.metric import Metric, row_mean

__all__ = ["MeanError", "mae", "mse"]


@dataclass(frozen=True)
class MeanError(Metric):
    r"""The mean of :math:`|\text{output} - \text{target}|^p` over samples and output dimensions.

    Args:
        name: What tables call it.
        higher_is_better: False.
        power: The exponent p: 2 for the mean squared error, 1 for the mean absolute error.

    Shapes:
        outputs: [R, n, ...]; [R, n, 1] goes with targets [R, n] too.
        targets: [R, n, ...].
        mask: [R, n], bool.
        Output: [R], float64.

    Raises:
        ValueError: If outputs and targets have different shapes; nothing is broadcast.

    Example:
        >>> import torch
        >>> outputs, targets = torch.tensor([[[1.0], [4.0]]]), torch.tensor([[0.0, 1.0]])
        >>> mse(outputs, targets), mae(outputs, targets)
        (tensor([5.], dtype=torch.float64), tensor([2.], dtype=torch.float64))
    """

    name: str = "mse"
    higher_is_better: bool = False
    power: float = 2.0

    def measure(self, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Return the mean error of each row."""
        if outputs.shape == (*targets.shape, 1):
            outputs = outputs.squeeze(-1)
        if outputs.shape != targets.shape:
            raise ValueError(
                f"{self.name}: outputs and targets must have the same shape, "
                f"got {list(outputs.shape)} and {list(targets.shape)}"
            )
        return row_mean((outputs.double() - targets.double()).abs().pow(self.power), mask)


mse = MeanError("mse", power=2.0)
mae = MeanError("mae", power=1.0)
