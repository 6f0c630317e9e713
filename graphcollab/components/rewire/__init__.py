"""The rewire slot: edges and participating nodes of the next round."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.components.rewire.adaptive import AdaptivePeers as AdaptivePeers
    from graphcollab.components.rewire.choose_center import ChooseCenter as ChooseCenter
    from graphcollab.components.rewire.draw import Candidates as Candidates
    from graphcollab.components.rewire.sampler import GreedyPeers as GreedyPeers, PeerSampler as PeerSampler
    from graphcollab.components.rewire.scheduled import (
        ApplyTransform as ApplyTransform,
        SampleNodes as SampleNodes,
        sample_nodes as sample_nodes,
    )
    from graphcollab.components.rewire.task_distances import Encoder as Encoder
    from graphcollab.components.rewire.task_peers import TaskPeers as TaskPeers
    from graphcollab.components.rewire.two_stages import (
        CountChosen as CountChosen,
        FrequentPeers as FrequentPeers,
        KeepChosen as KeepChosen,
        NeighborBag as NeighborBag,
    )

__all__ = make_lazy(__name__)
