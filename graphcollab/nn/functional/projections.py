"""Projections onto simplices and cones, and double-precision sums within bundles of long vectors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from scipy.optimize import nnls
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab._base.errors import NotFiniteError, RangeError
from graphcollab.nn.functional.by_receiver import by_receiver, turns
from graphcollab.nn.functional.kernels import column_blocks

BLOCK_NUMBERS = 2**18  # blocks fit into the cache
ITERATIONS = 30  # per vector; far more than the active set method needs
STEPS = 4  # per vector, if all bundles take equally many; also more than needed


def project_simplex(
    values: Tensor, group: Tensor | None = None, num_groups: int | None = None, total: Tensor | None = None
) -> Tensor:
    r"""Return for every group the nearest point of the probability simplex.

    .. math::
        \operatorname*{argmin}_{w} \|w - v\|^2 \quad \text{with } w \ge 0, \; \sum w = m
        \qquad \Rightarrow \qquad w = \max(v - \theta, 0)

    It sorts, as in `Efficient Projections onto the l1-Ball for Learning in High Dimensions (Duchi et al., ICML 2008)
    <https://doi.org/10.1145/1390156.1390191>`_: θ is determined by the entries above it, which are the largest ones.
    It is computed in float64 and finally normalized, so that groups sum to 1 up to the last bit of ``values``.

    Args:
        values: v, finite numbers, [E].
        group: Group of every entry, for edge weights their receiver, [E]. Default: one group.
        num_groups: Number of groups. Default: one more than the largest. Groups without entries are allowed.
        total: m of every group, [G], nonnegative. Default: 1.

    Raises:
        ValueError: If a value is not finite, or a total is negative or not finite.

    Example:
        >>> project_simplex(torch.tensor([0.5, 0.75, -0.25])).tolist()
        [0.375, 0.625, 0.0]
        >>> project_simplex(torch.tensor([3.0, 1.0, 1.0]), torch.tensor([0, 1, 1])).tolist()
        [1.0, 0.5, 0.5]
    """
    if not bool(values.isfinite().all()):
        raise NotFiniteError(
            "values", f"projection needs finite values, entry {int((~values.isfinite()).nonzero()[0])} is not"
        )
    if not len(values):
        return values
    group = torch.zeros_like(values, dtype=torch.int64) if group is None else group
    count = int(group.max()) + 1 if num_groups is None else num_groups
    if total is not None and not bool(((total >= 0) & total.isfinite()).all()):
        raise RangeError(
            "total", f"totals must be finite and not negative, got {total.min().item():g} to {total.max().item():g}"
        )
    mass = values.new_ones(count, dtype=torch.float64) if total is None else total.double()
    scale = torch.where(mass > 0, mass, 1.0)[group]  # the simplex of total m is m times that of total 1
    scaled = values.double() / scale
    largest = scatter(scaled, group, dim_size=count, reduce="max")
    # Shifting a group changes nothing, and entries 1 below its largest become 0: shifting keeps the sums small.
    v = (scaled - largest[group]).clamp(min=-1)
    order = by_receiver(group, -v)  # the entries of each group consecutively, the largest first, [E]
    sizes, place = torch.bincount(group, minlength=count), turns(group[order], count)
    first = torch.arange(len(v), device=v.device) - place
    # In integers, so that the sums of the preceding groups are subtracted exactly (beyond 2⁶³ they wrap around).
    unit = 2.0 ** min(52, 62 - int(sizes.max()).bit_length())
    total = (v[order] * unit).round().long().cumsum(0)
    before = torch.cat([total.new_zeros(1), total])[first]
    theta = ((total - before).double() / unit - 1) / (place + 1)
    last = scatter((v[order] > theta).long(), group[order], dim_size=count)  # entries above come first in a group
    threshold, filled = v.new_zeros(count), sizes > 0
    threshold[filled] = theta[(sizes.cumsum(0) - sizes + last - 1)[filled]]
    out = (v - threshold[group]).clamp(min=0)
    return (out / scatter(out, group, dim_size=count)[group] * mass[group]).to(values.dtype)


@torch.no_grad()
def bundle_gram(own: Tensor, others: Tensor, centered: bool = False) -> Tensor:
    """Return the inner products between all vectors of a bundle, its own vector first.

    They are computed in double precision, a block of columns at a time.

    Args:
        own: One vector per bundle, [R, P].
        others: m further vectors per bundle, [R, m, P].
        centered: Whether to subtract a bundle's own vector from all first; its own row and column are then 0.

    Returns:
        Inner products, [R, m + 1, m + 1], float64.
    """
    gram = torch.zeros(len(own), others.shape[1] + 1, others.shape[1] + 1, dtype=torch.float64, device=own.device)
    for block, _ in _blocks(own, others):
        vectors = block - block[:, :1] if centered else block
        gram.baddbmm_(vectors, vectors.mT)
    return gram


@torch.no_grad()
def bundle_sum(weight: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """Return the sums of bundles, [R, P], in double precision, with weights [R, m + 1], the own vector's first."""
    out = torch.empty_like(own, memory_format=torch.contiguous_format)
    for block, columns in _blocks(own, others):
        out[:, columns] = (weight.double()[:, None] @ block)[:, 0].to(own.dtype)
    return out


