"""Weights in proportion to similarity, and for the own model as much as for the most similar one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.piece import Weigher
from graphcollab.typing import Env

__all__ = ["SimilarityWeights", "similarity_weights"]


def similarity_weights(values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    r"""Return the weights for the similarities, or probabilities, of senders.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.12 and 2.13, where it is called FedSim, for a receiver i that hears the neighbours k ∈ S:

    .. math::
        w_{ik} = \frac{p_i(k)}{N}, \qquad w_{ii} = \frac{\max_{l \in S} p_i(l)}{N}, \qquad
        N = \max_{l \in S} p_i(l) + \sum_{l \in S} p_i(l)

    What the text leaves open: a receiver without a self-loop has no share of its own, so its neighbours' weights are in
    the same proportions and sum to 1. Where all values are 0, a receiver keeps its own model if it has a self-loop,
    else its neighbours weigh the same.

    Args:
        values: p_i(k) of every edge k → i, none negative. Those of self-loops are ignored.
        edge_index: Sender in row 0, receiver in row 1.
        num_nodes: K.

    Shapes:
        values: [E]; edge_index: [2, E]; output: [E], every receiver's sum is 1.

    Raises:
        ValueError: If the value of an edge between two nodes is negative or not finite; the message names the edge.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
        >>> similarity_weights(torch.tensor([0.0, 0.6, 0.2]), edge_index, 3)
        tensor([0.4286, 0.4286, 0.1429])
    """
    sender, receiver = edge_index
    loop = sender == receiver
    values = values.masked_fill(loop, 0)
    bad = ~((values >= 0) & values.isfinite())
    if bool(bad.any()):
        edge = int(bad.nonzero()[0])
        raise ValueError(
            f"weights by similarity need finite values that are not negative, got {float(values[edge]):g} for edge "
            f"{edge} ({int(sender[edge])} -> {int(receiver[edge])}); clip them, for instance with values.clamp(min=0)"
        )
    # Parts of the greatest value: then no sum overflows, and the own model's is 1.
    greatest = scatter(values, receiver, dim_size=num_nodes, reduce="max")
    share = values / torch.where(greatest == 0, 1.0, greatest)[receiver]
    has_loop = scatter(loop.long(), receiver, dim_size=num_nodes) > 0
    nothing = (greatest == 0) & ~has_loop
    share = torch.where(loop | nothing[receiver], 1.0, share)
    return share / scatter(share, receiver, dim_size=num_nodes)[receiver]


@dataclass(frozen=True)
class SimilarityWeights(Weigher):
    r"""Weights by the probabilities with which the senders were chosen, or by the similarities of the round.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.11 to 2.13, see `similarity_weights`. A node that a receiver believes to be unlike
    itself, and has drawn nevertheless, changes its model little. The text calls this FedSim, as Pillutla et al. (2022)
    do another method (`graphcollab.methods.fedsim`).

    Args:
        by: ``"prior"``: the probability with which the receiver chose the sender; ``"score"``: the similarity that it
            measured in the round, negative ones as 0.

    Shapes:
        Reads ``edge_prior`` or ``edge_score`` [E] (self-loops' values are ignored); writes ``edge_weight`` [E].

    Raises:
        ValueError: If there is no such field, or a value is negative or not finite.

    Example:
        >>> data = Data(num_nodes=2, edge_index=torch.tensor([[0, 1], [0, 0]]), edge_prior=torch.tensor([0.0, 0.3]))
        >>> SimilarityWeights().weights(data, env=None)
        tensor([0.5000, 0.5000])
    """

    by: Literal["prior", "score"] = "prior"

    @property
    def reads_scores(self) -> bool:
        """Whether it weighs by the similarities of the round."""
        return self.by == "score"

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights of the round's edges."""
        if f"edge_{self.by}" not in data:
            raise ValueError(
                "SimilarityWeights weighs senders by `edge_prior` [E], the probability with which their receiver chose "
                "them, and this graph has none: choose peers by a method that has such (DAC), weigh by the "
                "similarities of the round (by='score' in a PeerWeights with a metric), or weigh by SampleCounts()"
                if self.by == "prior"
                else "SimilarityWeights(by='score') needs `edge_score` [E], similarities measured in the round: use it "
                "as PeerWeights(metric, merge=SimilarityWeights('score'))"
            )
        values = data[f"edge_{self.by}"]
        values = values.clamp(min=0) if self.reads_scores else values
        return similarity_weights(values, data.edge_index, data.num_nodes)
