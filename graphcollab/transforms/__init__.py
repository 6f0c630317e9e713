"""Who listens to whom: topologies, self-loops, sparsification and neighbour augmentation as PyG transforms.

Every transform returns a shallow copy and leaves its input untouched. Edges come out sorted by receiver, then sender,
and every field whose name contains "edge" stays aligned with them.
"""

from __future__ import annotations

from graphcollab.transforms._edges import check_edges, check_no_duplicates, select_edges, sort_edges
from graphcollab.transforms.complete import Complete
from graphcollab.transforms.drop_weakest import DropWeakest
from graphcollab.transforms.gmm_neighbor_augmentation import GMMNeighborAugmentation
from graphcollab.transforms.group_ring import GroupRing
from graphcollab.transforms.isolated import Isolated
from graphcollab.transforms.random_bipartite import RandomBipartite
from graphcollab.transforms.random_regular import RandomRegular
from graphcollab.transforms.ring import Ring
from graphcollab.transforms.sparsification import Sparsification
from graphcollab.transforms.threshold import Threshold
from graphcollab.transforms.top_k import TopK
from graphcollab.transforms.topology import Topology
from graphcollab.transforms.with_self_loops import WithSelfLoops

__all__ = [
    "Complete",
    "DropWeakest",
    "GMMNeighborAugmentation",
    "GroupRing",
    "Isolated",
    "RandomBipartite",
    "RandomRegular",
    "Ring",
    "Sparsification",
    "Threshold",
    "TopK",
    "Topology",
    "WithSelfLoops",
    "check_edges",
    "check_no_duplicates",
    "select_edges",
    "sort_edges",
]
