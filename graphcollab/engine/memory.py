"""What layers keep from pass to pass outside parameters and buffers, where all nodes would share it."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from graphcollab.engine.copy_module import copy_module

if TYPE_CHECKING:
    from graphcollab.engine.reference import Reference

__all__ = ["Memory", "changed", "kept_by", "memory_of"]

Memory: TypeAlias = dict[str, Any]
"""What layers keep in plain attributes, by name."""

PLAIN = type(None), bool, int, float, str
DEEPEST = 8  # containers in containers that are looked into


def memory_of(module: nn.Module) -> Memory:
    """Return what layers have as attributes of their own, but for what every module has."""
    every = vars(nn.Module())
    return {
        f"{prefix}.{name}".removeprefix("."): value
        for prefix, layer in module.named_modules()
        for name, value in vars(layer).items()
        if name not in every
    }


def changed(before: Memory, now: Memory) -> list[str]:
    """Return the names of numbers, texts, tensors and containers of such that are not what they were."""
    return [name for name in before | now if not _same(before.get(name), now.get(name))]


def kept_by(reference: Reference) -> list[str]:
    """Return the attributes, but for numbers, that forward passes change without carrying anything to the next.

    Whatever the passes of the trial have changed is looked at again, on copies of the module as it was given: one
    node's pass, another's, and both, one after the other, in either mode. What the second pass leaves must not depend
    on the first, nor must its outputs. An activation that every pass makes anew is accepted, and so is a cache that all
    nodes fill alike, which is warned of, since for other samples they might not.

    Raises:
        ValueError: If something is carried over. A number that outputs do not depend on is left to the caller.
    """
    names = changed(memory_of(reference.origin), memory_of(reference.module))
    if not names:
        return []
    before = memory_of(reference.origin)
    for train in (False, True):
        second, outputs = _after(reference, (1,), train)
        both, beside = _after(reference, (0, 1), train)
        carried = [name for name in changed(second, both) if not _is_plain(name, second, both, before)]
        if carried or not _equal(outputs, beside):
            name = (carried or changed(second, both) or names)[0]
            raise ValueError(
                f"{reference.kind} keeps something in its attribute {name!r}, which forward passes change, from pass "
                "to pass, and nodes would share it: make it a buffer (register_buffer), of which every node has its "
                "own, or leave it away"
            )
        first, _ = _after(reference, (0,), train)
        filled = set(changed(before, first)) - set(changed(first, both))
        for name in sorted(name for name in filled if not _is_plain(name, first, both, before)):
            if not train:
                warnings.warn(
                    f"{reference.kind} fills {name!r} in its first forward pass and keeps it, and nodes share it: that "
                    "is right only where it is the same for all nodes, which it was for the samples it was tried on",
                    stacklevel=5,
                )
    return [name for name in names if not _is_plain(name, before, memory_of(reference.module))]


def _after(reference: Reference, models: tuple[int, ...], train: bool) -> tuple[Memory, Tensor]:
    """Return what a copy of the module keeps after passes of some models over batches of equal length; last outputs."""
    trial = copy.copy(reference)
    trial.module = copy_module(reference.origin)
    for model in models:
        outputs, _, _ = trial.forward(model, reference.batch_of_two(model), train)
    return memory_of(trial.module), outputs


def _is_plain(name: str, *memories: Memory) -> bool:
    """Tell whether an attribute is a number, text or switch wherever it is there."""
    return all(type(memory.get(name)) in PLAIN for memory in memories)


def _same(one: Any, other: Any, depth: int = 0) -> bool:
    """Compare values; what is none of those that are looked into, and parameters, counts as the same."""
    if isinstance(one, nn.Parameter) or isinstance(other, nn.Parameter) or depth > DEEPEST:
        return True
    if isinstance(one, Tensor | np.ndarray) and isinstance(other, Tensor | np.ndarray):
        return type(one) is type(other) and _equal(torch.as_tensor(one), torch.as_tensor(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key], depth + 1) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(a, b, depth + 1) for a, b in pairs)
    if isinstance(one, set) and isinstance(other, set):
        return len(one) == len(other)
    known = (*PLAIN, Tensor, np.ndarray, dict, list, tuple, set)
    if isinstance(one, known) and isinstance(other, known):
        return type(one) is type(other) and bool(one == other or one != one)
    return True


def _equal(one: Tensor, other: Tensor) -> bool:
    """Tell whether tensors are equal but for what a GPU adds up in another order."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    with torch.no_grad():
        largest = float(torch.nan_to_num(one.abs(), nan=0.0, posinf=0.0).max()) if one.numel() else 0.0
        return torch.allclose(one, other, rtol=0.0, atol=1e-5 * largest, equal_nan=True)
