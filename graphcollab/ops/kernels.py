"""Kernels for Y = W X and for dL/dW, with sparse W: interchangeable, chosen by a fixed rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.ops.structure import Structure
from graphcollab.threads import share

__all__ = ["PRODUCTS", "choose_product", "edge_dot"]

BLOCK_BYTES = 2 * 2**20
DENSE_DENSITY = 0.2
LONG_ROW = 2**16
DENSE_NODES = 8192
PARTIAL_SUMS = 16  # of a sampled product, whatever the number of threads that make them
DENSE_WASTE = 32  # a dense product of all pairs beats gathered ones until it computes this many times what is needed


def _blocks(width: int, rows: int, element_size: int) -> Iterator[slice]:
    """Cut columns so that ``rows`` of a block fit the cache."""
    step = max(BLOCK_BYTES // (max(rows, 1) * element_size), 128)
    for start in range(0, width, step):
        yield slice(start, min(start + step, width))


def _dense(structure: Structure, weight: Tensor) -> Tensor:
    matrix = weight.new_zeros(structure.num_receivers, structure.num_senders)
    return matrix.index_put_((structure.receiver, structure.sender), weight, accumulate=True)


def dense_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply with W as a dense matrix: the fastest where most pairs are edges.

    Numbers that are not finite reach only those with an edge to them, as in the other kernels, although 0 · ∞ is NaN.
    """
    matrix = beside(_dense(structure, weight), x)
    if x.device.type != "cpu":  # whether there are such numbers is not asked, as that would wait: whole rows are lost
        lost = ~x.isfinite().all(1, keepdim=True)
        heard = beside(_dense(structure, torch.ones_like(weight)), x) @ lost.to(x.dtype) > 0
        return (matrix @ torch.where(lost, 0, x)).masked_fill(heard, torch.nan)
    out = matrix @ x
    if len(out) == 0 or bool(out[0].isfinite().all()):  # each such number would be in the first row too
        return out
    lost = ~x.isfinite()
    heard = _dense(structure, torch.ones_like(weight)) @ lost.to(x.dtype) > 0
    return (matrix @ x.masked_fill(lost, 0)).masked_fill(heard, torch.nan)


def csr_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply with W in compressed rows, a block of columns at a time so that the block's rows stay in the cache.

    Blocks are shared between threads (`share`), not the work on a block: that would end in hundreds of places where
    threads wait for each other, 10 times as long as one thread takes where another process has a core. Half precision,
    for which torch has no sparse product, is computed in single precision.
    """
    within = torch.promote_types(x.dtype, torch.float32)
    matrix = structure.beside(x).adjacency(beside(weight.to(within), x))
    blocks = list(_blocks(x.shape[1], len(x), within.itemsize))
    if len(blocks) == 1 or x.device.type != "cpu":
        return (matrix @ x.to(within)).to(x.dtype)
    out = x.new_empty(structure.num_receivers, x.shape[1])

    def multiply(block: slice) -> None:
        out[:, block] = matrix @ x[:, block].to(within).contiguous()

    share(multiply, blocks)
    return out


PRODUCTS: dict[str, Callable[[Structure, Tensor, Tensor], Tensor]] = {
    "dense": dense_product,
    "csr": csr_product,
}


def choose_product(structure: Structure, x: Tensor) -> str:
    """Return the kernel for a graph: ``dense`` for dense or tiny graphs, ``csr`` for sparse ones."""
    few = min(structure.num_senders, structure.num_receivers) <= 4
    return "dense" if few or structure.density >= DENSE_DENSITY or not x.is_floating_point() else "csr"


def edge_dot(structure: Structure, a: Tensor, b: Tensor) -> Tensor:
    """Return ⟨a[i], b[j]⟩ for every edge j → i, in the structure's order (a sampled dense-dense product).

    Shapes:
        a: [D, P]; b: [S, P]; output: [E], on their device.
    """
    structure = structure.beside(a)
    pairs = structure.num_receivers * structure.num_senders
    if pairs <= min(DENSE_WASTE * structure.num_edges, DENSE_NODES**2):
        return (a @ b.T)[structure.receiver, structure.sender]
    if a.device.type == "cpu" and a.dtype in (torch.float32, torch.float64):
        return _sampled(structure, a, b)
    total = a.new_zeros(structure.num_edges)
    for block in _blocks(a.shape[1], 64, a.element_size()):
        left, right = a[:, block], b[:, block]
        step = max(BLOCK_BYTES // (left.shape[1] * a.element_size()), 1)
        for start in range(0, structure.num_edges, step):
            edges = slice(start, start + step)
            total[edges] += torch.linalg.vecdot(left[structure.receiver[edges]], right[structure.sender[edges]])
    return total


def _sampled(structure: Structure, a: Tensor, b: Tensor) -> Tensor:
    """Return the same by torch's sampled product, which reads rows where they lie if they are contiguous.

    Long or strided rows are taken a block of columns at a time: it sums in sequence, which loses digits, and copies.
    """
    pattern = structure.adjacency(a.new_zeros(structure.num_edges))
    if a.shape[1] <= LONG_ROW and a.is_contiguous() and b.is_contiguous():
        return torch.sparse.sampled_addmm(pattern, a, b.T, beta=0.0).values()
    blocks = list(_blocks(a.shape[1], max(len(a), len(b)), a.element_size()))
    partial = a.new_zeros(min(PARTIAL_SUMS, len(blocks)), structure.num_edges)

    def add(n: int) -> None:
        for block in blocks[n * len(blocks) // len(partial) : (n + 1) * len(blocks) // len(partial)]:
            partial[n] += torch.sparse.sampled_addmm(pattern, a[:, block], b[:, block].T, beta=0.0).values()

    share(add, range(len(partial)))
    return partial.sum(0)
