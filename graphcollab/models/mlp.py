"""A multilayer perceptron."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from graphcollab.settings import Count, checked

__all__ = ["MLP"]


class MLP(nn.Sequential):
    """Fully connected layers with ReLU between them, for inputs of any shape, which are flattened.

    The model is ``head(backbone(inputs))``: ``backbone`` flattens and ends with the last hidden layer's ReLU, ``head``
    is the linear classifier.

    Args:
        in_features: Numbers in one sample.
        hidden: Width of the hidden layer, or a sequence of widths. An empty sequence gives a linear classifier.
        num_classes: Number of outputs (logits).

    Shapes:
        inputs: [B, ...] with ``in_features`` numbers per sample.
        output: [B, num_classes].

    Example:
        >>> import torch
        >>> model = MLP(64, 64, 10)
        >>> model(torch.zeros(5, 1, 8, 8)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([5, 10]), 4810)
    """

    @checked
    def __init__(self, in_features: Count, hidden: Count | Sequence[Count], num_classes: Count) -> None:
        widths = [in_features, *([hidden] if isinstance(hidden, int) else hidden)]
        layers: list[nn.Module] = [nn.Flatten()]
        for width, next_width in itertools.pairwise(widths):
            layers += [nn.Linear(width, next_width), nn.ReLU()]
        super().__init__(OrderedDict(backbone=nn.Sequential(*layers), head=nn.Linear(widths[-1], num_classes)))

    @classmethod
    def for_shape(cls, input_shape: Sequence[int], num_classes: int, hidden: int | Sequence[int] = 64) -> MLP:
        """Build the model for samples of a given shape."""
        return cls(math.prod(input_shape), hidden, num_classes)
