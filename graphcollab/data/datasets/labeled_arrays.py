"""Labeled datasets in memory, validated on construction, and joining several into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphcollab._base.errors import EmptyError, InvalidTypeError, MismatchError, RangeError, ShapeError
from graphcollab._base.settings import checked
from graphcollab.data.partition._deal import label_starts
from graphcollab.data.samples import refuse_not_finite


@dataclass(frozen=True, eq=False)
class LabeledArrays:
    """A classification dataset: training and test samples with their labels, as tensors.

    Every loader of :mod:`graphcollab.data.datasets` returns one. It is validated on construction.

    Args:
        name: Name of the dataset in messages and tables.
        train_inputs: Training samples, float32, [N, C, H, W] for images, otherwise any [N, ...].
        train_targets: Their labels, int64, each in ``0 .. num_classes - 1``, [N].
        test_inputs: Test samples, likewise. May be empty.
        test_targets: Their labels.
        class_names: One name per class. The position is the label.

    Raises:
        TypeError: A field is not a tensor or has another dtype.
        ValueError: Numbers of inputs and labels differ, there is no training sample, training and test samples have
            different shapes, an input is NaN or infinite, or a label is outside the classes.

    Example:
        >>> labels = torch.tensor([0, 1, 0])
        >>> data = LabeledArrays("toy", torch.zeros(3, 2), labels, torch.ones(1, 2), labels[:1], ("cat", "dog"))
        >>> data.num_classes, data.input_shape
        (2, (2,))
    """

    name: str
    train_inputs: Tensor
    train_targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", tuple(self.class_names))
        if not self.class_names:
            raise EmptyError("class_names", f"{self.name}: class_names is empty; give one name per class")
        self._check("train", self.train_inputs, self.train_targets)
        self._check("test", self.test_inputs, self.test_targets)
        if len(self.train_inputs) == 0:
            raise EmptyError("train_inputs", f"{self.name}: there is no training sample")
        if self.train_inputs.shape[1:] != self.test_inputs.shape[1:]:
            raise MismatchError(
                "test_inputs",
                f"{self.name}: a training sample has shape {tuple(self.train_inputs.shape[1:])}, "
                f"a test sample {tuple(self.test_inputs.shape[1:])}; they must agree",
            )

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample, such as (1, 28, 28)."""
        return tuple(self.train_inputs.shape[1:])

    def grayscale(self, side: int) -> LabeledArrays:
        """Average the channels of the images, crop the center, and standardize the result as one channel.

        This makes datasets with different image shapes fit one architecture.

        Args:
            side: Height and width of the crop, at most those of the images.

        Raises:
            ValueError: If the inputs are not images [N, C, H, W] of at least that size.
        """
        if len(self.input_shape) != 3 or min(self.input_shape[1:]) < side:
            raise RangeError(
                "side", f"{self.name}: grayscale({side}) needs images [C, H, W] that large, got {self.input_shape}"
            )
        top, left = ((size - side) // 2 for size in self.input_shape[1:])
        train, test = (
            images.mean(1, keepdim=True)[..., top : top + side, left : left + side]
            for images in (self.train_inputs, self.test_inputs)
        )
        mean, std = train.mean(), train.std()
        return replace(self, train_inputs=(train - mean) / std, test_inputs=(test - mean) / std)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, train={len(self.train_inputs)}, test={len(self.test_inputs)}, "
            f"input_shape={self.input_shape}, num_classes={self.num_classes})"
        )

    def _check(self, split: str, inputs: Tensor, targets: Tensor) -> None:
        x, y = f"{split}_inputs", f"{split}_targets"
        for subject, value, dtype in ((x, inputs, torch.float32), (y, targets, torch.int64)):
            if not isinstance(value, Tensor) or value.dtype != dtype:
                got = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise InvalidTypeError(
                    subject,
                    f"{self.name}: {subject} must be a tensor of {dtype}, got {got}; "
                    "graphcollab.data.datasets.from_arrays converts arrays and tensors",
                )
        if inputs.dim() < 2 or targets.dim() != 1:
            raise ShapeError(
                x,
                f"{self.name}: {x} must be [N, ...] with at least two axes and {y} [N], got {list(inputs.shape)} and "
                f"{list(targets.shape)}",
            )
        if len(inputs) != len(targets):
            raise MismatchError(y, f"{self.name}: {x} has {len(inputs)} samples, {y} {len(targets)} labels")
        refuse_not_finite(x, inputs, f"{self.name}: sample {{}}".format)
        outside = ((targets < 0) | (targets >= self.num_classes)).nonzero()
        if len(outside):
            first = int(outside[0])
            raise RangeError(
                y,
                f"{self.name}: {y} must be 0 .. {self.num_classes - 1} for {self.num_classes} classes, "
                f"but sample {first} has label {int(targets[first])}",
            )


@checked
def join_datasets(sources: Sequence[LabeledArrays]) -> LabeledArrays:
    """Join datasets into one with all their samples and classes.

    Labels of a dataset are shifted up by the number of classes of those before it: MNIST and Fashion-MNIST together
    have 20 classes, MNIST's own and Fashion-MNIST's as 10 to 19.

    Args:
        sources: Datasets with inputs of one shape.

    Raises:
        ValueError: If there are none, or their input shapes differ.
    """
    if not len(sources):
        raise EmptyError("datasets", "there must be at least one dataset to join, got none")
    starts = label_starts(sources)
    return LabeledArrays(
        " + ".join(source.name for source in sources),
        torch.cat([source.train_inputs for source in sources]),
        torch.cat([source.train_targets + start for source, start in zip(sources, starts, strict=True)]),
        torch.cat([source.test_inputs for source in sources]),
        torch.cat([source.test_targets + start for source, start in zip(sources, starts, strict=True)]),
        tuple(name for source in sources for name in source.class_names),
    )
