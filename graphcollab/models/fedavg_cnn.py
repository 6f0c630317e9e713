"""The two-layer convolutional network of FedAvg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from graphcollab.models._max_pool import MaxPool2
from graphcollab.models._shapes import image_size
from graphcollab.settings import Count, checked

__all__ = ["FedAvgCNN"]

_PADDING = {"valid": 0, "same": 2}


class FedAvgCNN(nn.Module):
    """The two-layer CNN of FedAvg.

    `Communication-Efficient Learning of Deep Networks from Decentralized Data <https://arxiv.org/abs/1602.05629>`_
    (McMahan et al., 2017).

    Two 5 x 5 convolutions with 32 and 64 channels, each with ReLU and 2 x 2 max pooling, a fully connected layer of 512
    with ReLU, and a linear classifier. Two variants are in use and differ in the padding of the convolutions:

    ======================  ==========  ==================  ==========
    data                    padding     512-layer reads     parameters
    ======================  ==========  ==================  ==========
    28 x 28 grey, 10 cl.    ``same``    64 x 7 x 7 = 3136   1,663,370 (the paper's number)
    32 x 32 RGB, 10 cl.     ``valid``   64 x 5 x 5 = 1600   878,538
    32 x 32 RGB, 100 cl.    ``valid``   64 x 5 x 5 = 1600   924,708
    ======================  ==========  ==================  ==========

    The model is ``head(backbone(inputs))`` and returns logits; the paper's softmax belongs to the loss.

    Args:
        in_channels: Channels of the images.
        num_classes: Number of outputs.
        input_size: Height and width of the images in pixels, or (height, width).
        padding: ``valid`` for none, ``same`` for convolutions that keep the size.

    Shapes:
        inputs: [B, in_channels, H, W].
        output: [B, num_classes].

    Raises:
        ValueError: The images are too small.

    Example:
        >>> count = lambda model: sum(p.numel() for p in model.parameters())
        >>> count(FedAvgCNN(3, 10)), count(FedAvgCNN(1, 10, input_size=28, padding="same"))
        (878538, 1663370)
    """

    @checked
    def __init__(
        self,
        in_channels: Count,
        num_classes: Count,
        input_size: Count | tuple[Count, Count] = 32,
        padding: Literal["valid", "same"] = "valid",
    ) -> None:
        super().__init__()
        pad = _PADDING[padding]
        sizes = [input_size, input_size] if isinstance(input_size, int) else list(input_size)
        for _ in range(2):  # convolution, pooling
            sizes = [(side + 2 * pad - 4) // 2 for side in sizes]
        if min(sizes) < 1:
            raise ValueError(
                f"FedAvgCNN: images of {input_size} pixels are too small for padding={padding!r}; "
                "16 pixels are needed with 'valid', 4 with 'same'"
            )
        # Pooling before ReLU gives the same values and gradients as after it, on a quarter of the numbers.
        self.backbone = nn.Sequential(
            nn.Conv2d(in_channels, 32, 5, padding=pad),
            MaxPool2(),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5, padding=pad),
            MaxPool2(),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * sizes[0] * sizes[1], 512),
            nn.ReLU(),
        )
        self.head = nn.Linear(512, num_classes)

    @classmethod
    def for_shape(
        cls, input_shape: Sequence[int], num_classes: int, padding: Literal["valid", "same"] = "valid"
    ) -> FedAvgCNN:
        """Build the model for images of a given shape (channels, height, width)."""
        channels, size = image_size(cls.__name__, input_shape)
        return cls(channels, num_classes, size, padding)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.backbone(inputs))
