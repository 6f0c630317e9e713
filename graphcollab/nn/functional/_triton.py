"""Triton kernels for rows on a GPU: weighted sums of rows, of their differences, and inner products.

`gpu.py` imports them on demand. D receivers, S senders, P columns, E edges; rows may have any stride (strides of
columns are 1), and offsets have 64 bits. P and strides are given in units of UNIT numbers, since Triton vectorizes
loads as far as alignment is known. No sum uses atomics, and none depends on the GPU model, so repeated calls give the
same bits.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphcollab.nn.functional.structure import Structure

TILE = 128
ROWS, COLUMNS = 128, 64  # receivers and columns of a matrix product per program
WASTE = 16  # maximum ratio of computed to needed products when computing all pairs
MOST_PAIRS = 2**26
SLAB = 2**22  # numbers in the columns that programs work on at a time, which fit into a GPU's cache of 50 MB
PROGRAMS = 256  # that share the columns of inner products; independent of the GPU's size, for the same bits


@triton.jit
def _rounded(x):
    """Round x, float32, to the 11 digits of TF32; down if up would be infinite."""
    bits = x.to(tl.int32, bitcast=True)
    up = bits + 4096
    up = tl.where((up & 0x7FFFFFFF) >= 0x7F800000, bits, up)
    return (up & -8192).to(tl.float32, bitcast=True)


@triton.jit
def _split(x):
    """Return x, float32, rounded to TF32, and the remainder, which has at most one digit more than TF32."""
    large = _rounded(x)
    return large, x - large


@triton.jit
def _add_product(a, high, low, acc, SHORT: tl.constexpr):
    """Return acc + a (high + low) for a [m, k] with the precision of float32, by TF32; SHORT: a is exact in TF32.

    Tensor cores round sums toward zero, which affects small terms less: they come first.
    """
    if SHORT:
        acc = tl.dot(a, low, acc, input_precision="tf32")
        return tl.dot(a, high, acc, input_precision="tf32")
    large, small = _split(a)
    acc = tl.dot(small, high, acc, input_precision="tf32")
    acc = tl.dot(large, low, acc, input_precision="tf32")
    return tl.dot(large, high, acc, input_precision="tf32")


@triton.jit
def _sum_edges(ptr, sender, weight, x, stride, i, there, col, inside, SUM: tl.constexpr):
    """Return Σ_j w_ij x_j of receivers i [r] in columns [c], edge after edge, Σ_j w_ij, and their numbers of edges."""
    first = tl.load(ptr + i, mask=there, other=0)
    count = tl.load(ptr + i + 1, mask=there, other=0) - first
    acc = tl.zeros([i.shape[0], col.shape[0]], SUM)
    total = tl.zeros([i.shape[0]], SUM)
    for k in range(tl.max(count, 0)):
        more = k < count
        j = tl.load(sender + first + k, mask=more, other=0)
        w = tl.load(weight + first + k, mask=more, other=0.0)
        rows = tl.load(x + j[:, None] * stride + col[None, :], mask=more[:, None] & inside[None, :], other=0.0)
        acc += w[:, None] * rows.to(SUM)
        total += w
    return acc, total, count


@triton.jit
def _terms(base, against, base_stride, against_stride, total, count, i, there, col, inside, SUM: tl.constexpr):
    """Return b − (Σ_j w_ij) a, [r, c]; the a of receivers without edges is not read."""
    acc = tl.zeros([i.shape[0], col.shape[0]], SUM)
    mask = there[:, None] & inside[None, :]
    if base is not None:
        acc += tl.load(base + i[:, None] * base_stride + col[None, :], mask=mask, other=0.0).to(SUM)
    if against is not None:
        place = against + i[:, None] * against_stride + col[None, :]
        acc -= total[:, None] * tl.load(place, mask=mask & (count > 0)[:, None], other=0.0).to(SUM)
    return acc


@triton.jit(do_not_specialize=["D"])
def _by_edges(
    ptr, sender, weight, x, base, against, y, x_stride, base_stride, against_stride, y_stride, D, P,
    UNIT: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum the rows received by some receivers in some columns; programs of the same columns are consecutive."""
    P, x_stride, y_stride = P * UNIT, x_stride * UNIT, y_stride * UNIT
    base_stride, against_stride = base_stride * UNIT, against_stride * UNIT
    program, blocks = tl.program_id(0).to(tl.int64), tl.cdiv(D, ROWS)
    i = program % blocks * ROWS + tl.arange(0, ROWS)
    col = program // blocks * COLUMNS + tl.arange(0, COLUMNS)
    there, inside = i < D, col < P
    acc, total, count = _sum_edges(ptr, sender, weight, x, x_stride, i, there, col, inside, SUM)
    acc += _terms(base, against, base_stride, against_stride, total, count, i, there, col, inside, SUM)
    tl.store(
        y + i[:, None] * y_stride + col[None, :], acc.to(y.dtype.element_ty), mask=there[:, None] & inside[None, :]
    )


