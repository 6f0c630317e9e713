"""The rewire slot: who listens to whom, and who works, in the next round."""

from __future__ import annotations

from graphcollab.rewire.adaptive import AdaptivePeers
from graphcollab.rewire.at_round import AtRound, EveryRound, Keep
from graphcollab.rewire.choose_center import ChooseCenter
from graphcollab.rewire.frequent import CountChosen, FrequentPeers
from graphcollab.rewire.greedy import GreedyPeers
from graphcollab.rewire.neighbor_bag import KeepChosen, NeighborBag
from graphcollab.rewire.sample_nodes import SampleNodes, sample_nodes
from graphcollab.rewire.sampler import PeerSampler, RandomPeers
from graphcollab.rewire.task_peers import TaskPeers

__all__ = [
    "AdaptivePeers",
    "AtRound",
    "ChooseCenter",
    "CountChosen",
    "EveryRound",
    "FrequentPeers",
    "GreedyPeers",
    "Keep",
    "KeepChosen",
    "NeighborBag",
    "PeerSampler",
    "RandomPeers",
    "SampleNodes",
    "TaskPeers",
    "sample_nodes",
]
