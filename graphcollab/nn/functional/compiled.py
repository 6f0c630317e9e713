"""The compiled kernels for models on the CPU: weighted sums of rows, of their differences, and inner products.

They are included in wheels, and in builds with a C compiler; otherwise PyTorch's slower products are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.errors import UnsupportedError
from graphcollab._base.memory import address, new_rows
from graphcollab._base.threads import share, threads_here
from graphcollab.nn.functional.structure import Structure

try:
    _rows: Any = import_module("graphcollab.nn.functional._rows")
except ImportError:
    _rows = None

INSTRUCTIONS: list[str] = _rows.instructions() if _rows else []
"""The instruction sets of this machine, the best one last; empty without compiled kernels."""

KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}
BLOCK_BYTES = 3 * 2**18  # size of the rows of a column block, which fit into the cache
LEAST_COLUMNS = 256
FEW_NUMBERS = 2**16  # with fewer multiplications, distributing them costs more than computing them
PARTS = 16  # of an inner product, independent of the number of threads
TALL = 4  # receivers per tile
DENSE_DENSITY = 0.5  # from this density on, a row is read for four receivers at a time, even without some edges


def fits(*rows: Tensor) -> bool:
    """Return whether the kernels support the given rows: floating-point numbers on the CPU."""
    known = all(one.device.type == "cpu" and one.dtype in KINDS and one.layout == torch.strided for one in rows)
    return bool(INSTRUCTIONS) and known


def weighted_sums(
    structure: Structure,
    weight: Tensor,
    x: Tensor,
    base: Tensor | None = None,
    against: Tensor | None = None,
    instructions: str | None = None,
) -> Tensor:
    """Return y_i = b_i + Σ_j w_ij (x_j − a_i), [D, P], of x [S, P], as b_i − (Σ_j w_ij) a_i + Σ_j w_ij x_j.

    Weights [E] are in the structure's order; b (``base``) and a (``against``) [D, P] are 0 by default. Half precision
    is summed in single precision. Shapes and types must fit, as `mix` checks; unsupported rows raise a ValueError.
    """
    x = _side_by_side(x)
    base, against = (None if one is None else _side_by_side(one) for one in (base, against))
    w = weight.to(torch.float64 if x.dtype == torch.float64 else torch.float32).contiguous().resolve_neg()
    nothing = None if against is None else w.new_zeros(structure.num_receivers, 1)
    total = None if nothing is None else nothing.index_add_(0, structure.receiver, w[:, None])
    dense = _tiles(structure, w) if structure.density >= DENSE_DENSITY and not structure.repeats else None
    y = new_rows(x, structure.num_receivers, x.shape[1])
    name, kind = instructions or INSTRUCTIONS[-1], KINDS[x.dtype]

    heard, weights, senders, starts = _at(x), address(w), address(structure.sender), address(structure.ptr)

    def act(part: tuple[int, int, int, int]) -> None:
        first, count, start, stop = part
        own = *_at(base, first), *_at(against, first), _at(total, first)[0]
        edges = starts + 8 * first, senders, count  # 8 bytes each
        tiles = _at(dense, first // TALL)[0], len(x)
        _rows.mix(name, kind, *heard, *own, weights, *edges, *tiles, *_at(y, first), start, stop)

    _share(act, structure, x, whole=dense is not None)
    return y


def inner_products(structure: Structure, a: Tensor, b: Tensor, instructions: str | None = None) -> Tensor:
    """Return ⟨a_i, b_j⟩ of a [D, P] and b [S, P] for every edge j → i, in the structure's order, float64 [E].

    Numbers are multiplied at least in single precision, in the same blocks and parts for any number of threads. Shapes
    and types must fit, as `Structure.between` checks.
    """
    a, b = _side_by_side(a), _side_by_side(b)
    name, kind = instructions or INSTRUCTIONS[-1], KINDS[a.dtype]
    blocks = list(_columns(a, len(a) + len(b)))
    total = torch.zeros(min(PARTS, len(blocks)), structure.num_edges, dtype=torch.float64)
    edges = address(structure.ptr), address(structure.sender), structure.num_receivers

    def act(part: int) -> None:
        for start, stop in blocks[part * len(blocks) // len(total) : (part + 1) * len(blocks) // len(total)]:
            _rows.dot(name, kind, *_at(a), *_at(b), *edges, address(total[part]), start, stop)

    if structure.num_edges * a.shape[1] < FEW_NUMBERS:
        for part in range(len(total)):
            act(part)
    else:
        share(act, range(len(total)))
    return total.sum(0)


def _side_by_side(rows: Tensor) -> Tensor:
    """Return rows that are contiguous in memory; unsupported ones raise a ValueError."""
    if not fits(rows):
        known = ", ".join(str(kind).removeprefix("torch.") for kind in KINDS)
        raise UnsupportedError(
            "rows", f"compiled kernels are for {known} on the CPU, got {rows.dtype} on {rows.device}"
        )
    rows = rows.resolve_neg()
    return rows if rows.stride(1) == 1 or rows.shape[1] < 2 else rows.contiguous()


def _at(rows: Tensor | None, first: int = 0) -> tuple[int, int]:
    """Return the address of rows, starting with the given one, and their stride in numbers."""
    return (0, 0) if rows is None else (address(rows) + first * rows.stride(0) * rows.element_size(), rows.stride(0))


def _tiles(structure: Structure, weight: Tensor) -> Tensor:
    """Return the weights of all pairs, [⌈D / 4⌉, 4 · S]: four receivers at a time, adjacent for every sender."""
    tiles = -(-structure.num_receivers // TALL)
    place = structure.receiver * structure.num_senders + structure.sender
    dense = weight.new_zeros(tiles * TALL * structure.num_senders).index_add_(0, place, weight)
    return dense.view(tiles, TALL, -1).transpose(1, 2).reshape(tiles, -1)


def _columns(x: Tensor, count: int, least: int = LEAST_COLUMNS) -> Iterator[tuple[int, int]]:
    """Cut columns into blocks for which so many rows fit into the cache, with a minimum number of columns each."""
    step = max(BLOCK_BYTES // (max(count, 1) * x.element_size()) // LEAST_COLUMNS, -(-least // LEAST_COLUMNS))
    for start in range(0, x.shape[1], step * LEAST_COLUMNS):
        yield start, min(start + step * LEAST_COLUMNS, x.shape[1])


def _share(act: Any, structure: Structure, x: Tensor, whole: bool) -> None:
    """Distribute column blocks for all receivers over threads; if there are few blocks, split receivers, too.

    A kernel that computes the sums of all receivers strip by strip (``whole``) needs blocks only for distribution: it
    gets a few large ones.
    """
    count = structure.num_receivers
    least = -(-x.shape[1] // (4 * threads_here())) if whole else LEAST_COLUMNS
    blocks = [*_columns(x, len(x), least)]
    if structure.num_edges * x.shape[1] < FEW_NUMBERS:
        for block in blocks:
            act((0, count, *block))
        return
    step = count if whole else max(-(-count * min(len(blocks), PARTS) // PARTS // TALL) * TALL, TALL)
    share(act, [(first, min(step, count - first), *block) for block in blocks for first in range(0, count, step)])
