"""Who sends to whom, sorted by receiver, and kernels for Y = W X and for dL/dW with such a sparse W."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import segment

from graphcollab.checks import own_filter
from graphcollab.device import beside
from graphcollab.memory import new_rows
from graphcollab.ops import gpu
from graphcollab.ops.compiled import INSTRUCTIONS, fits, inner_products, require_one_type, require_plain, weighted_sums
from graphcollab.threads import share

__all__ = ["PRODUCTS", "Structure", "choose_product", "column_blocks", "edge_dot"]

with own_filter("ignore", "Sparse CSR tensor support is in beta"):  # said once per process, so have it said now
    torch.sparse_csr_tensor([0, 0], [], torch.empty(0), (1, 1), check_invariants=False)

BLOCK_BYTES = 2 * 2**20
DENSE_DENSITY = 0.2
LONG_ROW = 2**16
DENSE_NODES = 8192
SCATTER_NUMBERS = (2**26, 2**18)  # of a block of messages: on a device, on a CPU
PARTIAL_SUMS = 16  # of a sampled product, whatever the number of threads that make them
DENSE_WASTE = {"compiled": 4, "csr": 32}  # so many times what is needed may a product of all pairs compute


@dataclass(frozen=True)
class Structure:
    """Edges of a bipartite graph in compressed-row form: row i lists what receiver i hears.

    It is on the CPU, and so are weights and other numbers of edges, unless they have to be found on a device. Its
    tensors are copies, since compiled kernels read what they say: later changes of those given change nothing.

    Args:
        ptr: Receiver i's edges are ``ptr[i]:ptr[i + 1]``, [D + 1].
        sender: Sender of every edge in that order, [E].
        order: Position in the caller's edge list of every edge in that order, [E]; None where they agree.
        num_senders: S.

    Raises:
        ValueError: If these are no rows of such edges.
    """

    ptr: Tensor
    sender: Tensor
    order: Tensor | None
    num_senders: int
    _copies: dict[torch.device, Structure] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what the compiled kernels would read as something else."""
        both = self.ptr, self.sender
        require_plain(*both, *([] if self.order is None else [self.order]))
        if not all(one.dtype == torch.int64 and one.is_contiguous() for one in both):
            kinds = " and ".join(str(one.dtype) for one in both)
            raise ValueError(f"ptr and sender must be torch.int64 without gaps, got {kinds}: use Structure.from_edges")
        count, ptr, sender = self.sender.numel(), self.ptr, self.sender
        rows = ptr.dim() == sender.dim() == 1 and len(ptr) > 0 and int(ptr[0]) == 0 and int(ptr[-1]) == count
        if not rows or bool((ptr.diff() < 0).any()):
            raise ValueError(f"ptr must be [D + 1], from 0 and ascending to the number of edges, {count}")
        if count and not 0 <= int(sender.min()) <= int(sender.max()) < self.num_senders:
            raise ValueError(f"sender must hold 0 to {self.num_senders - 1}, got {int(sender.min())} to {sender.max()}")
        place = torch.arange(count, device=sender.device)
        if self.order is not None and not torch.equal(self.order.sort().values, place):
            raise ValueError(f"order must hold every position of {count} edges once")
        for name in ("ptr", "sender", "order"):
            tensor = getattr(self, name)
            object.__setattr__(self, name, None if tensor is None else tensor.clone())

    @classmethod
    def _of(cls, ptr: Tensor, sender: Tensor, order: Tensor | None, num_senders: int) -> Structure:
        """Return a structure of tensors of its own that are known to be right."""
        made = object.__new__(cls)
        vars(made).update(ptr=ptr, sender=sender, order=order, num_senders=num_senders, _copies={})
        return made

    @classmethod
    def from_edges(cls, edge_index: Tensor, size: tuple[int, int]) -> Structure:
        """Sort edges [2, E], sender j in row 0 and receiver i in row 1, among S senders and D receivers (``size``).

        A ValueError says where an edge names a node outside the sizes, or that these are no edges.
        """
        senders, receivers = size
        edge_index = _plain(edge_index)
        if edge_index.dim() != 2 or len(edge_index) != 2:
            raise ValueError(f"edge_index must have shape [2, E], got {[*edge_index.shape]}")
        kind = edge_index.dtype
        if edge_index.numel() and (kind.is_floating_point or kind.is_complex or kind == torch.bool):
            raise ValueError(f"edge_index must hold whole numbers, got {kind}")
        edge_index = edge_index.long()
        if edge_index.numel():
            most = edge_index.amax(1).tolist()
            if int(edge_index.min()) < 0 or most[0] >= senders or most[1] >= receivers:
                raise ValueError(
                    f"edge_index reaches sender {most[0]} and receiver {most[1]} (lowest {int(edge_index.min())}), "
                    f"there are {senders} senders and {receivers} receivers"
                )
        key, order = edge_index[1] * senders + edge_index[0], None
        if bool((key[1:] < key[:-1]).any()):
            order = key.argsort(stable=True)
            edge_index = edge_index[:, order]
        counts = torch.bincount(edge_index[1], minlength=receivers)
        ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        sender = edge_index[0].clone() if order is None else edge_index[0]  # else it is a copy already
        return cls._of(ptr, sender.contiguous(), order, senders)

    @classmethod
    def between(cls, a: Tensor, b: Tensor, edges: Tensor | Structure) -> Structure:
        """Return edges from senders with vectors b [S, P] to receivers with a [D, P], alike; else a ValueError."""
        require_plain(a, b)
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
            raise ValueError(
                f"vectors of receivers and senders do not fit together: they must be [D, P] and [S, P], got "
                f"{tuple(a.shape)} and {tuple(b.shape)}"
            )
        require_one_type(a, b)
        structure = edges if isinstance(edges, Structure) else cls.from_edges(edges, (len(b), len(a)))
        if (structure.num_receivers, structure.num_senders) != (len(a), len(b)):
            raise ValueError(
                f"{len(a)} receivers and {len(b)} senders have vectors, but the edges are between "
                f"{structure.num_receivers} receivers and {structure.num_senders} senders"
            )
        return structure

    def beside(self, rows: Tensor) -> Structure:
        """Return the structure on the device of some rows: it is copied there once."""
        if rows.device == self.ptr.device:
            return self
        if rows.device not in self._copies:
            there = self._of(beside(self.ptr, rows), beside(self.sender, rows), None, self.num_senders)
            there.__dict__["receiver"] = beside(self.receiver, rows)  # where it cannot be known without waiting
            self._copies[rows.device] = there
        return self._copies[rows.device]

    @property
    def num_receivers(self) -> int:
        """The number of receivers, D."""
        return len(self.ptr) - 1

    @property
    def num_edges(self) -> int:
        """The number of edges, E."""
        return len(self.sender)

    @property
    def density(self) -> float:
        """Share of all sender-receiver pairs that are edges."""
        return self.num_edges / max(self.num_senders * self.num_receivers, 1)

    @cached_property
    def receiver(self) -> Tensor:
        """Receiver of every edge, [E], ascending."""
        return torch.repeat_interleave(torch.arange(self.num_receivers, device=self.ptr.device), self.ptr.diff())

    @cached_property
    def alone(self) -> Tensor | None:
        """Which receivers have no edges, [D]; None where it is known that all have some."""
        alone = self.ptr.diff() == 0
        return alone if alone.device.type != "cpu" or bool(alone.any()) else None

    @cached_property
    def repeats(self) -> bool:
        """Whether there is an edge twice."""
        return bool(((self.sender.diff() == 0) & (self.receiver.diff() == 0)).any())

    @cached_property
    def transposed(self) -> Structure:
        """The structure with senders and receivers exchanged; its ``order`` refers to this one's edges."""
        edge_index = torch.stack([self.receiver, self.sender])
        return Structure.from_edges(edge_index, (self.num_receivers, self.num_senders))

    def adjacency(self, weight: Tensor) -> Tensor:
        """Return W [D, S] as a sparse CSR tensor; ``weight`` [E] is in this order."""
        size = (self.num_receivers, self.num_senders)
        return torch.sparse_csr_tensor(self.ptr, self.sender, weight, size, check_invariants=False)

    def sort(self, values: Tensor) -> Tensor:
        """Bring values of the caller's edges into this order, on whatever device they are."""
        return values if self.order is None else values[beside(self.order, values)]

    def unsort(self, values: Tensor) -> Tensor:
        """Bring values in this order back into the caller's."""
        if self.order is None:
            return values
        out = torch.empty_like(values)
        out[self.order] = values
        return out


