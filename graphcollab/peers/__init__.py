"""Nodes that find their peers: whom to meet, whom of those to merge with, and what to remember."""

from __future__ import annotations

from graphcollab.peers.adaptive import AdaptivePeers
from graphcollab.peers.candidates import Candidates
from graphcollab.peers.choose import AllPeers, Augment, BestPeers
from graphcollab.peers.draw import draw_peers
from graphcollab.peers.frequent import CountChosen, FrequentPeers
from graphcollab.peers.greedy import GreedyPeers
from graphcollab.peers.memory import priors, update_memory
from graphcollab.peers.neighbor_bag import KeepChosen, NeighborBag
from graphcollab.peers.peer_weights import PeerWeights
from graphcollab.peers.sampler import PeerSampler, RandomPeers
from graphcollab.peers.task_distances import Encoder, Reduce, TaskDistances, center_distances, code_centers
from graphcollab.peers.task_peers import TaskPeers

__all__ = [
    "AdaptivePeers",
    "AllPeers",
    "Augment",
    "BestPeers",
    "Candidates",
    "CountChosen",
    "Encoder",
    "FrequentPeers",
    "GreedyPeers",
    "KeepChosen",
    "NeighborBag",
    "PeerSampler",
    "PeerWeights",
    "RandomPeers",
    "Reduce",
    "TaskDistances",
    "TaskPeers",
    "center_distances",
    "code_centers",
    "draw_peers",
    "priors",
    "update_memory",
]
