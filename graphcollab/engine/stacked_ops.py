"""An operation with a better stacked form than vmap's own: the linear layer of many nodes at once.

Inside vmap, PyTorch decomposes a linear layer with its own weights per row into a product and a sum whose gradients are
laid out against the grain. The form here is one ``baddbmm``. It is put in place of the original only while
`stacked_ops` is active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["stacked_linear", "stacked_ops"]


class _BatchedLinear(torch.autograd.Function):
    """y[r] = x[r] W[r]ᵀ + b[r] with gradients in the layout of the weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # x: [R, n, in], weight: [R, out, in], bias: [R, out]
        ctx.save_for_backward(x, weight)
        return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = (saved.to(grad.dtype) for saved in ctx.saved_tensors)  # under autocast grad is half precision
        to_x = torch.bmm(grad, weight) if ctx.needs_input_grad[0] else None
        to_weight = torch.bmm(grad.mT, x) if ctx.needs_input_grad[1] else None
        to_bias = grad.sum(1) if ctx.needs_input_grad[2] else None
        return to_x, to_weight, to_bias


def _front(value: Tensor, dim: int | None, rows: int) -> Tensor:
    """Put the row dimension first; add it where a value is the same for all rows."""
    return value.expand(rows, *value.shape) if dim is None else value.movedim(dim, 0)


class _Linear(torch.autograd.Function):
    """``F.linear`` with `_BatchedLinear` as its stacked form."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        to_bias = flat.sum(0) if ctx.needs_input_grad[2] else None
        return grad @ weight, flat.T @ x.reshape(-1, x.shape[-1]), to_bias

    @staticmethod
    def vmap(
        info: Any, in_dims: Sequence[int | None], x: Tensor, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, int]:
        rows = info.batch_size
        x, weight = _front(x, in_dims[0], rows), _front(weight, in_dims[1], rows)
        bias = None if bias is None else _front(bias, in_dims[2], rows)
        return stacked_linear(x, weight, bias), 0


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply a linear layer with its own weights to every row.

    Shapes:
        x: [R, ..., in]; weight: [R, out, in]; bias: [R, out]; output: [R, ..., out].
    """
    if x.dim() == 3:
        return _BatchedLinear.apply(x, weight, bias)
    middle = x.shape[1:-1]  # none for a single sample, several for sequences
    out = _BatchedLinear.apply(x.reshape(len(x), -1, x.shape[-1]), weight, bias)
    return out.view(len(x), *middle, out.shape[-1])


class stacked_ops(TorchFunctionMode):
    """While active inside vmap, linear layers use their stacked form."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Redirect linear layers, pass everything else on."""
        kwargs = kwargs or {}
        if func is F.linear and not kwargs and len(args) == 3:
            return _Linear.apply(*args)
        return func(*args, **kwargs)
