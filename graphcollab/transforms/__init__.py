"""Communication graphs: topologies, self-loops, sparsification and neighbor augmentation as PyG transforms.

Every transform returns a shallow copy and does not modify its input. The resulting edges are sorted by receiver, then
sender, and every field whose name contains "edge" stays aligned with them.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.transforms.gmm_neighbor_augmentation import GMMNeighborAugmentation as GMMNeighborAugmentation
    from graphcollab.transforms.sparsification import DropWeakest as DropWeakest, Threshold as Threshold, TopK as TopK
    from graphcollab.transforms.topologies import (
        Complete as Complete,
        Isolated as Isolated,
        RandomRegular as RandomRegular,
        Ring as Ring,
        Topology as Topology,
        WithSelfLoops as WithSelfLoops,
    )

__all__ = make_lazy(__name__)
