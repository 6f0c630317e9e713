"""The group ring of the learning-to-collaborate paper."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from graphcollab.settings import MOST
from graphcollab.transforms.ring import ring_edges
from graphcollab.transforms.topology import Topology

__all__ = ["GroupRing"]


@functional_transform("group_ring_topology")
class GroupRing(Topology):
    r"""Connects nodes that are near each other on a ring (functional name: ``group_ring_topology``).

    It is the "group-ring" topology of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_.

    .. math::
        j \to i \iff |i - j| \le \tfrac{d}{2} \;\text{ or }\; K - |i - j| \le \tfrac{d}{2}, \qquad i \neq j

    where :math:`d` is ``degree`` (:math:`K - K_0` in the paper) and :math:`i, j` are the places of the nodes in the
    ascending order of ``node_id``.

    Args:
        degree: Neighbours of a node. As the formula says, an odd degree gives ``degree - 1`` of them; a degree of K or
            more gives a complete graph.
        allowed: See :class:`~graphcollab.transforms.Topology`.

    Shapes:
        ``edge_index``: [2, E], int64, symmetric.

    Example:
        >>> from torch_geometric.data import Data
        >>> GroupRing(degree=2)(Data(num_nodes=4)).edge_index
        tensor([[1, 3, 0, 2, 1, 3, 0, 2],
                [0, 0, 1, 1, 2, 2, 3, 3]])
    """

    def __init__(self, degree: Annotated[int, range(2, MOST)], allowed: Tensor | None = None) -> None:
        self.degree = degree
        super().__init__(allowed)

    def connect(self, node_id: Tensor) -> Tensor:
        """Return the edges between positions at most ``degree / 2`` apart around the ring."""
        return ring_edges(node_id.numel(), self.degree // 2, node_id.device)
