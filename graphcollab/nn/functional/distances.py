"""Distances and cosines between the vectors at the two ends of every edge, and between sets of points."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab._base.device import beside
from graphcollab._base.errors import InvalidValueError
from graphcollab.nn.functional.kernels import column_blocks, edge_dot
from graphcollab.nn.functional.structure import Structure

CLOSE = 32  # d² below 32 √ε (|a|² + |b|²) is recomputed from differences
UNDERFLOW = 2.0**60  # below this multiple of the smallest number, products of vectors' entries may underflow
BLOCK_NUMBERS = (2**22, 2**18)  # per block, which fits into the cache of a GPU, or of a CPU
BLOCK_ROWS = 256


@torch.no_grad()
def edge_distances(
    a: Tensor, b: Tensor, edges: Tensor | Structure, group: Tensor | tuple[Tensor, Tensor] | None = None
) -> Tensor:
    r"""Return :math:`\lVert a_i - b_j \rVert_2` for every edge j → i, [E], without gathering [E, P].

    It uses inner products of centered vectors, with the mean of all rows as the center:
    :math:`d^2 = \lVert a_i \rVert^2 + \lVert b_j \rVert^2 - 2 \langle a_i, b_j \rangle`. If d² is below 32 √ε
    (‖a‖² + ‖b‖²), about 1 %, it is recomputed from differences, in double precision. The relative error is thus at most
    a few times √ε / 32, which is 10⁻⁵ in single and 5 · 10⁻¹⁰ in double precision, and equal vectors have distance 0.
    The result is float64, has no gradient, and is non-finite for non-finite vectors only.

    Args:
        a: One vector per receiver, [D, P].
        b: One vector per sender, [S, P]; inconsistent shapes raise a ValueError.
        edges: ``edge_index`` [2, E] with sender j in row 0 and receiver i in row 1, or a `Structure`.
        group: Group of every node, [N] with N = D = S, or of receivers and of senders, [D] and [S]. Vectors of other
            groups do not even affect the last digits: each group has its own center, and edges between groups are
            computed from differences. Default: one group.

    Example:
        >>> a, b = torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 4.0], [1.0, 1.0]])
        >>> edge_distances(a, b, torch.tensor([[0, 1], [0, 1]])).tolist()
        [5.0, 0.0]
    """
    return _squared(a, b, Structure.between(a, b, edges), groups=group).sqrt()


@torch.no_grad()
def edge_cosines(
    a: Tensor, b: Tensor, edges: Tensor | Structure, group: Tensor | tuple[Tensor, Tensor] | None = None
) -> Tensor:
    r"""Return :math:`\cos(a_i, b_j)` for every edge j → i, [E], without gathering [E, P].

    It is :math:`1 - \frac12 \lVert u_i - v_j \rVert^2` with the unit vectors u and v and the distances of
    `edge_distances`, so 1 − cos has the relative error stated there. Cosines of a zero vector are 0. The result is
    float64, has no gradient, and is NaN for non-finite vectors. Arguments are those of `edge_distances`.

    Example:
        >>> a = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
        >>> b = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
        >>> edge_cosines(a, b, torch.tensor([[0, 2, 0], [0, 0, 1]])).tolist()
        [1.0, -1.0, 0.0]
    """
    structure = Structure.between(a, b, edges)
    left = _norms(a)
    right = left if b is a else _norms(b)
    to_left, to_right = (torch.where(norm == 0, 0.0, 1 / norm) for norm in (left, right))
    square = _squared(a, b, structure, to_left, to_right, group)
    left, right = torch.cat([left, right]).cpu().split([len(a), len(b)])
    nothing = (left == 0)[structure.unsort(structure.receiver)] | (right == 0)[structure.unsort(structure.sender)]
    return (1 - square / 2).clamp(-1, 1).masked_fill(nothing, 0)


def _squared(
    a: Tensor,
    b: Tensor,
    structure: Structure,
    left: Tensor | None = None,
    right: Tensor | None = None,
    groups: Tensor | tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Return ‖left_i a_i − right_j b_j‖² for every edge, in the caller's order, [E]; scales of None are 1."""
    receiver, sender = structure.unsort(structure.receiver), structure.unsort(structure.sender)
    group = (groups, groups) if isinstance(groups, Tensor) else groups
    x, y = _centered(a, b, left, right, group)
    numbers = torch.cat([_norms(x), _norms(y), edge_dot(structure, x, y).double()]).cpu()  # copied once
    left_norm, right_norm, product = numbers.split([len(x), len(y), len(receiver)])
    size = left_norm.square()[receiver] + right_norm.square()[sender]
    square = size - 2 * structure.unsort(product)
    known = torch.finfo(x.dtype)
    lost = ~((square >= CLOSE * known.eps**0.5 * size) & (square <= 3 * size))  # includes NaN, and ∞ from an overflow
    lost |= (size > 0) & (size < UNDERFLOW * known.tiny)
    if group is not None:
        lost |= group[0][receiver] != group[1][sender]
    close = lost.nonzero().flatten()
    square[close] = _from_differences(a, b, receiver[close], sender[close], left, right).cpu()
    return square


