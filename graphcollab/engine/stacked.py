"""Modules for many nodes at once in forms that are faster than vmap's: linear layers, and chains of layers.

Inside vmap, PyTorch decomposes a linear layer with its own weights per row into a product and a sum whose gradients
have an inefficient memory layout. Here it is one ``baddbmm``, used only while `stacked_ops` is active.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from graphcollab.engine.guards import INSIDE, guarded

# Stateless elementwise layers: the same for one node and for many.
ELEMENTWISE = (
    nn.CELU, nn.ELU, nn.GELU, nn.Hardtanh, nn.Identity, nn.LeakyReLU, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid,
    nn.SiLU, nn.Softplus, nn.Tanh,
)  # fmt: skip

FEW, MANY = 8, 64  # columns and rows of factors whose product is faster as its transpose


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
        to_x = _product(grad, weight) if ctx.needs_input_grad[0] else None
        to_weight = _product(grad.mT, x) if ctx.needs_input_grad[1] else None
        to_bias = grad.sum(1) if ctx.needs_input_grad[2] else None
        return to_x, to_weight, to_bias


class _SteppingLinear(torch.autograd.Function):
    """y[r] = x[r] W[r]ᵀ + b[r], whose backward pass updates W and b, W ← keep W - rate ∂L/∂W, without gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, keep: float, rate: float) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.keep, ctx.rate = keep, rate
        return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        to_x = _product(grad, weight) if ctx.needs_input_grad[0] else None
        weight.baddbmm_(grad.mT, x, beta=ctx.keep, alpha=-ctx.rate)
        if bias is not None:
            own = bias if ctx.keep == 1 else bias.mul_(ctx.keep)
            own.add_(grad.sum(1), alpha=-ctx.rate)
        return to_x, None, None, None, None


def _product(one: Tensor, other: Tensor) -> Tensor:
    """Return the products [R, n, c] of [R, n, k] and [R, k, c], the second of which is row-major.

    On a CPU, products with few columns, as in low-rank adapters, are computed as their transpose, up to five times
    faster.
    """
    _, length, columns = other.shape
    if columns > FEW or min(one.shape[1], length) < MANY or one.device.type != "cpu":
        return torch.bmm(one, other)
    return torch.bmm(other.mT, one.mT).mT.contiguous()


class _Linear(torch.autograd.Function):
    """``F.linear`` with `_BatchedLinear` as its stacked form, which costs half as much when called directly."""

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
        x = x.expand(info.batch_size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        own = weight if in_dims[1] is None else weight.movedim(in_dims[1], 0)
        added = bias if bias is None or in_dims[2] is None else bias.movedim(in_dims[2], 0)
        return stacked_linear(x, own, added), 0


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply every row's layer, or one frozen for all, to x [R, ..., in]: weight [(R,) out, in], bias [(R,) out]."""
    if weight.dim() == 2:  # one product for all rows
        if bias is None or bias.dim() == 1:
            return F.linear(x, weight, bias)
        return F.linear(x, weight) + bias.view(len(x), *[1] * (x.dim() - 2), -1)
    if bias is not None and bias.dim() == 1:
        bias = bias.expand(len(x), -1)
    if x.dim() == 3:
        return _BatchedLinear.apply(x, weight, bias)
    middle = x.shape[1:-1]  # empty for a single sample, several dimensions for sequences
    out = _BatchedLinear.apply(x.reshape(len(x), -1, x.shape[-1]), weight, bias)
    return out.view(len(x), *middle, out.shape[-1])


class stacked_ops(TorchFunctionMode):
    """While active inside vmap, linear layers use their stacked form, and look-ups stay in their row's own table.

    vmap concatenates the tables of all rows, so an id past the end of one is in the next.
    """

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.linear and not kwargs and len(args) == 3:
            return _Linear.apply(*args)
        if func in INSIDE:
            args, kwargs = guarded(func, args, kwargs)
        return _one_hot(*args, **kwargs) if func is F.one_hot else func(*args, **kwargs)


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Encode classes; those that are out of range raise an error, which they do not in vmap's form."""
    if num_classes < 1:
        return F.one_hot(tensor, num_classes)
    none = torch.zeros(*tensor.shape, num_classes, dtype=torch.int64, device=tensor.device)
    return none.scatter(-1, tensor.unsqueeze(-1), 1)


@dataclass(frozen=True)
class Chain:
    """A chain of layers for many rows: takes parameters by name, [r, ...] each (shared: no r), and values [r, m, ...].

    ``steps`` are `linear`, `flatten` or `elementwise` with their first arguments, which can be pickled; ``writes``:
    whether they would write to their input.
    """

    steps: tuple[partial[Tensor], ...]
    writes: bool

    def __call__(self, params: Mapping[str, Tensor], values: Tensor) -> Tensor:
        values = values.clone() if self.writes else values
        for step in self.steps:
            values = step(params, values)
        return values


def stepping(chain: Chain, keep: float, rate: float, params: Mapping[str, Tensor], values: Tensor) -> Tensor:
    """Return a chain's outputs, [r, m, ...]; the backward pass takes the step θ ← keep θ - rate ∂L/∂θ of its layers.

    All layers must have their own parameters, on which the loss must not depend in any other way.
    """
    values = values.clone() if chain.writes else values
    for step in chain.steps:
        if step.func is linear:
            weight, bias = (None if name is None else params[name] for name in step.args)
            flat = _SteppingLinear.apply(values.flatten(1, -2), weight, bias, keep, rate)
            values = flat.view(*values.shape[:-1], -1)
        else:
            values = step(params, values)
    return values


def make_chain(module: nn.Module) -> Chain | None:
    """Return the stacked form of a module that is a chain of layers, or None if vmap is needed.

    vmap's overhead per step exceeds the cost of a small layer. A chain is an ``nn.Sequential`` (also nested, and
    subclasses that keep its ``forward``) of ``nn.Linear``, ``nn.Flatten`` and elementwise activations, without hooks on
    layers or gradients, and with the ``forward`` of their types.
    """
    steps = _steps(module, "", {name for name, _ in module.named_parameters()})
    return None if steps is None else Chain(tuple(steps), _writes(module))


def linear(weight: str, bias: str | None, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Apply a linear layer, given the names of its weight and bias."""
    return stacked_linear(x, params[weight], None if bias is None else params[bias])


def flatten(params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Flatten samples."""
    return x.flatten(2)


def elementwise(layer: nn.Module, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Apply an elementwise layer."""
    out: Tensor = layer(x)
    return out


def _writes(module: nn.Module) -> bool:
    """Return whether a chain would write to its input: an in-place activation comes before any new tensor."""
    for layer in module.modules():  # in the order of their calls
        if type(layer) is nn.Linear:
            return False
        if getattr(layer, "inplace", False):
            return True
    return False


def _steps(module: nn.Module, prefix: str, names: Set[str]) -> list[partial[Tensor]] | None:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
        return None
    if "forward" in vars(module) or any(p._backward_hooks for p in module.parameters(recurse=False)):
        return None  # this instance differs from its type
    if type(module) is nn.Linear:
        weight, bias = f"{prefix}weight", None if module.bias is None else f"{prefix}bias"
        own = {weight, bias or weight} <= names  # not shared under another name
        return [partial(linear, weight, bias)] if own else None
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return [partial(flatten)]
    if type(module) in ELEMENTWISE:
        return [partial(elementwise, module)]
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
        return None
    steps: list[partial[Tensor]] = []
    for name, child in module._modules.items():
        inner = None if child is None else _steps(child, f"{prefix}{name}.", names)
        if inner is None:
            return None
        steps += inner
    return steps
