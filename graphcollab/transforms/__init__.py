"""Who listens to whom: topologies, self-loops, sparsification and neighbour augmentation as PyG transforms.

Every transform returns a shallow copy and leaves its input untouched. Edges come out sorted by receiver, then sender,
and every field whose name contains "edge" stays aligned with them.
"""

from graphcollab.transforms._edges import check_edges, check_no_duplicates, select_edges, sort_edges, with_edges
from graphcollab.transforms.gmm_neighbor_augmentation import GMMNeighborAugmentation
from graphcollab.transforms.sparsification import DropWeakest, Sparsification, Threshold, TopK
from graphcollab.transforms.topologies import (
    Complete,
    Isolated,
    RandomBipartite,
    RandomRegular,
    Ring,
    Topology,
    WithSelfLoops,
)

__all__ = [
    "Complete",
    "DropWeakest",
    "GMMNeighborAugmentation",
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
    "with_edges",
]
