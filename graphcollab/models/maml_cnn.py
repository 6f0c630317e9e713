"""The four-layer convolutional network of MAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from graphcollab.models._max_pool import MaxPool2
from graphcollab.models._shapes import image_size
from graphcollab.models.norm import replace_batch_norm
from graphcollab.settings import Count, checked

__all__ = ["MamlCNN"]


class MamlCNN(nn.Module):
    """The four-layer CNN of MAML for MiniImageNet, with group normalisation.

    `Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks <https://arxiv.org/abs/1703.03400>`_
    (Finn et al., 2017).

    Four blocks of a 3 x 3 convolution that keeps the size, normalisation, ReLU and 2 x 2 max pooling, then a linear
    classifier. Deviation from the paper: normalisation is over groups of channels by default, because batch statistics
    mix the samples of nodes whose data differ; ``norm="batch"`` is the original.

    The model is ``head(backbone(inputs))`` and returns logits.

    Args:
        in_channels: Channels of the images.
        num_classes: Number of outputs.
        channels: Channels of every block. The paper has 32 for MiniImageNet.
        input_size: Height and width of the images in pixels, at least 16, or (height, width).
        norm: ``group`` or ``batch``.

    Shapes:
        inputs: [B, in_channels, H, W].
        output: [B, num_classes].

    Raises:
        ValueError: The images are too small.

    Example:
        >>> model = MamlCNN(3, 5)
        >>> sum(p.numel() for p in model.parameters()), model.backbone[1].num_groups
        (32901, 2)
    """

    @checked
    def __init__(
        self,
        in_channels: Count,
        num_classes: Count,
        channels: Count = 32,
        input_size: Count | tuple[Count, Count] = 84,
        norm: Literal["group", "batch"] = "group",
    ) -> None:
        super().__init__()
        height, width = (input_size, input_size) if isinstance(input_size, int) else input_size
        if min(height, width) < 16:
            raise ValueError(f"MamlCNN: images of {input_size} pixels are too small; four poolings need 16")
        layers: list[nn.Module] = []
        for fan_in in (in_channels, channels, channels, channels):
            layers += [nn.Conv2d(fan_in, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), MaxPool2()]
        self.backbone = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(channels * (height // 16) * (width // 16), num_classes)
        if norm == "group":
            replace_batch_norm(self)

    @classmethod
    def for_shape(
        cls,
        input_shape: Sequence[int],
        num_classes: int,
        channels: int = 32,
        norm: Literal["group", "batch"] = "group",
    ) -> MamlCNN:
        """Build the model for images of a given shape (channels, height, width)."""
        in_channels, size = image_size(cls.__name__, input_shape)
        return cls(in_channels, num_classes, channels, size, norm)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.backbone(inputs))