def _blocks(own: Tensor, others: Tensor) -> Iterator[tuple[Tensor, slice]]:
    """Yield all vectors in double precision, [R, m + 1, c], a block of columns at a time, with these columns."""
    for columns in column_blocks(own.shape[1], len(own) * (others.shape[1] + 1), BLOCK_NUMBERS):
        yield torch.cat([own[:, None, columns].double(), others[:, :, columns].double()], 1), columns


@torch.no_grad()
def cone_coefficients(gram: Tensor, margin: float = 0.0) -> Tensor:
    r"""Return the coefficients that project a vector g onto the cone of z with :math:`\langle z, m_j \rangle \ge 0`.

    .. math::
        u = \arg\min_{u \ge \text{margin}} \tfrac12 \Big\lVert g + \sum_j u_j m_j \Big\rVert^2

    With margin 0, :math:`g + \sum_j u_j m_j` is the vector of the cone nearest to g. It is unique, but u need not be if
    the m are linearly dependent.

    Eigendecompositions of the Gram matrices give vectors of m + 1 numbers with the same products, and thus nonnegative
    least squares problems, which SciPy's ``nnls`` (Lawson and Hanson's active set method) solves one by one. On a GPU,
    all bundles take the steps of the same method together; a bundle that does not converge gets NaN.

    Args:
        gram: Inner products of every bundle, g first, [R, m + 1, m + 1], as `bundle_gram` returns them.
        margin: Lower bound of the coefficients.

    Shapes:
        Output: [R, m], float64 on the device of the products. The coefficient of a vector of zeros is the margin, and
        so are all coefficients of a bundle with a product that is not finite.

    Example:
        >>> cone_coefficients(torch.tensor([[[0.25, -0.25], [-0.25, 0.3125]]]))
        tensor([[0.8000]], dtype=torch.float64)
    """
    size = gram.shape[1]
    start = torch.eye(size, dtype=torch.float64, device=gram.device)
    start[0, 1:] = margin  # g + margin Σ m, so that the remaining coefficients are nonnegative
    inner = start @ gram.detach().double() @ start.mT
    inner = torch.where(inner.isfinite().all(2).all(1)[:, None, None], inner, 0.0)
    length = inner.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
    inverse = torch.where(length == 0, 0.0, 1 / length)
    unit = inner * inverse[:, :, None] * inverse[:, None]
    found = _one_by_one(unit) if unit.device.type == "cpu" else _in_lockstep(unit)
    return margin + found * length[:, :1] * inverse[:, 1:]


