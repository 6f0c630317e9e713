"""Merging with random peers."""

from __future__ import annotations

from typing import Unpack

from graphcollab.method import Method
from graphcollab.methods._peers import Training, peer_method
from graphcollab.rewire import RandomPeers
from graphcollab.weigh import PeerWeights

__all__ = ["random_peers"]


def random_peers(samples: int = 5, **training: Unpack[Training]) -> Method:
    """Every round a node merges with random peers: what a search for peers has to beat.

    The baseline "random" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1. Models are averaged by sample counts, a node's own included.

    Args:
        samples: Peers that a node meets in a round.
        training: ``epochs`` (1), ``lr`` (0.001), ``batch_size`` (32), ``optimizer`` ("adam"), ``weight_decay`` (0),
            ``patience`` (None: nobody stops early), ``part`` ("all") and ``buffers`` ("keep"), see `peer_method`.

    Raises:
        ValueError: If a number is smaller than 1, or there is only one node.

    Example:
        >>> random_peers(samples=3).rewire.samples
        3
    """
    return peer_method("random_peers", PeerWeights(), RandomPeers(samples), **training)
