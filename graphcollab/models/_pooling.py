"""Max pooling of images whose channels lie side by side: by a compiled kernel, or by PyTorch, with the same bits.

The kernel is part of the package where it was built with a C compiler, as its wheels are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab.memory import address

try:
    _pool: Any = import_module("graphcollab.models._pool")
except ImportError:
    _pool = None

__all__ = ["lies_channels_last", "pool_channels_last"]

KINDS = torch.float32, torch.bfloat16
TOGETHER = 16  # channels that the kernel computes at a time
MOST_THREADS = 2  # PyTorch's pooling shares the work among threads, the kernel does not


def lies_channels_last(inputs: Tensor) -> bool:
    """Tell whether the channels of a pixel lie side by side; vmap knows strides only."""
    return inputs.dim() == 4 and inputs.shape[1] > 1 and inputs.stride(1) == 1


def pool_channels_last(inputs: Tensor) -> Tensor:
    """Return maxima over 2 x 2 pixels with stride 2, as ``F.max_pool2d(inputs, 2)``.

    Shapes:
        inputs: [B, C, H, W] on a CPU, channels last. output: [B, C, H // 2, W // 2], likewise.
    """
    out: Tensor = _Pool.apply(inputs) if _fits(inputs) else F.max_pool2d(inputs, 2)
    return out


def _fits(inputs: Tensor) -> bool:
    """Tell whether the kernel knows what to do with images, and is the faster way: not inside of vmap, for example."""
    if _pool is None or type(inputs) is not Tensor or torch._C._functorch.is_functorch_wrapped_tensor(inputs):
        return False
    known = inputs.dtype in KINDS and inputs.shape[1] % TOGETHER == 0 and torch.get_num_threads() <= MOST_THREADS
    return known and inputs.is_contiguous(memory_format=torch.channels_last)


class _Pool(torch.autograd.Function):
    """Pools by the kernel, which writes for every maximum where in its window it is: 0, 1 in its upper row, 2, 3."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        count, channels, height, width = ctx.shape = x.shape
        y = x.new_empty(count, height // 2, width // 2, channels)
        place = torch.empty_like(y, dtype=torch.uint8)
        _pool.largest(_half(x), *map(address, (x, y, place)), count, height, width, channels)
        ctx.save_for_backward(place)
        return y.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (place,), (count, channels, height, width) = ctx.saved_tensors, ctx.shape
        if torch.is_grad_enabled():  # for gradients of gradients
            return _spread(grad, place.permute(0, 3, 1, 2), ctx.shape)
        grad = grad.contiguous(memory_format=torch.channels_last)
        out = grad.new_empty(count, height, width, channels)
        _pool.spread(_half(grad), *map(address, (grad, place, out)), count, height, width, channels)
        return out.permute(0, 3, 1, 2)


def _spread(grad: Tensor, place: Tensor, shape: torch.Size) -> Tensor:
    """Return gradients of maxima [B, C, h, w] at their places [B, C, h, w] in images of a shape, by operators."""
    out, (height, width) = grad.new_zeros(shape), (2 * side for side in grad.shape[-2:])
    for window in range(4):
        out[..., window // 2 : height : 2, window % 2 : width : 2] = grad * (place == window)
    return out


def _half(values: Tensor) -> bool:
    return values.dtype == torch.bfloat16
