"""Separate similar from dissimilar neighbors by a mixture of two Gaussians per receiver."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.utils import scatter

from graphcollab._base.errors import MissingError, NotFiniteError, ShapeError
from graphcollab._base.piece import updated
from graphcollab._base.settings import Count
from graphcollab.transforms._edges import (
    Transform,
    check_edges,
    edge_fields,
    node_count,
    select_edges,
    sort_edges,
)

FLOOR = 1e-6  # standard deviations below this share of a receiver's range of scores count as 0
TIE = 1e-9  # relative difference below which log densities count as equal


@functional_transform("gmm_neighbor_augmentation")
class GMMNeighborAugmentation(Transform):
    r"""Separate neighbors into a bag of similar ones and the others (functional name: ``gmm_neighbor_augmentation``).

    Candidates whose scores are like the bag's join it; neighbors whose scores are like the candidates' leave it.

    NAEM, neighbor augmentation by expectation maximization of a Gaussian mixture, from *With a Little Help from My
    Friends: A Comparative Study of Decentralized Deep Learning Strategies* (Hagander & Ihre-Thomason 2024), appendix B,
    Algorithm 3, which is PANM's second stage. For every receiver, with :math:`C_1` the bag, :math:`C_0` the candidates
    and :math:`s_j` the score of the edge from j, until no edge moves:

    .. math::
        \mu_r = \frac{1}{|C_r|} \sum_{j \in C_r} s_j, \qquad
        \sigma_r^2 = \frac{1}{|C_r|} \sum_{j \in C_r} (s_j - \mu_r)^2, \qquad
        \beta_r = \frac{|C_r|}{|C_0 \cup C_1|}

    .. math::
        j \to C_0 \text{ if } \beta_0 \, N(s_j | \mu_0, \sigma_0^2) > \beta_1 \, N(s_j | \mu_1, \sigma_1^2),
        \text{ else } C_1

    N is the density of eq. B.2; Algorithm 3 prints Φ((s − μ) / σ), which lacks the factor 1 / σ as a density, and as a
    distribution function puts all edges in one set. Index 1 denotes the neighbors, as in Algorithm 3 (in eq. B.1 it is
    0). As in the text, neighbors are not required to have the higher scores: the initial bag determines this. The
    search is local: if the bag's scores are much closer together than those of all true neighbors, some of these may
    remain candidates, whose scores are then widely spread.

    The text does not specify these cases:

    - Without candidates, or with an empty bag, nothing can be separated: the bag is unchanged.
    - If all leave the bag, the result is the initial bag. If all are in the bag, the result is all of them.
    - A set whose scores are all equal (a single score, for instance) uses the other set's variance; if both are such
      sets, an edge goes to the nearer mean, and to the bag if distances are equal. Equal means: with a standard
      deviation below 10⁻⁶ of the range of the receiver's scores.
    - Densities equal up to rounding are equal, so edges exactly between the sets go to the bag.
    - Edges may alternate forever; ``max_iter`` stops this.

    Args:
        drop: Whether to drop candidates that are not in the final bag.
        max_iter: Maximum number of iterations.

    Shapes:
        Reads ``edge_score`` [E] and ``edge_member`` [E], bool: the edges in the receiver's bag. Writes
        ``edge_member`` [E']; edges are sorted by receiver, then sender. Self-loops are kept and never classified.

    Raises:
        ValueError: If a field is missing or has another shape or type, a score is not finite, or an edge is out of
            range or occurs twice.

    Example:
        >>> edge_index = torch.tensor([[1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0]])
        >>> score = torch.tensor([0.90, 0.92, 0.88, 0.10, 0.12, 0.91])
        >>> bag = torch.tensor([True, True, True, False, False, False])
        >>> data = Data(num_nodes=7, edge_index=edge_index, edge_score=score, edge_member=bag)
        >>> GMMNeighborAugmentation()(data).edge_index[0].tolist()
        [1, 2, 3, 6]
    """

    def __init__(self, drop: bool = True, max_iter: Count = 100) -> None:
        self.drop = drop
        self.max_iter = max_iter

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` with new bags."""
        check_edges(data, distinct=True)
        score, member = _fields(data)
        sender, receiver = data.edge_index.long()
        judged = (sender != receiver).nonzero().view(-1)
        # Sorted by score, so that sums do not depend on the order of edges, not even in the last digit.
        judged = judged[score[judged].argsort(stable=True)]
        bag = member.clone()
        bag[judged] = _sort_out(score[judged], receiver[judged], member[judged], node_count(data), self.max_iter)
        out = updated(data, edge_member=bag)
        return sort_edges(select_edges(out, bag | (sender == receiver)) if self.drop else out)


def _fields(data: Data) -> tuple[Tensor, Tensor]:
    for name in ("edge_score", "edge_member"):
        if name not in data or not isinstance(data[name], Tensor):
            raise MissingError(name, f"this Data has no {name}: set it to one value per edge")
    edge_fields(data)
    score, member = data.edge_score.detach(), data.edge_member
    if score.dim() != 1 or score.dtype == torch.bool or score.is_complex():
        raise ShapeError("edge_score", f"edge_score must be one number per edge, got {score.dtype} {list(score.shape)}")
    if member.dim() != 1 or member.dtype != torch.bool:
        raise ShapeError(
            "edge_member", f"edge_member must be True or False per edge, got {member.dtype} {list(member.shape)}"
        )
    sender, receiver = data.edge_index
    bad = (~score.isfinite() & (sender != receiver)).nonzero().view(-1)
    if len(bad):
        where = f"edge {int(bad[0])} ({int(sender[bad[0]])} -> {int(receiver[bad[0]])})"
        raise NotFiniteError("edge_score", f"edge_score of {where} is {float(score[bad[0]])}: scores must be finite")
    return score.double(), member


def _sort_out(score: Tensor, receiver: Tensor, bag: Tensor, count: int, max_iter: int) -> Tensor:
    """Return a mask of the edges in their receivers' final bags, [E] bool."""
    given, score = bag, _from_0_to_1(score, receiver, count)
    # [K, 2]: sizes of C_0 and C_1. Receivers are active until none of their edges moves, or a set is empty.
    many = _sums(torch.ones_like(score), receiver, bag, count)
    live = (many > 0).all(1)
    for _ in range(max_iter):
        if not bool(live.any()):
            break
        new = torch.where(live[receiver], _likelier(score, receiver, bag, many), bag)
        moved = scatter((new != bag).long(), receiver, dim_size=count) > 0
        many = _sums(torch.ones_like(score), receiver, new, count)
        empty = live & (many[:, 1] == 0)
        bag = torch.where(empty[receiver], given, new)
        live = live & moved & (many > 0).all(1)
    return bag


def _likelier(score: Tensor, receiver: Tensor, bag: Tensor, many: Tensor) -> Tensor:
    """Return a mask of the edges at least as likely to be in C_1 as in C_0, after one M-step, [E] bool."""
    count, some = len(many), many.clamp(min=1)
    mean = _sums(score, receiver, bag, count) / some
    from_mean = (score[:, None] - mean[receiver]).square()  # [E, 2]
    own = from_mean.gather(1, bag.long()[:, None])[:, 0]
    variance = _sums(own, receiver, bag, count) / some
    flat = variance < FLOOR**2
    variance = torch.where(flat, variance.flip(1), variance)
    both = flat.all(1)
    variance[both] = 1.0  # then, and with equal shares, the nearer mean is more likely
    share = torch.where(both[:, None], 1.0, some)
    density = (share.log() - variance.log() / 2)[receiver] - from_mean / (2 * variance[receiver])
    rounding = TIE * (1 + density.abs().amax(1))
    return density[:, 1] >= density[:, 0] - rounding


def _sums(values: Tensor, receiver: Tensor, bag: Tensor, count: int) -> Tensor:
    """Return every receiver's sums over C_0 and C_1, [K, 2]."""
    return scatter(values, 2 * receiver + bag.long(), dim_size=2 * count).view(count, 2)


def _from_0_to_1(score: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Scale every receiver's scores to the range from 0 to 1, which changes no comparison of densities."""
    low, high = (scatter(score, receiver, dim_size=count, reduce=how) for how in ("min", "max"))
    width = high / 2 - low / 2  # half of it, which cannot overflow
    width = torch.where(width == 0, 1.0, width)[receiver]
    return (score / 2 - low[receiver] / 2) / width
