"""Four small backbones of four kinds, for nodes with different architectures on a CPU."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from graphcollab.models._max_pool import MaxPool2
from graphcollab.models._shapes import image_size
from graphcollab.settings import Count, checked

__all__ = ["small_backbone", "small_backbones"]


@checked
def small_backbones(input_shape: Sequence[Count], width: Count = 16) -> dict[str, nn.Module]:
    r"""Return one of each of four kinds of backbones, by name.

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

    All have ReLU; ``resnet`` and ``shufflenet`` normalise over all channels and pixels of a sample (group normalisation
    with one group), so that no backbone has running statistics. Outputs keep their places in the image instead of being
    averaged over them, without which networks as small as these learn far more slowly.

    ==============  ============  ============  ============  ==========  ==========  ==========
    width 16        parameters of a backbone for              numbers it returns for
    --------------  ----------------------------------------  ----------------------------------
    name            1 x 8 x 8     1 x 28 x 28   3 x 32 x 32   1 x 8 x 8   1 x 28 x 28 3 x 32 x 32
    ==============  ============  ============  ============  ==========  ==========  ==========
    ``mlp``         24,832        116,992       409,856       128         128         128
    ``cnn``         5,056         5,056         5,856         128         1,568       2,048
    ``resnet``      9,520         9,520         9,808         128         1,568       2,048
    ``shufflenet``  2,144         2,144         2,432         128         1,568       2,048
    ==============  ============  ============  ============  ==========  ==========  ==========

    Args:
        input_shape: Shape of one image, (channels, height, width), of at least 4 x 4 pixels.
        width: w, what sizes of layers are multiples of.

    Raises:
        ValueError: Samples are no images of at least 4 x 4 pixels.

    Example:
        >>> {name: sum(p.numel() for p in m.parameters()) for name, m in small_backbones((1, 28, 28)).items()}
        {'mlp': 116992, 'cnn': 5056, 'resnet': 9520, 'shufflenet': 2144}
    """
    return {name: small_backbone(name, input_shape, width) for name in _BACKBONES}


@checked
def small_backbone(name: str, input_shape: Sequence[Count], width: Count = 16) -> nn.Module:
    """Return one of the backbones of `small_backbones`.

    Args:
        name: ``mlp``, ``cnn``, ``resnet`` or ``shufflenet``.
        input_shape: Shape of one image, (channels, height, width), of at least 4 x 4 pixels.
        width: What sizes of layers are multiples of.

    Shapes:
        inputs: [B, channels, height, width].
        output: [B, features].

    Raises:
        ValueError: The name is unknown, or samples are no images of at least 4 x 4 pixels.

    Example:
        >>> small_backbone("cnn", (1, 8, 8), width=4)(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 32])
    """
    if name not in _BACKBONES:
        nearest = difflib.get_close_matches(str(name).lower(), _BACKBONES, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown backbone {name!r}; did you mean {nearest!r}? Known: {', '.join(_BACKBONES)}")
    channels, size = image_size("small_backbone", input_shape)
    if min(size) < 4:
        raise ValueError(f"small_backbone: images of {size} pixels are too small; halving them twice needs 4")
    return _BACKBONES[name](channels, size, width)


def _mlp(channels: int, size: tuple[int, int], width: int) -> nn.Module:
    hidden = 8 * width
    return nn.Sequential(
        nn.Flatten(), nn.Linear(channels * math.prod(size), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
    )


def _cnn(channels: int, size: tuple[int, int], width: int) -> nn.Module:
    # Pooling before ReLU gives the same values and gradients as after it, on a quarter of the numbers.
    return nn.Sequential(
        nn.Conv2d(channels, width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        MaxPool2(),
        nn.ReLU(),
        nn.Flatten(),
    )


def _resnet(channels: int, size: tuple[int, int], width: int) -> nn.Module:
    return nn.Sequential(
        *_convolution(channels, width, stride=2),
        nn.ReLU(),
        _Residual(*_convolution(width, width), nn.ReLU(), *_convolution(width, width)),
        nn.ReLU(),
        *_convolution(width, 2 * width, stride=2),
        nn.ReLU(),
        nn.Flatten(),
    )


def _shufflenet(channels: int, size: tuple[int, int], width: int) -> nn.Module:
    return nn.Sequential(
        *_convolution(channels, width, stride=2), nn.ReLU(), _ShuffleDown(width), _Shuffle(2 * width), nn.Flatten()
    )


_BACKBONES: Mapping[str, Callable[[int, tuple[int, int], int], nn.Module]] = MappingProxyType(
    {"mlp": _mlp, "cnn": _cnn, "resnet": _resnet, "shufflenet": _shufflenet}
)


class _Residual(nn.Sequential):
    """x + f(x)."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + super().forward(inputs)


class _Shuffle(nn.Module):
    """ShuffleNet V2's unit with stride 1: one half of the channels is convolved, then both halves are interleaved."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = _separable(channels // 2)

    def forward(self, inputs: Tensor) -> Tensor:
        kept, changed = inputs.chunk(2, dim=1)
        return _interleave(kept, self.branch(changed))


class _ShuffleDown(nn.Module):
    """ShuffleNet V2's unit with stride 2: two branches of all channels are interleaved, which doubles their number."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shortcut = nn.Sequential(
            *_convolution(channels, channels, stride=2, groups=channels),
            *_convolution(channels, channels, 1),
            nn.ReLU(),
        )
        self.branch = _separable(channels, stride=2)

    def forward(self, inputs: Tensor) -> Tensor:
        return _interleave(self.shortcut(inputs), self.branch(inputs))


def _separable(channels: int, stride: int = 1) -> nn.Module:
    """1 x 1, depthwise 3 x 3 and 1 x 1 convolutions; the depthwise one has no ReLU."""
    return nn.Sequential(
        *_convolution(channels, channels, 1),
        nn.ReLU(),
        *_convolution(channels, channels, stride=stride, groups=channels),
        *_convolution(channels, channels, 1),
        nn.ReLU(),
    )


def _interleave(one: Tensor, other: Tensor) -> Tensor:
    # [B, C, H, W] twice -> [B, C, 2, H, W] -> [B, 2 C, H, W]
    return torch.stack((one, other), dim=2).flatten(1, 2)


def _convolution(fan_in: int, fan_out: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(fan_in, fan_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.GroupNorm(1, fan_out)]
