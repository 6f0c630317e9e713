"""`copy_module`: copies of modules, also of those that ``copy.deepcopy`` refuses or copies by half."""

from __future__ import annotations

import copy

from torch import Tensor, nn

__all__ = ["copy_module"]


def copy_module(module: nn.Module) -> nn.Module:
    """Return a copy that shares nothing with a module.

    Tensors that a module computed and keeps as attributes (the weight that the old ``weight_norm``, or pruning, makes
    anew before every forward pass) are copied by value, where ``copy.deepcopy`` refuses. Hooks on gradients of
    parameters, which it drops, are carried over.

    Example:
        >>> from torch.nn.utils import prune
        >>> pruned = prune.l1_unstructured(nn.Linear(2, 2), "weight", 1)
        >>> sorted(name for name, _ in copy_module(pruned).named_parameters())
        ['bias', 'weight_orig']
    """
    known: dict[int, object] = {}
    for layer in module.modules():
        for value in vars(layer).values():
            if isinstance(value, Tensor) and value.grad_fn is not None:
                known[id(value)] = value.detach().clone()
    copied = copy.deepcopy(module, known)
    own = dict(copied.named_parameters())
    for name, parameter in module.named_parameters():
        for hook in (parameter._backward_hooks or {}).values():
            own[name].register_hook(hook)
    return copied
