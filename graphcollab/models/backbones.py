"""Four small backbones, for nodes with different architectures on a CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphcollab._base.settings import Count, checked, look_up
from graphcollab.models.layers import Residual, image_size


@checked
def small_backbones(input_shape: Sequence[Count], width: Count = 16) -> dict[str, nn.Module]:
    r"""Return one backbone of each of four kinds, by name.

    With :math:`w` for ``width``, "/ 2" for a stride of 2 pixels:

    ==============  ========================================================================================
    name            layers
    ==============  ========================================================================================
    ``mlp``         two fully connected layers of 8 w
    ``cnn``         convolution 5 x 5 / 2 to w channels, convolution 3 x 3 to 2 w, 2 x 2 max pooling
    ``resnet``      convolution 3 x 3 / 2 to w, a residual block of two 3 x 3 convolutions, convolution
                    3 x 3 / 2 to 2 w (`He et al., 2015 <https://arxiv.org/abs/1512.03385>`_)
    ``shufflenet``  convolution 3 x 3 / 2 to w, a unit with stride 2 to 2 w, a unit with stride 1: depthwise
                    separable convolutions whose channels are shuffled (`ShuffleNet V2
                    <https://arxiv.org/abs/1807.11164>`_, Ma et al., 2018)
    ==============  ========================================================================================

    All use ReLU; ``resnet`` and ``shufflenet`` normalize over all channels and pixels of a sample (group normalization
    with one group), so that no backbone has running statistics. Outputs keep their positions in the image instead of
    being averaged over them, without which networks of this size learn far more slowly.

    Args:
        input_shape: Shape of one image, (channels, height, width), of at least 4 x 4 pixels.
        width: w, the unit of layer sizes.

    Raises:
        ValueError: Samples are not images of at least 4 x 4 pixels.
    """
    return {name: small_backbone(name, input_shape, width) for name in _SMALL}


@checked
def small_backbone(name: str, input_shape: Sequence[Count], width: Count = 16) -> nn.Module:
    """Return one of the backbones of `small_backbones` by name, with the same arguments and errors.

    Shapes:
        inputs: [B, channels, height, width].
        output: [B, features].

    Raises:
        ValueError: The name is unknown.
    """
    make = look_up("backbone", name, _SMALL)
    image_size("small_backbone", input_shape, least=4)
    return make(input_shape, width)


def _mlp(input_shape: Sequence[int], width: int) -> nn.Module:
    hidden = 8 * width
    return nn.Sequential(
        nn.Flatten(), nn.Linear(math.prod(input_shape), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
    )


def _cnn(input_shape: Sequence[int], width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(input_shape[0], width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
    )


def _resnet(input_shape: Sequence[int], width: int) -> nn.Module:
    return nn.Sequential(
        *_convolution(input_shape[0], width, stride=2),
        nn.ReLU(),
        Residual(*_convolution(width, width), nn.ReLU(), *_convolution(width, width)),
        nn.ReLU(),
        *_convolution(width, 2 * width, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )


def _shufflenet(input_shape: Sequence[int], width: int) -> nn.Module:
    first = *_convolution(input_shape[0], width, stride=2), nn.ReLU()
    return nn.Sequential(*first, _Shuffle(width, stride=2), _Shuffle(width), nn.Flatten())


_SMALL = {"mlp": _mlp, "cnn": _cnn, "resnet": _resnet, "shufflenet": _shufflenet}


class _Shuffle(nn.Module):
    """ShuffleNet V2's unit: a branch and a shortcut with equally many channels, which are interleaved.

    With stride 1, each reads one half of the channels, and the shortcut is the identity. With stride 2, both read all
    channels, which doubles their number.
    """

    def __init__(self, channels: int, stride: int = 1) -> None:
        super().__init__()
        depthwise = {"stride": stride, "groups": channels}
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut.extend([*_convolution(channels, channels, **depthwise), *_pointwise(channels)])
        self.branch = nn.Sequential(
            *_pointwise(channels), *_convolution(channels, channels, **depthwise), *_pointwise(channels)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        left, right = (inputs, inputs) if len(self.shortcut) else inputs.chunk(2, dim=1)
        return nn.functional.channel_shuffle(torch.cat((self.shortcut(left), self.branch(right)), dim=1), 2)


def _pointwise(channels: int) -> list[nn.Module]:
    return [*_convolution(channels, channels, 1), nn.ReLU()]


def _convolution(fan_in: int, fan_out: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(fan_in, fan_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.GroupNorm(1, fan_out)]
