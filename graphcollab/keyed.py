"""Randomness that depends on what it is for, not on when it is drawn.

Every random number in graphcollab is a pure function of integer keys such as ``(seed, node_id, round)``. Nothing is
drawn from a shared stream, so results do not change with the order of nodes, the size of a chunk, the device or the
number of processes, and a resumed run needs no generator state.

The mixing function is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014),
folded once per key. It runs as a handful of int64 tensor operations and is therefore vectorised over nodes.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["keyed_bits", "keyed_normal", "keyed_order", "keyed_seed", "keyed_uniform"]

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MULTIPLY_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MULTIPLY_2 = -7723592293110705685  # 0x94D049BB133111EB

Bits: TypeAlias = Tensor | int
"""Signed 64-bit integers: a tensor of them, or one."""


def _wrap(x: Bits) -> Bits:
    """Let integers overflow as tensors do."""
    return x if isinstance(x, Tensor) else (x + 2**63) % 2**64 - 2**63


def _shift_right(x: Bits, bits: int) -> Bits:
    """Shift right without copying the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _splitmix(x: Bits) -> Bits:
    x = _wrap(x + _GOLDEN)
    x = _wrap((x ^ _shift_right(x, 30)) * _MULTIPLY_1)
    x = _wrap((x ^ _shift_right(x, 27)) * _MULTIPLY_2)
    return x ^ _shift_right(x, 31)


def keyed_bits(*keys: Tensor | int) -> Tensor:
    """Return 64 random bits, int64, for every combination of the keys: integers or int64 tensors, which broadcast.

    The order of the keys matters.

    Example:
        >>> import torch
        >>> nodes = torch.arange(3)
        >>> bits = keyed_bits(0, nodes, 7)
        >>> bool((bits[[2, 0]] == keyed_bits(0, nodes[[2, 0]], 7)).all())
        True
    """
    state: Bits = 0  # as long as keys are integers it is one too: that is much faster than tensors of one number
    for key in keys:
        mixed = _splitmix(key.long() if isinstance(key, Tensor) else int(key))
        state = _splitmix(mixed ^ state if isinstance(mixed, Tensor) else state ^ mixed)
    return state if isinstance(state, Tensor) else torch.tensor(state, dtype=torch.int64)


def keyed_uniform(*keys: Tensor | int) -> Tensor:
    """Return float64 numbers in [0, 1) for the broadcast keys (53 random bits each)."""
    return torch.as_tensor(_shift_right(keyed_bits(*keys), 11)).double() * 2.0**-53


def keyed_normal(*keys: Tensor | int) -> Tensor:
    """Return float64 standard normal numbers for the broadcast keys (Box and Muller's transform)."""
    radius = torch.sqrt(-2.0 * torch.log1p(-keyed_uniform(*keys, 1)))
    return radius * torch.cos(2.0 * math.pi * keyed_uniform(*keys, 2))


def keyed_order(*keys: Tensor | int, dim: int = -1) -> Tensor:
    """Return a random permutation along ``dim`` for the broadcast keys: the order of their random bits."""
    return keyed_bits(*keys).argsort(dim=dim, stable=True)


def keyed_seed(*keys: int) -> int:
    """Return a non-negative seed for a ``torch.Generator`` or NumPy generator from integer keys."""
    return int(_shift_right(int(keyed_bits(*keys)), 1))