@triton.jit(do_not_specialize=["D"])
def _spread(ptr, sender, weight, high, low, total, D, width, COLUMNS: tl.constexpr, EDGES: tl.constexpr):
    """Write a receiver's weights to a row of the matrix [⌈D⌉, ⌈S⌉], split, zero without an edge; and their sum."""
    i = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.load(ptr + i, mask=i < D, other=0)
    last = tl.load(ptr + i + 1, mask=i < D, other=0)
    row = tl.zeros([COLUMNS], tl.float32)
    parts = tl.zeros([EDGES], tl.float32)
    for start in range(first, last, EDGES):
        edge = start + tl.arange(0, EDGES)
        name = tl.load(sender + edge, mask=edge < last, other=-1)
        w = tl.load(weight + edge, mask=edge < last, other=0.0)
        row += tl.sum(tl.where(name[None, :] == j[:, None], w[None, :], 0.0), 1)
        parts += w
    large, small = _split(row)
    tl.store(high + i * width + j, large, mask=j < width)
    tl.store(low + i * width + j, small, mask=j < width)
    if tl.program_id(1) == 0:
        tl.store(total + i, tl.sum(parts))


@triton.jit
def _weights(matrix, i, k, width, DEPTH: tl.constexpr):
    """Return the weights of some senders' rows, starting at k, for receivers i, [DEPTH, r]."""
    return tl.load(matrix + i[None, :] * width + (k + tl.arange(0, DEPTH))[:, None])


@triton.jit
def _rows(x, stride, k, S, near, left, DEPTH: tl.constexpr, FINITE: tl.constexpr):
    """Return columns of senders' rows, starting at k, transposed: float32 [c, DEPTH]; FINITE: only finite numbers."""
    j = k + tl.arange(0, DEPTH)
    mask = (j < S)[:, None] & (near < left)[None, :]
    rows = tl.load(x + (j[:, None] * stride + near[None, :]), mask=mask, other=0.0).to(tl.float32)
    if FINITE:
        rows = tl.where(tl.abs(rows) < float("inf"), rows, 0.0)
    return tl.trans(rows)


