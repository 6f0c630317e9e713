"""A residual network of nine layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from graphcollab.models._max_pool import MaxPool2
from graphcollab.models._shapes import image_size
from graphcollab.models.norm import replace_batch_norm
from graphcollab.settings import Count, checked

__all__ = ["ResNet9"]


class ResNet9(nn.Module):
    r"""A shallow residual network: eight 3 x 3 convolutions, four of them in two residual blocks, and a classifier.

    Residual layers are those of `Deep Residual Learning for Image Recognition <https://arxiv.org/abs/1512.03385>`_
    (He et al., 2015); this form with nine layers is in wide use for CIFAR and is the one that CoBo was published with.

    With :math:`w` for ``width``, every convolution keeps the size, has no bias, and is followed by normalisation, in
    places by 2 x 2 max pooling, and by ReLU:

    ==========================  ==================  ==================
    layer                       output channels     size for 32 x 32
    ==========================  ==================  ==================
    convolution                 w                   32 x 32
    convolution, pooling        2 w                 16 x 16
    x + two convolutions of x   2 w                 16 x 16
    convolution, pooling        4 w                 8 x 8
    convolution, pooling        8 w                 4 x 4
    x + two convolutions of x   8 w                 4 x 4
    maximum of every channel    8 w                 –
    linear classifier           classes             –
    ==========================  ==================  ==================

    ======================  ==========  ==========
    data                    width       parameters
    ======================  ==========  ==========
    32 x 32 RGB, 100 cl.    64          6,619,300 (CoBo states 6.62 M)
    32 x 32 RGB, 10 cl.     64          6,573,130
    28 x 28 grey, 10 cl.    64          6,571,978
    28 x 28 grey, 10 cl.    8           103,810
    ======================  ==========  ==========

    Where the last layer's images are 4 x 4, taking the maximum of every channel is the usual 4 x 4 pooling; it also
    reads other sizes. Deviation from the usual form: normalisation is over groups of channels by default, because batch
    statistics mix the samples of nodes whose data differ; ``norm="batch"`` is the original.

    The model is ``head(backbone(inputs))`` and returns logits.

    Args:
        in_channels: Channels of the images.
        num_classes: Number of outputs.
        width: Channels of the first convolution. 8 or 16 make it small enough for CPUs.
        input_size: Height and width of the images in pixels, at least 8, or (height, width).
        norm: ``group`` or ``batch``.

    Shapes:
        inputs: [B, in_channels, H, W].
        output: [B, num_classes].

    Raises:
        ValueError: The images are too small.

    Example:
        >>> count = lambda model: sum(p.numel() for p in model.parameters())
        >>> count(ResNet9(3, 100)), count(ResNet9(1, 10, width=8, input_size=28))
        (6619300, 103810)
    """

    @checked
    def __init__(
        self,
        in_channels: Count,
        num_classes: Count,
        width: Count = 64,
        input_size: Count | tuple[Count, Count] = 32,
        norm: Literal["group", "batch"] = "group",
    ) -> None:
        super().__init__()
        if min((input_size,) if isinstance(input_size, int) else input_size) < 8:
            raise ValueError(f"ResNet9: images of {input_size} pixels are too small; three poolings need 8")
        self.backbone = nn.Sequential(
            *_convolution(in_channels, width),
            *_convolution(width, 2 * width, pool=True),
            _Residual(2 * width),
            *_convolution(2 * width, 4 * width, pool=True),
            *_convolution(4 * width, 8 * width, pool=True),
            _Residual(8 * width),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(8 * width, num_classes)
        if norm == "group":
            replace_batch_norm(self)

    @classmethod
    def for_shape(
        cls,
        input_shape: Sequence[int],
        num_classes: int,
        width: int = 64,
        norm: Literal["group", "batch"] = "group",
    ) -> ResNet9:
        """Build the model for images of a given shape (channels, height, width)."""
        in_channels, size = image_size(cls.__name__, input_shape)
        return cls(in_channels, num_classes, width, size, norm)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.backbone(inputs))


class _Residual(nn.Sequential):
    """x + f(x), where f is two convolutions that keep size and channels."""

    def __init__(self, channels: int) -> None:
        super().__init__(*_convolution(channels, channels), *_convolution(channels, channels))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + super().forward(inputs)


def _convolution(fan_in: int, fan_out: int, pool: bool = False) -> list[nn.Module]:
    # Pooling before ReLU gives the same values and gradients as after it, on a quarter of the numbers.
    pooling = [MaxPool2()] if pool else []
    convolution = nn.Conv2d(fan_in, fan_out, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(fan_out), *pooling, nn.ReLU()]
