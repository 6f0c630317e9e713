"""The generalised random bipartite topology of the learning-to-collaborate paper."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from graphcollab.keyed import keyed_order, keyed_uniform
from graphcollab.settings import Count, Natural
from graphcollab.transforms.topology import Topology

__all__ = ["RandomBipartite"]

_SPLIT, _DRAW = 0, 1  # what the random numbers are for


@functional_transform("random_bipartite_topology")
class RandomBipartite(Topology):
    r"""Connects two random groups of nodes at random (functional name: ``random_bipartite_topology``).

    It is the generalised bipartite topology of
    `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_.

    The nodes are split at random into two groups of :math:`\lfloor K/2 \rfloor` and :math:`\lceil K/2 \rceil`, and each
    node is connected with ``degree`` nodes drawn at random, without replacement, from the other group.

    The paper does not say whether a connection is used both ways. Here each node **listens** to exactly ``degree``
    nodes, so what a node receives is fixed and how many listen to it varies. With ``undirected=True`` every
    connection is used both ways, and a node has ``degree`` neighbours or more.

    Args:
        degree: How many nodes of the other group a node listens to (:math:`K - K_0 = 10` in the paper).
        seed: Another seed gives another graph; not negative. Draws are keyed by ``node_id``. Default: 0.
        undirected: Whether to add the reverse of every edge. Default: False.
        allowed: See :class:`~graphcollab.transforms.Topology`.

    Shapes:
        ``edge_index``: [2, K degree], int64 (more if undirected).

    Raises:
        ValueError: If ``degree`` is larger than the smaller group.

    Example:
        >>> from torch_geometric.data import Data
        >>> data = RandomBipartite(degree=2, seed=1)(Data(num_nodes=6))
        >>> data.edge_index[1].bincount().tolist()
        [2, 2, 2, 2, 2, 2]
    """

    def __init__(
        self, degree: Count, seed: Natural = 0, undirected: bool = False, allowed: Tensor | None = None
    ) -> None:
        self.degree = degree
        self.seed = seed
        self.undirected = undirected
        super().__init__(allowed)

    def connect(self, node_id: Tensor) -> Tensor:
        """Split the nodes and draw the neighbours of each."""
        half = node_id.numel() // 2
        if self.degree > half:
            raise ValueError(
                f"RandomBipartite: degree {self.degree} is more than the {half} nodes of the smaller group "
                f"(K = {node_id.numel()}); use a degree of at most {half}"
            )
        order = keyed_order(self.seed, _SPLIT, node_id)
        first, second = order[:half], order[half:]
        edges = torch.cat([self._listen(node_id, first, second), self._listen(node_id, second, first)], dim=1)
        return torch.cat([edges, edges.flip(0)], dim=1) if self.undirected else edges

    def _listen(self, node_id: Tensor, receivers: Tensor, senders: Tensor) -> Tensor:
        # [receivers, degree]: Floyd's sampling without replacement, one draw for all receivers at a time.
        drawn = receivers.new_empty(receivers.numel(), 0)
        for last in range(senders.numel() - self.degree, senders.numel()):
            uniform = keyed_uniform(self.seed, _DRAW, node_id[receivers], last)
            draw = (uniform * (last + 1)).long().view(-1, 1)
            draw = torch.where((drawn == draw).any(dim=1, keepdim=True), last, draw)
            drawn = torch.cat([drawn, draw], dim=1)
        return torch.stack([senders[drawn].view(-1), receivers.repeat_interleave(self.degree)])
