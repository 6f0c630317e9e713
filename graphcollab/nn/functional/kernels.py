"""Kernels for Y = W X and for dL/dW with the sparse W of a `Structure`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch_geometric.utils import segment

from graphcollab._base.checks import own_filter
from graphcollab._base.device import beside
from graphcollab._base.memory import new_rows
from graphcollab._base.threads import share
from graphcollab.nn.functional import gpu
from graphcollab.nn.functional.compiled import INSTRUCTIONS, fits, inner_products, weighted_sums
from graphcollab.nn.functional.structure import Structure

with own_filter("ignore", "Sparse"):  # PyTorch warns once per process, so trigger its warnings now
    torch.sparse_csr_tensor([0, 0], [], torch.empty(0), (1, 1), check_invariants=False)

BLOCK_BYTES = 2 * 2**20
DENSE_DENSITY = 0.2
LONG_ROW = 2**16
DENSE_NODES = 8192
SCATTER_NUMBERS = (2**26, 2**18)  # per block of messages: on a GPU, on a CPU
PARTIAL_SUMS = 16  # of a sampled product, independent of the number of threads
DENSE_WASTE = {"compiled": 4, "csr": 32}  # maximum ratio of computed to needed products when computing all pairs


def column_blocks(width: int, rows: int, numbers: int) -> Iterator[slice]:
    """Cut columns such that a block of so many rows has about so many numbers, but at least 128 columns."""
    step = max(numbers // max(rows, 1), 128)
    for start in range(0, width, step):
        yield slice(start, min(start + step, width))


def _dense(structure: Structure, weight: Tensor) -> Tensor:
    matrix, structure = weight.new_zeros(structure.num_receivers, structure.num_senders), structure.beside(weight)
    return matrix.index_put_((structure.receiver, structure.sender), weight, accumulate=True)


def dense_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply by W as a dense matrix: the fastest option if most pairs are edges.

    Non-finite numbers affect only receivers with an edge from them, as in the other kernels, although 0 · ∞ is NaN.
    """
    weight = weight.to(x.dtype)
    matrix = beside(_dense(structure, weight), x)
    if x.device.type != "cpu":  # checking for such numbers would synchronize: whole rows are lost
        lost = ~x.isfinite().all(1, keepdim=True)
        heard = beside(_dense(structure, torch.ones_like(weight)), x) @ lost.to(x.dtype) > 0
        return (matrix @ torch.where(lost, 0, x)).masked_fill(heard, torch.nan)
    out = torch.mm(matrix, x, out=new_rows(x, len(matrix), x.shape[1]))
    if len(out) == 0 or bool(out[0].isfinite().all()):  # any such number would affect the first row, too
        return out
    lost = ~x.isfinite()
    heard = _dense(structure, torch.ones_like(weight)) @ lost.to(x.dtype) > 0
    return torch.where(heard, csr_product(structure, weight, x), matrix @ x.masked_fill(lost, 0))


def csr_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply by W in compressed rows, a block of columns at a time so that the block's rows stay in the cache.

    Threads process different blocks rather than sharing one: waiting for each other takes 10 times as long as one
    thread if another process occupies a core. Half precision is computed in single precision. On a GPU, cuSPARSE sums
    long rows in no fixed order, so last digits may differ between calls.
    """
    within = torch.promote_types(x.dtype, torch.float32)
    matrix = structure.beside(x).adjacency(beside(weight.to(within), x))
    blocks = list(column_blocks(x.shape[1], len(x), BLOCK_BYTES // within.itemsize))
    if len(blocks) == 1 or x.device.type != "cpu":
        return (matrix @ x.to(within)).to(x.dtype)
    out = new_rows(x, structure.num_receivers, x.shape[1])

    def multiply(block: slice) -> None:
        out[:, block] = matrix @ x[:, block].to(within).contiguous()

    share(multiply, blocks)
    return out


def scatter_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Sum weighted rows by receiver: by torch-scatter if installed, else by PyTorch's segment reduction.

    Rows are gathered a block of columns at a time, [E, c], and summed at least in single precision.
    """
    within, there = torch.promote_types(x.dtype, torch.float32), structure.beside(x)
    weight, out = beside(weight.to(within), x)[:, None], new_rows(x, structure.num_receivers, x.shape[1])
    for block in column_blocks(x.shape[1], structure.num_edges, SCATTER_NUMBERS[x.device.type == "cpu"]):
        messages = weight * x[:, block].to(within)[there.sender]  # [E, c]
        if x.is_complex():  # segment reduction supports only real numbers
            out[:, block] = torch.view_as_complex(segment(torch.view_as_real(messages), there.ptr))
        else:
            out[:, block] = segment(messages, there.ptr)
    return out


