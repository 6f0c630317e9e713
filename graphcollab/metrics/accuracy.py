"""Classification accuracy."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphcollab.metrics.metric import Metric, row_mean

__all__ = ["Accuracy"]


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of samples whose predicted class is the true one.

    Outputs with C classes are read as PyTorch's cross-entropy reads them: classes are the dimension after the samples.
    Outputs without classes, or with one, are read as logits of class 1 in a binary task.

    Shapes:
        outputs: [R, n, C, ...], or [R, n] or [R, n, 1] for binary tasks.
        targets: [R, n, ...], class indices.
        mask: [R, n], bool.
        Output: [R], float64, within 0 and 1.

    Raises:
        ValueError: If the shapes do not belong together.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]]])
        >>> Accuracy()(logits, torch.tensor([[0, 1, 1]]), torch.tensor([[True, True, False]]))
        tensor([1.], dtype=torch.float64)
    """

    name: str = "accuracy"
    higher_is_better: bool = True

    def measure(self, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Return the accuracy of each row."""
        if outputs.dim() == 2:
            outputs = outputs.unsqueeze(2)
        predicted = outputs.argmax(dim=2) if outputs.size(2) > 1 else (outputs > 0).long().squeeze(2)
        if predicted.shape != targets.shape:
            raise ValueError(
                f"{self.name}: outputs [R, n, C, ...] and targets [R, n, ...] do not belong together, "
                f"got {list(outputs.shape)} and {list(targets.shape)}"
            )
        return row_mean(predicted == targets, mask)
