"""Operations with a better stacked form than vmap's own: the linear layer and the cross-entropy of many nodes at once.

Inside vmap, PyTorch decomposes a linear layer with its own weights per row into a product and a sum whose gradients are
laid out against the grain, and the cross-entropy into gathers with many intermediate tensors. The forms here are one
``baddbmm`` and one flattened cross-entropy. They are put in place of the originals only while `stacked_ops` is active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["stacked_ops"]


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
        middle = x.shape[1:-1]  # none for a single sample, several for sequences
        out = _BatchedLinear.apply(x.reshape(rows, -1, x.shape[-1]), weight, bias)
        return out.view(rows, *middle, out.shape[-1]), 0


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropy per sample with one flattened call as its stacked form."""

    @staticmethod
    def forward(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        logits, labels = ctx.saved_tensors
        spread = logits.softmax(-1) - F.one_hot(labels, logits.shape[-1])
        return spread * grad[..., None], None

    @staticmethod
    def vmap(info: Any, in_dims: Sequence[int | None], logits: Tensor, labels: Tensor) -> tuple[Tensor, int]:
        rows = info.batch_size
        logits, labels = _front(logits, in_dims[0], rows), _front(labels, in_dims[1], rows)
        flat = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="none")
        return flat.view(labels.shape), 0


def _plain_cross_entropy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a call is cross-entropy of logits [B, C] and labels [B], per sample and with no other option."""
    if len(args) != 2 or kwargs != {"reduction": "none"}:
        return False
    return args[0].dim() == 2 and args[1].dim() == 1 and not args[1].is_floating_point()


class stacked_ops(TorchFunctionMode):
    """While active inside vmap, linear layers and cross-entropies use their stacked forms."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Redirect the two functions, pass everything else on."""
        kwargs = kwargs or {}
        if func is F.linear and not kwargs and len(args) == 3:
            return _Linear.apply(*args)
        if func is F.cross_entropy and _plain_cross_entropy(args, kwargs):
            return _CrossEntropy.apply(*args)
        return func(*args, **kwargs)