def triton_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply on a GPU by the package's own kernels, or, if they are unavailable, by the next best method."""
    out = gpu.weighted_sums(structure, weight, x)
    return PRODUCTS[choose_product(structure, x)](structure, weight, x) if out is None else out


PRODUCTS: dict[str, Callable[[Structure, Tensor, Tensor], Tensor]] = {
    "dense": dense_product,
    "csr": csr_product,
    "scatter": scatter_product,
}
if INSTRUCTIONS:
    PRODUCTS["compiled"] = weighted_sums
if gpu.HERE:
    PRODUCTS["triton"] = triton_product


def choose_product(structure: Structure, x: Tensor) -> str:
    """Return ``compiled`` or ``triton`` if available, else ``dense`` for dense or tiny graphs, or ``csr``.

    On a CPU, the sum of a receiver thus depends on its own edges alone, to the last bit.
    """
    if fits(x):
        return "compiled"
    if gpu.usable(x):
        return "triton"
    few = min(structure.num_senders, structure.num_receivers) <= 4
    return "dense" if few or structure.density >= DENSE_DENSITY or not x.is_floating_point() else "csr"


def edge_dot(structure: Structure, a: Tensor, b: Tensor) -> Tensor:
    """Return ⟨a_i, b_j⟩ of a [D, P] and b [S, P] for every edge j → i, in the structure's order, [E]."""
    structure = structure.beside(a)
    pairs = structure.num_receivers * structure.num_senders
    compiled = fits(a, b)
    if not compiled and gpu.usable(a) and (products := gpu.inner_products(structure, a, b)) is not None:
        return products.to(a.dtype)
    if pairs <= min(DENSE_WASTE["compiled" if compiled else "csr"] * structure.num_edges, DENSE_NODES**2):
        return (a @ b.T)[structure.receiver, structure.sender]
    if compiled:
        return inner_products(structure, a, b).to(a.dtype)
    if a.device.type == "cpu" and a.dtype in (torch.float32, torch.float64):
        return _sampled(structure, a, b)
    total = a.new_zeros(structure.num_edges)
    for block in column_blocks(a.shape[1], 64, BLOCK_BYTES // a.element_size()):
        left, right = a[:, block], b[:, block]
        step = max(BLOCK_BYTES // (left.shape[1] * a.element_size()), 1)
        for start in range(0, structure.num_edges, step):
            edges = slice(start, start + step)
            total[edges] += torch.linalg.vecdot(left[structure.receiver[edges]].conj(), right[structure.sender[edges]])
    return total


def _sampled(structure: Structure, a: Tensor, b: Tensor) -> Tensor:
    """Return the same by torch's sampled product, which reads contiguous rows in place.

    Long or strided rows are processed a block of columns at a time: it sums sequentially, which loses digits, and
    copies.
    """
    pattern = structure.adjacency(a.new_zeros(structure.num_edges))
    if a.shape[1] <= LONG_ROW and a.is_contiguous() and b.is_contiguous():
        return torch.sparse.sampled_addmm(pattern, a, b.T, beta=0.0).values()
    blocks = list(column_blocks(a.shape[1], max(len(a), len(b)), BLOCK_BYTES // a.element_size()))
    partial = a.new_zeros(min(PARTIAL_SUMS, len(blocks)), structure.num_edges)

    def add(n: int) -> None:
        for block in blocks[n * len(blocks) // len(partial) : (n + 1) * len(blocks) // len(partial)]:
            partial[n] += torch.sparse.sampled_addmm(pattern, a[:, block], b[:, block].T, beta=0.0).values()

    share(add, range(len(partial)))
    return partial.sum(0)