def _one_by_one(unit: Tensor) -> Tensor:
    """Return u ≥ 0, [R, m], with the shortest g + Σ u m, given products [R, m + 1, m + 1] of unit vectors and zeros."""
    found = unit.new_zeros(len(unit), unit.shape[1] - 1)
    obtuse = (unit[:, 0, 1:] < 0).any(1).nonzero().flatten()
    for r, vectors in zip(obtuse.tolist(), _vectors(unit[obtuse]).numpy(), strict=True):
        there = (unit[r].diagonal()[1:] > 0).nonzero().flatten()
        found[r, there] = torch.from_numpy(
            nnls(vectors[:, 1 + there.numpy()], -vectors[:, 0], maxiter=ITERATIONS * unit.shape[1])[0]
        )
    return found


def _in_lockstep(unit: Tensor) -> Tensor:
    """Return the same for all bundles at once, in a fixed number of steps.

    With active vectors (``inside``), and s the coefficients for which these alone minimize the length of the sum, the
    first row of a table has −s at their positions, and ⟨m_j, g + Σ s m⟩ at those of the others. Initially none is
    active and the table is ``unit``. In each step, one vector enters or leaves, which is a pivot of the table: the one
    with the most negative product enters; if that makes other coefficients negative, u moves from its previous value
    toward s until one of them is 0, which leaves.
    """
    count, size = unit.shape[:2]
    table, noise = unit, 8 * size * torch.finfo(unit.dtype).eps
    u, inside = unit.new_zeros(count, size - 1), torch.zeros_like(unit[:, 0, 1:], dtype=torch.bool)
    done = torch.zeros_like(inside[:, :1])
    place = torch.arange(1, size, device=unit.device)
    for _ in range(STEPS * (size - 1)):
        first, pivots = table[:, 0, 1:], table.diagonal(dim1=1, dim2=2)[:, 1:]
        s = torch.where(inside, -first, 0.0)
        crossed = inside & (s <= 0)
        leaves = crossed.any(1, keepdim=True)
        share = torch.where(crossed, u / (u - s), torch.inf).nan_to_num(nan=0.0, posinf=torch.inf)
        least, out = share.min(1, keepdim=True)
        lowest, enters = torch.where(inside | (pivots <= noise), 0.0, first).min(1, keepdim=True)
        done = ~leaves & (lowest >= -noise)
        u = torch.where(leaves, u + least.clamp(max=1) * (s - u), s)
        chosen = (place == torch.where(leaves, out, enters) + 1) & ~done
        u, inside = u.masked_fill(leaves & chosen, 0.0), inside ^ chosen
        table = _pivoted(table, chosen)
    return torch.where(done, u, torch.nan)


def _pivoted(table: Tensor, chosen: Tensor) -> Tensor:
    """Exchange one vector in each table, [R, n, n], or none: chosen [R, n - 1] is true at most once per row."""
    at = torch.nn.functional.pad(chosen, (1, 0))
    column = torch.where(at[:, None], table, 0.0).sum(2)
    pivot = torch.where(at, column, 0.0).sum(1, keepdim=True)
    some = at.any(1, keepdim=True)
    pivot = torch.where(some, pivot, 1.0)
    line = torch.where(at, -1 / pivot, column / pivot.abs())
    new = table - column[:, :, None] * column[:, None] / pivot[:, :, None]
    new = torch.where(at[:, None], line[:, :, None], torch.where(at[:, :, None], line[:, None], new))
    return torch.where(some[:, :, None], new, table)


def _vectors(gram: Tensor) -> Tensor:
    """Return vectors, in the columns of [R, n, n], with the given inner products [R, n, n]."""
    values, basis = torch.linalg.eigh(gram)
    noise = 8 * gram.shape[1] * torch.finfo(gram.dtype).eps
    values = torch.where(values < noise * values[:, -1:], 0.0, values)
    return values.sqrt()[:, :, None] * basis.mT
