"""Several datasets as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphcollab.datasets.labelled_arrays import LabelledArrays
from graphcollab.settings import checked
from graphcollab.tasks.partition import label_ranges

__all__ = ["join_datasets"]


@checked
def join_datasets(sources: Sequence[LabelledArrays]) -> LabelledArrays:
    """Join datasets to one that has all their samples and classes.

    Labels of a dataset are shifted up by the classes of those before it: MNIST and Fashion-MNIST together have 20
    classes, MNIST's own and Fashion-MNIST's as 10 to 19.

    Args:
        sources: Datasets with inputs of one shape.

    Raises:
        ValueError: If there are none, or shapes of inputs differ.

    Example:
        >>> from graphcollab.datasets import load_dataset
        >>> digits = load_dataset("digits")
        >>> join_datasets([digits, digits])
        LabelledArrays('digits + digits', train=2694, test=900, input_shape=(1, 8, 8), num_classes=20)
    """
    if not len(sources):
        raise ValueError("there must be at least one dataset to join, got none")
    starts = [labels.start for labels in label_ranges(sources)]
    return LabelledArrays(
        " + ".join(source.name for source in sources),
        torch.cat([source.train_inputs for source in sources]),
        torch.cat([source.train_targets + start for source, start in zip(sources, starts, strict=True)]),
        torch.cat([source.test_inputs for source in sources]),
        torch.cat([source.test_targets + start for source, start in zip(sources, starts, strict=True)]),
        tuple(name for source in sources for name in source.class_names),
    )
