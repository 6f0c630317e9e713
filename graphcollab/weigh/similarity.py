"""The base of similarity metrics: one number per edge that says how alike sender and receiver are."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.at_work import edges_in_use
from graphcollab.exchange.buffers import buffers_width
from graphcollab.piece import Weigher
from graphcollab.weigh.fed_sim import fedsim_weights

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["Similarity"]


@dataclass(frozen=True)
class Similarity(Weigher):
    """Base of similarity metrics: a subclass scores edges.

    A metric serves methods that choose peers by similarity: they call `scores` with the edges they want to know of. It
    is also a weigher of its own, which gives every sender FedSim's weight (`fedsim_weights`) for its similarity,
    clipped at 0, and the own model the greatest of these.

    Shapes:
        Reads the models ``x`` (after the local update), ``x_start`` (before it), ``x_init``; as a weigher writes
        ``edge_weight`` [E].

    Example:
        >>> class SameSign(Similarity):
        ...     def scores(self, data: Data, env: object, edge_index: Tensor) -> Tensor:
        ...         positive = data.x > 0
        ...         return (positive[edge_index[0], 0] == positive[edge_index[1], 0]).double()
        >>> data = Data(x=torch.tensor([[1.0], [2.0], [-3.0]]), edge_index=torch.tensor([[0, 1, 2], [0, 0, 0]]))
        >>> SameSign().weights(data, env=None).tolist()
        [0.5, 0.5, 0.0]
    """

    @abstractmethod
    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the similarity of sender j to receiver i for every edge j → i given; more is more alike.

        Args:
            data: The graph with the models. Its own edges do not matter.
            env: What stages may use.
            edge_index: Edges to score, [2, E'].

        Returns:
            Finite numbers [E'], float64. A model that is not finite has the similarity 0.
        """

    def payload(self, data: Data) -> int:
        """Return how many floats must travel along an edge to score it, besides the sender's model."""
        return 0

    def statistics(self, data: Data, stack: int) -> int:
        """Return how many numbers of running statistics travel with a model of an architecture to score it."""
        return 0

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return FedSim's weights of the similarities, [E]; self-loops are not scored."""
        crossing = data.edge_index[0] != data.edge_index[1]
        value = torch.zeros(len(crossing), dtype=torch.float64, device=crossing.device)
        value[crossing] = self.scores(data, env, data.edge_index[:, crossing]).clamp(min=0)
        return fedsim_weights(value, data.edge_index, data.num_nodes)

    def __call__(self, data: Data, env: Env) -> Data:
        """Set ``edge_weight`` and count what travelled to find it."""
        data = super().__call__(data, env)
        return self.charge(data, env, getattr(self, "part", "all"), getattr(self, "buffers", "keep"))

    def charge(self, data: Data, env: Env, merged: str, buffers: str = "keep") -> Data:
        """Count what travelled along all edges to be scored, but is not counted by the exchange.

        The exchange counts the part of the models that it mixes, along edges that weigh something. What is scored
        beyond that is counted here, and every edge's `payload`.

        Args:
            data: The graph, weighed.
            env: What stages may use.
            merged: Part of the models that the exchange mixes.
            buffers: Whether the exchange mixes buffers, too: ``"keep"`` or ``"average"``.
        """
        in_use, (sender, receiver) = edges_in_use(data), data.edge_index
        crossing = sender != receiver if in_use is None else (sender != receiver) & in_use
        data = env.comm.count(data, sender[crossing], self.payload(data))
        unused, used = (sender[crossing & mask] for mask in (data.edge_weight == 0, data.edge_weight != 0))
        for senders, known in ((unused, False), (used, True)):
            for stack, where, _ in data.x.locate(senders):
                scored = width(data, getattr(self, "part", "all"), stack)
                beyond = max(scored - width(data, merged, stack), 0) if known else scored
                statistics = self.statistics(data, stack)
                beyond += max(statistics - buffers_width(data.x, buffers), 0) if known else statistics
                data = env.comm.count(data, senders[where], beyond)
        return data


def width(data: Data, part: str, stack: int = 0) -> int:
    """Return P_part, the number of columns of a part of the models of an architecture."""
    columns = data.x.specs[stack].columns(part)
    return int(columns.stop - columns.start)
