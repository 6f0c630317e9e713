"""Common layers of models: residual blocks, and group instead of batch normalization."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm  # also the base of SyncBatchNorm and of the lazy variants

from graphcollab._base.errors import ShapeError, UnsupportedError
from graphcollab._base.settings import Count, checked


class Residual(nn.Sequential):
    """x + f(x), where f is the contained sequence."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + super().forward(inputs)


def image_size(model: str, input_shape: Sequence[int], least: int = 1, also: str = "") -> tuple[int, int, int]:
    """Return channels, height and width of an image shape with at least ``least`` pixels per side, for ``model``."""
    if len(input_shape) != 3:
        raise ShapeError(
            "input_shape",
            f"{model} reads images (channels, height, width), got {tuple(input_shape)}: reshape, or use 'mlp'",
        )
    channels, height, width = input_shape
    if min(height, width) < least:
        raise ShapeError(
            "input_shape",
            f"{model}: images of {height, width} pixels are too small; {least} x {least} are needed{also}",
        )
    return channels, height, width


@checked
def replace_batch_norm(module: nn.Module, groups: Count = 32, min_channels: Count = 16) -> nn.Module:
    """Replace every batch normalization inside a module by group normalization, **in place**, and return the module.

    Batch normalization estimates statistics over samples. If nodes see different classes, these do not fit another
    node's data, and averaging them makes it worse. `Group normalization <https://arxiv.org/abs/1803.08494>`_ (Wu
    and He, 2018) computes them over groups of channels of one sample and has no running statistics.

    The number of groups is the largest divisor of the number of channels that is at most ``groups`` and leaves at least
    ``min_channels`` channels per group, or 1 if there is none. The defaults are the article's two settings: 32 groups
    alone would normalize small layers over one or two numbers. Thus 32 channels get 2 groups, 64 get 4, 512 or more 32.

    Weight and bias remain the same parameters, and ``eps`` and training mode are kept; running statistics are dropped.

    Args:
        module: The model. If it is itself a batch normalization, the return value is its replacement.
        groups: Maximum number of groups.
        min_channels: Minimum number of channels per group.

    Raises:
        ValueError: The size of a layer is not yet known.

    Example:
        >>> model = replace_batch_norm(nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64)))
        >>> type(model[1]).__name__, model[1].num_groups
        ('GroupNorm', 4)
    """
    replaced: dict[nn.Module, nn.Module] = {}  # a layer used in two places remains one layer

    def replacement(child: _BatchNorm, name: str) -> nn.Module:
        if child not in replaced:
            replaced[child] = _group_norm(child, name, groups, min_channels)
        return replaced[child]

    if isinstance(module, _BatchNorm):
        return replacement(module, "the module")
    for path, parent in list(module.named_modules()):
        # not named_children(), which omits a second use of the same child
        for name, child in parent._modules.items():
            if isinstance(child, _BatchNorm):
                setattr(parent, name, replacement(child, f"{path}.{name}".lstrip(".")))
    return module


def _group_norm(norm: _BatchNorm, name: str, groups: int, min_channels: int) -> nn.GroupNorm:
    channels = norm.num_features
    if channels < 1:  # a lazy layer before its first batch
        raise UnsupportedError(
            f"layer {name!r}", f"{name} does not know its number of channels yet; run the model once on a batch first"
        )
    most = max(1, min(groups, channels // min_channels))
    num_groups = next(count for count in range(most, 0, -1) if channels % count == 0)
    group_norm = nn.GroupNorm(num_groups, channels, eps=norm.eps, affine=False)
    if norm.affine:
        group_norm.affine, group_norm.weight, group_norm.bias = True, norm.weight, norm.bias
    return group_norm.train(norm.training)
