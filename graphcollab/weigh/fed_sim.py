"""FedSim's weights: in proportion to similarity, and for the own model as much as for the most similar one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.piece import Weigher

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["FedSim", "fedsim_weights"]


def fedsim_weights(values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    r"""Return FedSim's weights for the similarities, or probabilities, of senders.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.12 and 2.13, for a receiver i that hears the neighbours k ∈ S:

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
        >>> fedsim_weights(torch.tensor([0.0, 0.6, 0.2]), edge_index, 3)
        tensor([0.4286, 0.4286, 0.1429])
    """
    sender, receiver = edge_index
    loop = sender == receiver
    values = values.masked_fill(loop, 0)
    bad = ~((values >= 0) & values.isfinite())
    if bool(bad.any()):
        edge = int(bad.nonzero()[0])
        raise ValueError(
            f"FedSim's weights need finite values that are not negative, got {float(values[edge]):g} for edge {edge} "
            f"({int(sender[edge])} -> {int(receiver[edge])}); clip them, for instance with values.clamp(min=0)"
        )
    # Parts of the greatest value: then no sum overflows, and the own model's is 1.
    greatest = scatter(values, receiver, dim_size=num_nodes, reduce="max")
    share = values / torch.where(greatest == 0, 1.0, greatest)[receiver]
    has_loop = scatter(loop.long(), receiver, dim_size=num_nodes) > 0
    nothing = (greatest == 0) & ~has_loop
    share = torch.where(loop | nothing[receiver], 1.0, share)
    return share / scatter(share, receiver, dim_size=num_nodes)[receiver]


@dataclass(frozen=True)
class FedSim(Weigher):
    r"""Weights by the probabilities with which the senders were chosen.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.11 to 2.13; see `fedsim_weights`. A node that a receiver believes to be unlike itself,
    and has drawn nevertheless, changes its model little. (It is not the FedSim of Pillutla et al. 2022: that is a
    method, `graphcollab.methods.fedsim`. Nor is it pFedSim's weights: those are `HeadAffinity`.)

    Shapes:
        Reads ``edge_prior`` [E], the probability with which the receiver chose the sender (self-loops' values are
        ignored); writes ``edge_weight`` [E].

    Raises:
        ValueError: If there is no ``edge_prior``, or it is negative or not finite.

    Example:
        >>> from graphcollab.weigh import FedSim
        >>> data = Data(num_nodes=2, edge_index=torch.tensor([[0, 1], [0, 0]]), edge_prior=torch.tensor([0.0, 0.3]))
        >>> FedSim().weights(data, env=None)
        tensor([0.5000, 0.5000])
    """

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights of the round's edges."""
        if "edge_prior" not in data:
            raise ValueError(
                "FedSim weighs senders by `edge_prior` [E], the probability with which their receiver chose them, and "
                "this graph has none: choose peers by a method that has such (DAC), or weigh by SampleCounts()"
            )
        return fedsim_weights(data.edge_prior, data.edge_index, data.num_nodes)
