"""The rewire slot: who listens to whom, and who works, in the next round."""

from graphcollab.rewire.adaptive import AdaptivePeers
from graphcollab.rewire.choose_center import ChooseCenter
from graphcollab.rewire.draw import Candidates
from graphcollab.rewire.sampler import GreedyPeers, PeerSampler
from graphcollab.rewire.scheduled import ApplyTransform, SampleNodes, sample_nodes
from graphcollab.rewire.task_distances import Encoder
from graphcollab.rewire.task_peers import TaskPeers
from graphcollab.rewire.two_stages import CountChosen, FrequentPeers, KeepChosen, NeighborBag

__all__ = [
    "AdaptivePeers",
    "ApplyTransform",
    "Candidates",
    "ChooseCenter",
    "CountChosen",
    "Encoder",
    "FrequentPeers",
    "GreedyPeers",
    "KeepChosen",
    "NeighborBag",
    "PeerSampler",
    "SampleNodes",
    "TaskPeers",
    "sample_nodes",
]
