"""Small convolutional networks without padding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from torch import Tensor, nn

from graphcollab.models._max_pool import MaxPool2
from graphcollab.models._shapes import image_size
from graphcollab.settings import Count, Real, SettingError, checked

Rate: TypeAlias = Annotated[float, Real(least=0, below=1)]

__all__ = ["SmallCNN"]


class SmallCNN(nn.Module):
    """Convolutions without padding, each with ReLU and 2 x 2 max pooling, hidden layers with ReLU, a linear classifier.

    Listings 1 and 3 of `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning
    Strategies` (Hagander and Ihre-Thomason, Lund University, 2024). Dropout is as in
    listing 1.

    =================================  =========  ======  =========  ==========  ==========
    data                               channels   kernel  hidden     dropout     parameters
    =================================  =========  ======  =========  ==========  ==========
    Fashion-MNIST, 10 classes          (16, 32)   3       (64,)      none        56,714
    Fashion-MNIST + MNIST, 20 classes  (16, 32)   3       (64,)      none        57,364
    CIFAR-10                           (6, 16)    5       (120, 84)  (0.1, 0.5)  62,006
    =================================  =========  ======  =========  ==========  ==========

    The model is ``head(backbone(inputs))`` and returns logits; the listings' LogSoftmax belongs to the loss.

    Args:
        in_channels: Channels of the images.
        num_classes: Number of outputs.
        input_size: Height and width of the images in pixels, or (height, width).
        channels: Channels of every convolution.
        kernel: Height and width of the convolutions.
        hidden: Width of the hidden layer, or a sequence of widths.
        dropout: Probability of dropping a channel of the last convolution, and of dropping a number of the first hidden
            layer.

    Shapes:
        inputs: [B, in_channels, H, W].
        output: [B, num_classes].

    Raises:
        ValueError: There is no convolution, or the images are too small.

    Example:
        >>> count = lambda model: sum(p.numel() for p in model.parameters())
        >>> count(SmallCNN(1, 10)), count(SmallCNN(3, 10, 32, channels=(6, 16), kernel=5, hidden=(120, 84)))
        (56714, 62006)
    """

    @checked
    def __init__(
        self,
        in_channels: Count,
        num_classes: Count,
        input_size: Count | tuple[Count, Count] = 28,
        channels: Sequence[Count] = (16, 32),
        kernel: Count = 3,
        hidden: Count | Sequence[Count] = (64,),
        dropout: tuple[Rate, Rate] = (0.0, 0.0),
    ) -> None:
        super().__init__()
        widths = [hidden] if isinstance(hidden, int) else list(hidden)
        if not channels:
            raise SettingError("channels", "the channels of at least one convolution", channels)
        sizes = [input_size, input_size] if isinstance(input_size, int) else list(input_size)
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise([in_channels, *channels]):
            # Pooling before ReLU gives the same values and gradients as after it, on a quarter of the numbers.
            layers += [nn.Conv2d(fan_in, fan_out, kernel), MaxPool2(), nn.ReLU()]
            sizes = [(side - kernel + 1) // 2 for side in sizes]
        if min(sizes) < 1:
            raise ValueError(
                f"SmallCNN: images of {input_size} pixels are too small for {len(channels)} convolutions of "
                f"{kernel} pixels without padding, each with pooling"
            )
        if dropout[0]:
            layers.append(nn.Dropout2d(dropout[0]))
        layers.append(nn.Flatten())
        widths = [channels[-1] * sizes[0] * sizes[1], *widths]
        for place, (width, next_width) in enumerate(itertools.pairwise(widths)):
            layers += [nn.Linear(width, next_width), nn.ReLU()]
            if dropout[1] and place == 0:
                layers.append(nn.Dropout(dropout[1]))
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], num_classes)

    @classmethod
    def for_shape(
        cls,
        input_shape: Sequence[int],
        num_classes: int,
        channels: Sequence[int] = (16, 32),
        kernel: int = 3,
        hidden: int | Sequence[int] = (64,),
        dropout: tuple[float, float] = (0.0, 0.0),
    ) -> SmallCNN:
        """Build the model for images of a given shape (channels, height, width)."""
        in_channels, size = image_size(cls.__name__, input_shape)
        return cls(in_channels, num_classes, size, channels, kernel, hidden, dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.backbone(inputs))