def _centered(
    a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None, group: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """Return scaled rows minus the mean of the finite rows of their group, at least in single precision."""
    kind = torch.float64 if a.dtype == torch.float64 else torch.float32
    inputs = [(a, left)] if b is a else [(a, left), (b, right)]
    finite = [_norms(rows).isfinite() for rows, _ in inputs]
    outputs = [torch.empty(rows.shape, dtype=kind, device=rows.device) for rows, _ in inputs]
    places = [torch.zeros(1, dtype=torch.int64).expand(len(fine)) for fine in finite]
    places = places if group is None else list(group[: len(finite)])
    many = max(int(place.max()) + 1 if len(place) else 1 for place in places)
    count = torch.zeros(many, dtype=torch.float64, device=a.device)
    places = [beside(place, a) for place in places]
    for place, fine in zip(places, finite, strict=True):
        count.index_add_(0, place, fine.double())
    count = count.clamp(min=1)[:, None]  # [G, 1]
    for columns in column_blocks(a.shape[1], len(a) + len(b), _numbers(a)):
        blocks = [_doubles(rows[:, columns], slice(None), scale) for rows, scale in inputs]
        known = [torch.where(fine[:, None], block, 0) for block, fine in zip(blocks, finite, strict=True)]
        if group is None:
            total = torch.stack([block.sum(0) for block in known]).sum(0)[None]
        else:
            total = known[0].new_zeros(len(count), known[0].shape[1])
            for place, block in zip(places, known, strict=True):
                total.index_add_(0, place, block)
        for place, out, block in zip(places, outputs, blocks, strict=True):
            out[:, columns] = block - (total / count)[place]
    return outputs[0], outputs[-1]


def _from_differences(
    a: Tensor, b: Tensor, receiver: Tensor, sender: Tensor, left: Tensor | None, right: Tensor | None
) -> Tensor:
    """Return the same for some edges, in double precision, a block of edges and columns at a time."""
    receiver, sender = beside(receiver, a), beside(sender, a)
    total = torch.zeros(len(receiver), dtype=torch.float64, device=a.device)
    step = max(_numbers(a) // max(a.shape[1], 1), BLOCK_ROWS)
    for start in range(0, len(receiver), step):
        i, j = receiver[start : start + step], sender[start : start + step]
        for columns in column_blocks(a.shape[1], step, _numbers(a)):
            # [e, c], exact if vectors are in single precision and not scaled
            difference = _doubles(a[:, columns], i, left) - _doubles(b[:, columns], j, right)
            total[start : start + step] += torch.linalg.vecdot(difference, difference)
    return total


def _numbers(rows: Tensor) -> int:
    return BLOCK_NUMBERS[rows.device.type == "cpu"]


def _doubles(rows: Tensor, index: Tensor | slice, scale: Tensor | None) -> Tensor:
    taken = rows[index].double()
    return taken if scale is None else taken * scale[index, None]


def _norms(rows: Tensor) -> Tensor:
    """Return every row's length, [N]."""
    square = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for columns in column_blocks(rows.shape[1], len(rows), _numbers(rows)):
        square += torch.linalg.vector_norm(rows[:, columns], dim=1, dtype=torch.float64).square()
    return square.sqrt()


@torch.no_grad()
def matching_distances(points: Tensor, sizes: Tensor) -> Tensor:
    r"""Return the minimum matching distance of every two sets of points, [K, K].

    .. math::
        d(A, B) = \min_\pi \sqrt{\frac{1}{|A|} \sum_{a \in A} \lVert a - b_{\pi(a)} \rVert^2}, \qquad |A| \le |B|

    where π assigns to every point of the smaller set a different point of the larger one. A set is thus at distance 0
    from every set that contains it. The best π is found by solving an assignment problem, not by trying permutations.

    Args:
        points: The points of all sets, concatenated set by set, [M, D].
        sizes: Number of points of every set, at least 1, with sum M, [K]; else a ValueError.

    Returns:
        float64 on the CPU, symmetric.

    Example:
        >>> points = torch.tensor([[0.0], [1.0], [1.0], [0.0], [3.0]])
        >>> matching_distances(points, torch.tensor([2, 2, 1])).tolist()
        [[0.0, 0.0, 2.0], [0.0, 0.0, 2.0], [2.0, 2.0, 0.0]]
    """
    from scipy.optimize import linear_sum_assignment  # imported here because it is slow
    from scipy.spatial.distance import cdist

    if int(sizes.sum()) != len(points) or bool((sizes < 1).any()):
        raise InvalidValueError(
            "sizes",
            f"sizes must be at least 1 and sum to the number of points, {len(points)}, got {sizes.tolist()[:10]}",
        )
    values = points.double().cpu().numpy()
    bounds = [0, *sizes.cumsum(0).tolist()]
    distance = torch.zeros(len(sizes), len(sizes), dtype=torch.float64)
    for i in range(1, len(sizes)):
        cost = cdist(values[bounds[i] : bounds[i + 1]], values[: bounds[i]], "sqeuclidean")  # to the points before i's
        for j in range(i):
            pairs = cost[:, bounds[j] : bounds[j + 1]]
            distance[i, j] = pairs[linear_sum_assignment(pairs)].mean() ** 0.5
    return distance + distance.T
