"""Forward passes of many nodes at once without vmap, for modules that are chains of linear layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from torch import Tensor, nn

from graphcollab.engine.stacked_ops import stacked_linear

__all__ = ["Chain", "make_chain"]

Step = Callable[[Mapping[str, Tensor], Tensor], Tensor]

# Layers that treat every number alike and have no state: the same for one node and for many.
ELEMENTWISE = (
    nn.CELU, nn.ELU, nn.GELU, nn.Hardtanh, nn.Identity, nn.LeakyReLU, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid,
    nn.SiLU, nn.Softplus, nn.Tanh,
)  # fmt: skip


class Chain:
    """The stacked form of a module that is a chain of layers: no vmap, whose own work per step exceeds a small layer's.

    Args:
        steps: One function of (parameters by name, values) for every layer.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)

    def __call__(self, params: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Return the outputs of all rows.

        Shapes:
            params: [r, ...] each; inputs: [r, m, ...]; output: [r, m, ...].
        """
        for step in self.steps:
            inputs = step(params, inputs)
        return inputs


def make_chain(module: nn.Module) -> Chain | None:
    """Return the chain a module is, or None where vmap is needed.

    A chain is an ``nn.Sequential`` (nested ones too, and subclasses that keep its ``forward``) of ``nn.Linear``,
    ``nn.Flatten`` and elementwise activations, without hooks on layers or gradients, and with the ``forward`` of their
    types. Anything else may do what only its own code tells.

    Example:
        >>> make_chain(nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU())) is None
        False
        >>> make_chain(nn.Sequential(nn.Conv2d(1, 2, 3))) is None
        True
    """
    steps = _steps(module, "", {name for name, _ in module.named_parameters()})
    if steps is None:
        return None
    return Chain([lambda params, x: x.clone(), *steps] if _writes(module) else steps)


def _writes(module: nn.Module) -> bool:
    """Tell whether a chain would write to its input: an activation that works in place comes before any new tensor."""
    for layer in module.modules():  # in the order in which they are called
        if type(layer) is nn.Linear:
            return False
        if getattr(layer, "inplace", False):
            return True
    return False


def _steps(module: nn.Module, prefix: str, names: Set[str]) -> list[Step] | None:
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
        return None
    if "forward" in vars(module) or any(p._backward_hooks for p in module.parameters(recurse=False)):
        return None  # this one instance does something else than its type
    if type(module) is nn.Linear:
        weight, bias = f"{prefix}weight", None if module.bias is None else f"{prefix}bias"
        return [_linear(weight, bias)] if {weight, bias or weight} <= names else None  # else shared under another name
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return [lambda params, x: x.flatten(2)]
    if type(module) in ELEMENTWISE:
        return [lambda params, x: module(x)]
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
        return None
    steps: list[Step] = []
    for name, child in module._modules.items():
        inner = None if child is None else _steps(child, f"{prefix}{name}.", names)
        if inner is None:
            return None
        steps += inner
    return steps


def _linear(weight: str, bias: str | None) -> Step:
    return lambda params, x: stacked_linear(x, params[weight], None if bias is None else params[bias])
