"""Randomness that depends on what it is for, not on when it is drawn.

Every random number in graphcollab is a pure function of integer keys such as ``(seed, node_id, round)``. Nothing is
drawn from a shared stream, so results do not change with the order of nodes, the size of a chunk, the device or the
number of processes, and a resumed run needs no generator state.

The mixing function is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014),
folded once per key. It runs as a handful of int64 tensor operations and is therefore vectorised over nodes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["keyed_bits", "keyed_normal", "keyed_order", "keyed_seed", "keyed_uniform"]

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MULTIPLY_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MULTIPLY_2 = -7723592293110705685  # 0x94D049BB133111EB
_MASK = 2**64 - 1


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Shift int64 right without copying the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _splitmix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MULTIPLY_1
    x = (x ^ _shift_right(x, 27)) * _MULTIPLY_2
    return x ^ _shift_right(x, 31)


def _splitmix_int(x: int) -> int:
    """Do the same with one integer modulo 2**64."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * _MULTIPLY_1) & _MASK
    x = ((x ^ (x >> 27)) * _MULTIPLY_2) & _MASK
    return x ^ (x >> 31)


def _signed(x: int) -> int:
    """Return an integer modulo 2**64 as a signed one."""
    return x - 2**64 if x >= 2**63 else x


def keyed_bits(*keys: Tensor | int) -> Tensor:
    """Return 64 random bits for every combination of the broadcast keys.

    Args:
        keys: Integers or int64 tensors that broadcast against each other. The order of the keys matters.

    Shapes:
        Output: the broadcast shape of the keys, int64.

    Example:
        >>> import torch
        >>> nodes = torch.arange(3)
        >>> bits = keyed_bits(0, nodes, 7)
        >>> bool((bits[[2, 0]] == keyed_bits(0, nodes[[2, 0]], 7)).all())
        True
    """
    folded = 0  # leading integers are folded as such, which is much faster than tensors of one number
    for place, key in enumerate(keys):
        if isinstance(key, Tensor):
            return _fold(torch.tensor(_signed(folded), dtype=torch.int64, device=key.device), keys[place:])
        folded = _splitmix_int((folded ^ _splitmix_int(int(key) + _GOLDEN)) + _GOLDEN)
    return torch.tensor(_signed(folded), dtype=torch.int64)


def _fold(state: Tensor, keys: tuple[Tensor | int, ...]) -> Tensor:
    """Mix keys into a state, one after the other."""
    for key in keys:
        if isinstance(key, Tensor):
            mixed: Tensor | int = _splitmix(key.long() + _GOLDEN)
        else:
            mixed = _signed(_splitmix_int(key + _GOLDEN))
        state = _splitmix((state ^ mixed) + _GOLDEN)
    return state


def keyed_uniform(*keys: Tensor | int) -> Tensor:
    """Return float64 numbers in [0, 1) for the broadcast keys (53 random bits each).

    Example:
        >>> import torch
        >>> u = keyed_uniform(3, torch.arange(1000))
        >>> bool((u >= 0).all() and (u < 1).all())
        True
    """
    return _shift_right(keyed_bits(*keys), 11).double() * 2.0**-53


def keyed_normal(*keys: Tensor | int) -> Tensor:
    """Return float64 standard normal numbers for the broadcast keys (Box and Muller's transform)."""
    radius = torch.sqrt(-2.0 * torch.log1p(-keyed_uniform(*keys, 1)))
    return radius * torch.cos(2.0 * math.pi * keyed_uniform(*keys, 2))


def keyed_order(*keys: Tensor | int, dim: int = -1) -> Tensor:
    """Return a random permutation along ``dim`` for the broadcast keys: the order of their random bits.

    Example:
        >>> import torch
        >>> sorted(keyed_order(0, torch.arange(5)).tolist())
        [0, 1, 2, 3, 4]
    """
    return keyed_bits(*keys).argsort(dim=dim, stable=True)


def keyed_seed(*keys: int) -> int:
    """Return a non-negative seed for a ``torch.Generator`` or NumPy generator from integer keys.

    Example:
        >>> keyed_seed(0, 1) != keyed_seed(1, 0)
        True
    """
    return int(_shift_right(keyed_bits(*keys), 1))
