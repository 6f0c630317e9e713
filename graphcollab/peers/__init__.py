"""Machinery for nodes that look for peers: candidates, draws and memories."""

from __future__ import annotations

from graphcollab.peers.candidates import Candidates
from graphcollab.peers.draw import draw_peers
from graphcollab.peers.memory import priors, update_memory
from graphcollab.peers.task_distances import Encoder, Reduce, TaskDistances, center_distances, code_centers

__all__ = [
    "Candidates",
    "Encoder",
    "Reduce",
    "TaskDistances",
    "center_distances",
    "code_centers",
    "draw_peers",
    "priors",
    "update_memory",
]
