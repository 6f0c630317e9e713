"""Labeled datasets in memory, validated on construction, and joining several into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from graphcollab._base.errors import EmptyError, InvalidTypeError, MismatchError, RangeError, ShapeError
from graphcollab._base.settings import checked
from graphcollab.data.samples import Pool


@dataclass(frozen=True, eq=False)
class LabeledArrays:
    """A classification dataset: training and test samples with their labels, as tensors.

    Every loader of :mod:`graphcollab.data.datasets` returns one. It is validated on construction.

    Args:
        name: Name of the dataset in messages and tables.
        train: Training samples with their labels: inputs float32, [N, C, H, W] for images, otherwise any [N, ...], and
            targets int64, each in ``0 .. num_classes - 1``, [N].
        test: Test samples, likewise. May be empty.
        class_names: One name per class. The position is the label.

    Raises:
        TypeError: Inputs or labels have another type.
        ValueError: There is no training sample, training and test samples have different shapes, or a label is outside
            the classes.

    Example:
        >>> train, test = (Pool(torch.zeros(n, 2), torch.arange(n) % 2) for n in (3, 1))
        >>> data = LabeledArrays("toy", train, test, ("cat", "dog"))
        >>> data.num_classes, data.input_shape
        (2, (2,))
    """

    name: str
    train: Pool
    test: Pool
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", tuple(self.class_names))
        if not self.class_names:
            raise EmptyError("class_names", f"{self.name}: class_names is empty; give one name per class")
        self._check("train", self.train)
        self._check("test", self.test)
        if not len(self.train):
            raise EmptyError("train", f"{self.name}: there is no training sample")
        if self.input_shape != self.test.inputs.shape[1:]:
            raise MismatchError(
                "test",
                f"{self.name}: samples must have one shape, got {self.input_shape} and {self.test.inputs.shape[1:]}",
            )

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample, such as (1, 28, 28)."""
        return tuple(self.train.inputs.shape[1:])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, train={len(self.train)}, test={len(self.test)}, "
            f"input_shape={self.input_shape}, num_classes={self.num_classes})"
        )

    def _check(self, split: str, samples: Pool) -> None:
        if samples.inputs.dtype != torch.float32 or samples.targets.dtype != torch.int64:
            raise InvalidTypeError(
                split,
                f"{self.name}: {split} needs inputs of type float32 and labels of type int64, got "
                f"{samples.inputs.dtype} and {samples.targets.dtype}: use graphcollab.data.datasets.from_arrays",
            )
        if samples.inputs.dim() < 2 or samples.targets.dim() != 1:
            raise ShapeError(
                split,
                f"{self.name}: {split} needs inputs [N, ...] with at least two axes and labels [N], got "
                f"{list(samples.inputs.shape)} and {list(samples.targets.shape)}",
            )
        outside = ((samples.targets < 0) | (samples.targets >= self.num_classes)).nonzero()
        if len(outside):
            label = int(samples.targets[int(outside[0])])
            raise RangeError(split, f"{self.name}: labels must be 0 .. {self.num_classes - 1}, got {label} in {split}")


def label_starts(sources: Sequence[LabeledArrays]) -> list[int]:
    """Return the label offset of every dataset: the number of classes of those before it."""
    shapes = {source.input_shape for source in sources}
    if len(shapes) > 1:
        raise ShapeError(
            "inputs", f"sources' inputs have different shapes {sorted(shapes)}: bring them to one shape first"
        )
    return list(accumulate((source.num_classes for source in sources), initial=0))[:-1]


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
    train, test = (
        [Pool(pool.inputs, pool.targets + start) for pool, start in zip(pools, starts, strict=True)]
        for pools in ([source.train for source in sources], [source.test for source in sources])
    )
    names = tuple(name for source in sources for name in source.class_names)
    return LabeledArrays(" + ".join(source.name for source in sources), Pool.joined(train), Pool.joined(test), names)
