"""The classifiers of the papers: `MLP`, `CNN` as used by FedAvg and MAML, and `ResNet9`.

All are ``head(backbone(inputs))`` and return logits [B, num_classes]; the softmax of the papers belongs to the loss.
Image models read [B, channels, height, width] of the shape for which they were built.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from torch import nn

from graphcollab._base.errors import ShapeError
from graphcollab._base.settings import Count, Real, SettingError, checked
from graphcollab.models.layers import Residual, image_size, replace_batch_norm

Rate: TypeAlias = Annotated[float, Real(least=0, below=1)]
Norm: TypeAlias = Literal["group", "batch"]
Padding: TypeAlias = Literal["valid", "same"]


class MLP(nn.Sequential):
    """Fully connected layers with ReLU in between, for inputs of any shape, which are flattened.

    ``backbone`` flattens and ends with the last hidden layer's ReLU, ``head`` is the linear classifier.

    Args:
        in_features: Number of features in one sample.
        hidden: Width of the hidden layer, or a sequence of widths. An empty sequence gives a linear classifier.
        num_classes: Number of outputs.

    Shapes:
        inputs: [B, ...] with ``in_features`` numbers per sample.
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


class CNN(nn.Sequential):
    """Convolutions, each with ReLU and 2 x 2 max pooling, hidden layers with ReLU, and a linear classifier.

    The defaults are listing 3 of *With a Little Help from My Friends: A Comparative Study of Decentralized Deep
    Learning Strategies* (Hagander and Ihre-Thomason, Lund University, 2024). Its listing 1, for CIFAR-10, has channels
    (6, 16), kernel 5, hidden layers (120, 84) and dropout (0.1, 0.5). docs/models.md counts the parameters.

    Args:
        input_shape: (channels, height, width) of the images.
        num_classes: Number of outputs.
        channels: Channels of every convolution.
        kernel: Height and width of the convolutions.
        hidden: Width of the hidden layer, or a sequence of widths.
        dropout: Probability of dropping a channel of the last convolution, and of dropping a unit of the first hidden
            layer.
        padding: ``valid`` for none, ``same`` for convolutions that keep the size (with odd ``kernel``).
        norm: Normalization of every convolution: none, ``group`` (see `replace_batch_norm`) or ``batch``.

    Raises:
        ValueError: There is no convolution, or the images are too small.
    """

    @checked
    def __init__(
        self,
        input_shape: Sequence[Count],
        num_classes: Count,
        channels: Sequence[Count] = (16, 32),
        kernel: Count = 3,
        hidden: Count | Sequence[Count] = (64,),
        dropout: tuple[Rate, Rate] = (0.0, 0.0),
        padding: Padding = "valid",
        norm: Norm | None = None,
    ) -> None:
        in_channels, *sizes = image_size("CNN", input_shape)
        if not channels:
            raise SettingError("channels", "the channels of at least one convolution", channels)
        pad = kernel // 2 if padding == "same" else 0
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise([in_channels, *channels]):
            layers.append(nn.Conv2d(fan_in, fan_out, kernel, padding=pad))
            layers += [nn.BatchNorm2d(fan_out)] if norm else []
            layers += [nn.MaxPool2d(2), nn.ReLU()]
            sizes = [(side + 2 * pad - kernel + 1) // 2 for side in sizes]
        if min(sizes) < 1:
            halved = 2 ** len(channels)
            raise ShapeError(
                "input_shape",
                f"CNN: images of {tuple(input_shape[1:])} pixels are too small for {len(channels)} pooled "
                f"convolutions of {kernel}: expected {halved + (halved - 1) * (kernel - 1)} with padding='valid', "
                f"{halved} with 'same'",
            )
        layers += [nn.Dropout2d(dropout[0])] if dropout[0] else []
        layers.append(nn.Flatten())
        widths = [channels[-1] * math.prod(sizes), *([hidden] if isinstance(hidden, int) else hidden)]
        for place, (width, next_width) in enumerate(itertools.pairwise(widths)):
            layers += [nn.Linear(width, next_width), nn.ReLU()]
            layers += [nn.Dropout(dropout[1])] if dropout[1] and place == 0 else []
        super().__init__(OrderedDict(backbone=nn.Sequential(*layers), head=nn.Linear(widths[-1], num_classes)))
        if norm == "group":
            replace_batch_norm(self)


@checked
def fedavg_cnn(input_shape: Sequence[Count], num_classes: Count, padding: Padding = "valid") -> CNN:
    """Build the two-layer CNN of FedAvg.

    `Communication-Efficient Learning of Deep Networks from Decentralized Data <https://arxiv.org/abs/1602.05629>`_
    (McMahan et al., 2017). Two 5 x 5 convolutions with 32 and 64 channels and a hidden layer of 512. Two variants are
    in use, which differ in the padding of the convolutions: ``same`` gives the paper's 1,663,370 parameters for 28 x 28
    gray images, ``valid`` is usual for CIFAR (docs/models.md).

    Args:
        input_shape: (channels, height, width) of the images.
        num_classes: Number of outputs.
        padding: See `CNN`, with its errors.
    """
    least, also = (16, " with 'valid', 4 x 4 with 'same'") if padding == "valid" else (4, "")
    image_size("fedavg_cnn", input_shape, least, also)
    return CNN(input_shape, num_classes, (32, 64), 5, 512, padding=padding)


@checked
def maml_cnn(input_shape: Sequence[Count], num_classes: Count, channels: Count = 32, norm: Norm = "group") -> CNN:
    """Build the four-layer CNN of MAML for MiniImageNet.

    `Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks <https://arxiv.org/abs/1703.03400>`_
    (Finn et al., 2017). Four 3 x 3 convolutions that keep the size, with normalization. Deviation from the paper:
    normalization is over groups of channels by default, because batch statistics mix the samples of nodes with
    different data; ``norm="batch"`` is the original. On 84 x 84 RGB images with 5 classes, it has 32,901 parameters.

    Args:
        input_shape: (channels, height, width) of the images, at least 16 x 16 pixels.
        num_classes: Number of outputs.
        channels: Channels of every convolution. The paper has 32 for MiniImageNet.
        norm: See `CNN`, with its errors.
    """
    image_size("maml_cnn", input_shape, least=16)
    return CNN(input_shape, num_classes, [channels] * 4, 3, (), padding="same", norm=norm)


class ResNet9(nn.Sequential):
    r"""A shallow residual network: eight 3 x 3 convolutions, four of them in two residual blocks, and a classifier.

    Residual layers are those of `Deep Residual Learning for Image Recognition <https://arxiv.org/abs/1512.03385>`_
    (He et al., 2015); this form with nine layers is widely used for CIFAR and is the one published with CoBo.

    With :math:`w` for ``width``, every convolution keeps the size, has no bias, and is followed by normalization,
    2 x 2 max pooling where listed, and ReLU:

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

    If the last layer's images are 4 x 4, the maximum of every channel equals the usual 4 x 4 pooling; other sizes are
    supported as well. Deviation from the usual form: normalization is over groups of channels by default, because batch
    statistics mix the samples of nodes with different data; ``norm="batch"`` is the original.

    Args:
        input_shape: (channels, height, width) of the images, at least 8 x 8 pixels.
        num_classes: Number of outputs.
        width: Channels of the first convolution. 8 or 16 make it small enough for CPUs.
        norm: ``group`` or ``batch``.

    Raises:
        ValueError: The images are too small.
    """

    @checked
    def __init__(
        self, input_shape: Sequence[Count], num_classes: Count, width: Count = 64, norm: Norm = "group"
    ) -> None:
        channels, *_ = image_size("ResNet9", input_shape, least=8)
        backbone = nn.Sequential(
            *_convolution(channels, width),
            *_convolution(width, 2 * width, pool=True),
            Residual(*_convolution(2 * width, 2 * width), *_convolution(2 * width, 2 * width)),
            *_convolution(2 * width, 4 * width, pool=True),
            *_convolution(4 * width, 8 * width, pool=True),
            Residual(*_convolution(8 * width, 8 * width), *_convolution(8 * width, 8 * width)),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        )
        super().__init__(OrderedDict(backbone=backbone, head=nn.Linear(8 * width, num_classes)))
        if norm == "group":
            replace_batch_norm(self)


def _convolution(fan_in: int, fan_out: int, pool: bool = False) -> list[nn.Module]:
    pooling = [nn.MaxPool2d(2)] if pool else []
    return [nn.Conv2d(fan_in, fan_out, 3, padding=1, bias=False), nn.BatchNorm2d(fan_out), *pooling, nn.ReLU()]