def _plain(edge_index: Tensor) -> Tensor:
    """Return edges as a plain tensor; a ValueError says what else they are."""
    if isinstance(edge_index, EdgeIndex):
        return edge_index.as_tensor()
    try:
        require_plain(edge_index)
    except ValueError as error:
        raise ValueError(
            f"edge_index must be a tensor [2, E], senders and receivers ({error}): of a sparse matrix adj_t "
            "give torch.stack([col, row]), and its values as weights"
        ) from None
    return edge_index.as_subclass(Tensor)


def column_blocks(width: int, rows: int, numbers: int) -> Iterator[slice]:
    """Cut columns so that a block of so many rows has about so many numbers, but 128 columns at least."""
    step = max(numbers // max(rows, 1), 128)
    for start in range(0, width, step):
        yield slice(start, min(start + step, width))


def _dense(structure: Structure, weight: Tensor) -> Tensor:
    matrix, structure = weight.new_zeros(structure.num_receivers, structure.num_senders), structure.beside(weight)
    return matrix.index_put_((structure.receiver, structure.sender), weight, accumulate=True)


def dense_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply with W as a dense matrix: the fastest where most pairs are edges.

    Numbers that are not finite reach only those with an edge to them, as in the other kernels, although 0 · ∞ is NaN.
    """
    weight = weight.to(x.dtype)
    matrix = beside(_dense(structure, weight), x)
    if x.device.type != "cpu":  # whether there are such numbers is not asked, as that would wait: whole rows are lost
        lost = ~x.isfinite().all(1, keepdim=True)
        heard = beside(_dense(structure, torch.ones_like(weight)), x) @ lost.to(x.dtype) > 0
        return (matrix @ torch.where(lost, 0, x)).masked_fill(heard, torch.nan)
    out = torch.mm(matrix, x, out=new_rows(x, len(matrix), x.shape[1]))
    if len(out) == 0 or bool(out[0].isfinite().all()):  # each such number would be in the first row too
        return out
    lost = ~x.isfinite()
    heard = _dense(structure, torch.ones_like(weight)) @ lost.to(x.dtype) > 0
    return torch.where(heard, csr_product(structure, weight, x), matrix @ x.masked_fill(lost, 0))


def csr_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply with W in compressed rows, a block of columns at a time so that the block's rows stay in the cache.

    Blocks are shared between threads (`share`), not the work on a block: that would end in hundreds of places where
    threads wait for each other, 10 times as long as one thread takes where another process has a core. Half precision,
    for which torch has no sparse product, is computed in single precision.
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
    """Sum weighted rows by receiver: by torch-scatter where it is installed, else by PyTorch's segments.

    Rows are gathered a block of columns at a time, [E, c], and summed in single precision at least.
    """
    within, there = torch.promote_types(x.dtype, torch.float32), structure.beside(x)
    weight, out = beside(weight.to(within), x)[:, None], new_rows(x, structure.num_receivers, x.shape[1])
    for block in column_blocks(x.shape[1], structure.num_edges, SCATTER_NUMBERS[x.device.type == "cpu"]):
        messages = weight * x[:, block].to(within)[there.sender]  # [E, c]
        if x.is_complex():  # segments are of real numbers
            out[:, block] = torch.view_as_complex(segment(torch.view_as_real(messages), there.ptr))
        else:
            out[:, block] = segment(messages, there.ptr)
    return out


def triton_product(structure: Structure, weight: Tensor, x: Tensor) -> Tensor:
    """Multiply on a GPU in kernels of the package's own; where they cannot be had, in the next best way."""
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
    """Return ``compiled`` or ``triton`` where there is one, else ``dense`` for dense or tiny graphs, or ``csr``.

    On a CPU the sum of one receiver so depends on its own edges alone, to the last bit.
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
    """Return the same by torch's sampled product, which reads rows where they lie if they are contiguous.

    Long or strided rows are taken a block of columns at a time: it sums in sequence, which loses digits, and copies.
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
