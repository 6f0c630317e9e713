"""The spread of a node's weights: on its own model, over all senders, or on a single one."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab.analysis.metrics.edges import check_edges, measure

AGREE = 0.5  # minimum correlation of weights for graphs that were learned twice to count as the same
UNIFORM = 1e-3  # spread of weights, relative to their size, below which they are uniform
ROUNDING = 1e-5  # tolerated deficit of a sum of 1 computed in single precision


class WeightSpread(NamedTuple):
    """The spread of every node's weights, [K] each, float64; NaN if undefined.

    Args:
        neighbors: Number of in-neighbors, excluding the node itself.
        own: Weight of its own model: 1 minus the weights of the others, and at least 0.
        entropy: Entropy of all its weights, including its own, relative to the maximum: 1 if they are equal, 0 if there
            is only one nonzero weight.
        evenness: The same for the weights of other nodes alone, for nodes with at least two in-neighbors.
        largest: The largest weight of another node.
    """

    neighbors: Tensor
    own: Tensor
    entropy: Tensor
    evenness: Tensor
    largest: Tensor


@measure
def weight_spread(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> WeightSpread:
    r"""Return the spread of every receiver's weights.

    With :math:`w_{ii} = 1 - \sum_{j \ne i} w_{ij}`, whatever a self-loop weighs, entropies are

    .. math::
        H_i = - \frac{1}{\log n_i} \sum_j q_{ij} \log q_{ij}, \qquad q_{ij} = \frac{w_{ij}}{\sum_l w_{il}}

    over the :math:`n_i` senders of i. The node itself is one of them if it has a self-loop or a positive weight remains
    for its own model. Weights that pull (CoBo's) may sum to more than 1; then nothing remains.

    Example:
        >>> edges = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 0, 1, 1]])
        >>> spread = weight_spread(edges, torch.tensor([0.5, 0.25, 0.25, 0.0, 1.0]), 3)
        >>> spread.own.tolist(), spread.evenness.tolist()
        ([0.5, 1.0, nan], [1.0, nan, nan])
    """
    check_edges(edge_index, edge_weight, num_nodes)
    (sender, receiver), weight = edge_index.cpu(), edge_weight.detach().cpu().double()
    other = sender != receiver
    of, weight = receiver[other], weight[other]
    neighbors = torch.bincount(of, minlength=num_nodes)
    hears = neighbors > 0
    total = scatter(weight, of, dim_size=num_nodes)
    own = (1 - total).clamp(min=0)
    loops = torch.zeros(num_nodes, dtype=torch.bool).index_fill_(0, receiver[~other], True)
    chances = neighbors + (loops | (own > ROUNDING))  # n_i
    each = torch.special.xlogy(weight, weight)
    among = scatter(each, of, dim_size=num_nodes)
    largest = scatter(weight, of, dim_size=num_nodes, reduce="max")
    entropy = _entropy(among + torch.special.xlogy(own, own), total + own, chances)
    own, entropy, largest = (one.masked_fill(~hears, torch.nan) for one in (own, entropy, largest))
    return WeightSpread(neighbors, own, entropy, _entropy(among, total, neighbors), largest)


def _entropy(products: Tensor, total: Tensor, count: Tensor) -> Tensor:
    """Return entropies of normalized weights, given Σ w log w, Σ w and their number; NaN for fewer than two."""
    found = (total.log() - products / total) / count.double().log()
    return torch.where((count > 1) & (total > 0), found.clamp(0, 1), torch.nan)


def weight_agreement(weights: Tensor) -> float:
    """Return the agreement of the weights that the same nodes learned several times: their mean correlation.

    It correlates the weights between different nodes, over all pairs of times. From ``AGREE`` on, they count as the
    same. NaN for two nodes, and if the weights were uniform all times, or all times but one.

    Args:
        weights: Weights between nodes, [S, K, K], receivers in rows; NaN or 0 without communication.

    Example:
        >>> one = torch.tensor([[0.0, 0.9, 0.1], [0.8, 0.0, 0.2], [0.5, 0.5, 0.0]])
        >>> round(weight_agreement(torch.stack([one, one, one.T])), 2)
        0.65
    """
    count = weights.shape[-1]
    if count < 3:
        return float("nan")
    rows = weights[:, ~torch.eye(count, dtype=torch.bool)].double().nan_to_num()
    apart = rows - rows.mean(1, keepdim=True)
    norm = apart.norm(dim=1)
    pairs = torch.combinations(torch.arange(len(rows))[norm > UNIFORM * rows.norm(dim=1)])
    one, other = apart[pairs[:, 0]], apart[pairs[:, 1]]
    return float(((one * other).sum(1) / (norm[pairs[:, 0]] * norm[pairs[:, 1]])).mean())