@triton.jit(do_not_specialize=["D", "S"])
def _by_matrix(
    ptr, sender, weight, high, low, total, x, base, against, y, odd,
    width, x_stride, base_stride, against_stride, y_stride, D, S, P,
    UNIT: tl.constexpr, SHORT: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, FEW: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Multiply some receivers' rows of the matrix with some columns of all senders' rows.

    Since 0 · ∞ is NaN, a non-finite number spoils all sums of its column. The count of non-finite numbers is written to
    ``odd`` [programs]. A second launch, AGAIN, recomputes these without such numbers, and then adds up edges.
    """
    if AGAIN and tl.load(odd + tl.program_id(0)) == 0:
        return
    P, x_stride, y_stride = P * UNIT, x_stride * UNIT, y_stride * UNIT
    base_stride, against_stride = base_stride * UNIT, against_stride * UNIT
    if WIDE:  # offsets within a block of columns
        x_stride, y_stride = tl.cast(x_stride, tl.int64), tl.cast(y_stride, tl.int64)
        base_stride, against_stride = tl.cast(base_stride, tl.int64), tl.cast(against_stride, tl.int64)
    program, blocks = tl.program_id(0).to(tl.int64), tl.cdiv(D, ROWS)
    start = (program % blocks * ROWS).to(tl.int32)
    first = program // blocks * COLUMNS
    i, near = start + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    there, left = i < D, tl.minimum(P - first, COLUMNS).to(tl.int32)
    acc = tl.zeros([COLUMNS, ROWS], tl.float32)
    for k in range(0, S, DEPTH):
        rows = _rows(x + first, x_stride, k, S, near, left, DEPTH, AGAIN)
        large, small = _weights(high, i, k, width, DEPTH), _weights(low, i, k, width, DEPTH)
        acc += _add_product(rows, large, small, tl.zeros([COLUMNS, ROWS], tl.float32), SHORT)
    count = tl.load(ptr + i + 1, mask=there, other=0) - tl.load(ptr + i, mask=there, other=0)
    sums, inside = tl.load(total + i), near < left
    out = _terms(
        base, against, base_stride, against_stride, sums, count, i, there, first + near, inside, tl.float32
    ) + tl.trans(acc)  # fmt: skip
    place = y + first + (i[:, None] * y_stride + near[None, :])
    tl.store(place, out.to(y.dtype.element_ty), mask=there[:, None] & inside[None, :])
    if not AGAIN:
        tl.store(odd + program, tl.sum(((tl.abs(out) < float("inf")) == 0).to(tl.int32)))
        return
    tl.debug_barrier()  # other threads have written what is replaced
    col = first + near
    for r in range(0, ROWS, FEW):
        own = (start + r + tl.arange(0, FEW)).to(tl.int64)
        on = own < D
        few, parts, many = _sum_edges(ptr, sender, weight, x, x_stride, own, on, col, inside, tl.float32)
        lost = on[:, None] & inside[None, :] & ((tl.abs(few) < float("inf")) == 0)
        few += _terms(base, against, base_stride, against_stride, parts, many, own, on, col, inside, tl.float32)
        tl.store(y + own[:, None] * y_stride + col[None, :], few.to(y.dtype.element_ty), mask=lost)


@triton.jit(do_not_specialize=["D", "S"])
def _all_pairs(
    a, b, out, a_stride, b_stride, D, S, P, length,
    UNIT: tl.constexpr, SHORT: tl.constexpr, ROWS: tl.constexpr, SENDERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Write inner products of some receivers' and some senders' rows, over one part of the columns, [parts, D, S]."""
    P, a_stride, b_stride = P * UNIT, a_stride * UNIT, b_stride * UNIT
    program, down, across = tl.program_id(0).to(tl.int64), tl.cdiv(D, ROWS), tl.cdiv(S, SENDERS)
    i = program % down * ROWS + tl.arange(0, ROWS)
    j = program // down % across * SENDERS + tl.arange(0, SENDERS)
    part = program // (down * across)
    acc = tl.zeros([ROWS, SENDERS], tl.float32)
    for start in range(part * length, tl.minimum((part + 1) * length, P), DEPTH):
        col = start + tl.arange(0, DEPTH)
        inside = (col < P)[None, :]
        u = tl.load(a + i[:, None] * a_stride + col[None, :], mask=(i < D)[:, None] & inside, other=0.0)
        v = tl.load(b + j[:, None] * b_stride + col[None, :], mask=(j < S)[:, None] & inside, other=0.0)
        if SHORT:  # exact in TF32
            acc = tl.dot(u.to(tl.float32), tl.trans(v.to(tl.float32)), acc, input_precision="tf32")
        else:
            large, small = _split(tl.trans(v))
            acc += _add_product(u, large, small, tl.zeros([ROWS, SENDERS], tl.float32), False)
    place = out + (part * D + i)[:, None] * S + j[None, :]
    tl.store(place, acc, mask=(i < D)[:, None] & (j < S)[None, :])


@triton.jit(do_not_specialize=["E"])
def _each_edge(
    receiver, sender, a, b, out, a_stride, b_stride, E, P, length,
    UNIT: tl.constexpr, SUM: tl.constexpr, EDGES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write inner products of the rows at the ends of some edges, over one part of the columns, [parts, E]."""
    P, a_stride, b_stride = P * UNIT, a_stride * UNIT, b_stride * UNIT
    program, blocks = tl.program_id(0).to(tl.int64), tl.cdiv(E, EDGES)
    edge = program % blocks * EDGES + tl.arange(0, EDGES)
    part = program // blocks
    i = tl.load(receiver + edge, mask=edge < E, other=0)
    j = tl.load(sender + edge, mask=edge < E, other=0)
    acc = tl.zeros([EDGES, COLUMNS], SUM)
    for start in range(part * length, tl.minimum((part + 1) * length, P), COLUMNS):
        col = start + tl.arange(0, COLUMNS)
        mask = (edge < E)[:, None] & (col < P)[None, :]
        u = tl.load(a + i[:, None] * a_stride + col[None, :], mask=mask, other=0.0)
        v = tl.load(b + j[:, None] * b_stride + col[None, :], mask=mask, other=0.0)
        acc += u.to(SUM) * v.to(SUM)
    tl.store(out + part * E + edge, tl.sum(acc, 1), mask=edge < E)


def weighted_sums(
    structure: Structure, weight: Tensor, x: Tensor, base: Tensor | None, against: Tensor | None, y: Tensor
) -> None:
    """Write b_i + Σ_j w_ij (x_j − a_i) to y [D, P]; weights [E] are float64 for float64 rows, else float32."""
    (count, width), senders = y.shape, len(x)
    if not y.numel():
        return
    edges = structure.ptr, structure.sender, weight
    unit, units, *strides = _in_units(width, x, base, against, y)
    if not _dense(structure, x):
        columns = max(min(_power(width), 1024, _power(SLAB // max(senders, 1)) // 2), 64)
        rows = (1024 if x.dtype == torch.float64 else 2048) // columns
        programs = triton.cdiv(count, rows) * triton.cdiv(width, columns)
        sizes = {"UNIT": unit, "SUM": _sum(x), "ROWS": rows, "COLUMNS": columns}
        given = *edges, x, base, against, y, *strides, count, units
        how = {"num_warps": 4, "maxnreg": 168} if columns > 64 else {"num_warps": 1}
        _launch(_by_edges, (programs,), *given, **sizes, **how)
        return
    short, rows = x.element_size() == 2, min(_power(count), ROWS)
    depth, stages = (32, 2) if short else (16, 3)
    blocks, padded = triton.cdiv(count, rows), triton.cdiv(senders, depth) * depth
    high, low = x.new_empty(2, blocks * rows, padded, dtype=torch.float32)
    total = high.new_empty(blocks * rows)
    grid = blocks * rows, triton.cdiv(padded, TILE)
    _launch(_spread, grid, *edges, high, low, total, count, padded, COLUMNS=TILE, EDGES=32)
    programs = blocks * triton.cdiv(width, COLUMNS)
    odd = structure.ptr.new_empty(programs, dtype=torch.int32)
    given = *edges, high, low, total, x, base, against, y, odd, padded, *strides, count, senders, units
    wide = unit * max(strides) * (blocks * rows + padded) >= 2**31
    sizes = {"UNIT": unit, "SHORT": short, "WIDE": wide, "ROWS": rows, "COLUMNS": COLUMNS, "DEPTH": depth, "FEW": 16}
    for again in (False, True):
        _launch(_by_matrix, (programs,), *given, **sizes, AGAIN=again, num_warps=4, num_stages=stages)


def inner_products(structure: Structure, a: Tensor, b: Tensor, products: Tensor) -> None:
    """Write ⟨a_i, b_j⟩ of a [D, P] and b [S, P] for every edge j → i to products, float64 [E]."""
    (count, width), senders, edges = a.shape, len(b), structure.num_edges
    unit, units, *strides = _in_units(width, a, b)
    if _dense(structure, a):
        rows, columns = min(_power(count), TILE), min(_power(senders), TILE // 2)
        tiles = triton.cdiv(count, rows) * triton.cdiv(senders, columns)
        parts, length = _parts(width, PROGRAMS // max(tiles, 1), 32)
        out = torch.empty(parts, count, senders, device=a.device)
        sizes = {"UNIT": unit, "SHORT": a.element_size() == 2, "ROWS": rows, "SENDERS": columns}
        warps = 8 if rows * columns >= 4096 else 4
        given = a, b, out, *strides, count, senders, units, length
        _launch(_all_pairs, (tiles * parts,), *given, **sizes, DEPTH=16, num_warps=warps, num_stages=4, maxnreg=128)
        products.copy_(out.sum(0, dtype=torch.float64)[structure.receiver, structure.sender])
        return
    columns = 64
    parts, length = _parts(width, triton.cdiv(width * (count + senders), SLAB), 1024)
    kind = torch.float64 if parts == 1 or a.dtype == torch.float64 else torch.float32
    out = products[None] if parts == 1 else torch.empty(parts, edges, dtype=kind, device=a.device)
    many, warps = (64, 8) if width > 1024 else (16, 2)
    sizes = {"UNIT": unit, "SUM": _sum(a), "EDGES": many, "COLUMNS": columns}
    grid = (triton.cdiv(edges, sizes["EDGES"]) * parts,)
    ends = structure.receiver, structure.sender
    _launch(_each_edge, grid, *ends, a, b, out, *strides, edges, units, length, **sizes, num_warps=warps)
    if parts > 1:
        torch.sum(out, 0, dtype=torch.float64, out=products)


def _launch(kernel: Any, grid: tuple[int, ...], *given: Any, **options: Any) -> None:
    if all(grid):
        kernel[grid](*given, **options)


def _in_units(width: int, *rows: Tensor | None) -> list[int]:
    """Return a common divisor of columns and strides, the vector width of loads, and these in units of it."""
    sizes = [width, *(0 if one is None else one.stride(0) for one in rows)]
    unit = math.gcd(8, *sizes)
    return [unit, *(size // unit for size in sizes)]


def _dense(structure: Structure, x: Tensor) -> bool:
    few = max(structure.num_receivers, structure.num_senders) <= TILE
    pairs = structure.num_receivers * structure.num_senders
    return x.dtype != torch.float64 and (few or pairs <= min(WASTE * structure.num_edges, MOST_PAIRS))


def _power(number: int) -> int:
    """Return the next power of two, at least 16, the minimum for matrix products."""
    return max(triton.next_power_of_2(number), 16)


def _parts(width: int, most: int, least: int) -> tuple[int, int]:
    """Divide columns into at most so many parts with at least so many columns; return the number and size of parts."""
    length = triton.cdiv(triton.cdiv(max(width, 1), max(most, 1)), least) * least
    return triton.cdiv(max(width, 1), length), length


def _sum(x: Tensor) -> Any:
    return tl.float64 if x.dtype == torch.float64 else tl.float32
