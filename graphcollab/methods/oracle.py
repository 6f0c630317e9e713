"""Merging with peers of one's own true cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from graphcollab.method import Method
from graphcollab.methods._peers import Training, peer_method
from graphcollab.rewire import RandomPeers
from graphcollab.weigh import PeerWeights

__all__ = ["oracle"]


def oracle(samples: int = 5, deluded: Sequence[int] = (), **training: Unpack[Training]) -> Method:
    """Every round a node merges with random peers of its own true cluster, which no method is told.

    The baseline "oracle" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1; with ``deluded`` nodes its experiment on cluster death, section 4.2:
    ``Phases(oracle(), 50, oracle(deluded=range(5)))``. CoBo's oracle, FedAvg of everybody in the true cluster, is
    ``fedavg(within="cluster")``.

    Args:
        samples: Peers that a node meets in a round.
        deluded: Nodes (by ``node_id``) that merge with peers of another cluster only, the one after their own.
        training: ``epochs`` (1), ``lr`` (0.001), ``batch_size`` (32), ``optimizer`` ("adam"), ``weight_decay`` (0),
            ``patience`` (None: nobody stops early), ``part`` ("all") and ``buffers`` ("keep"), see `peer_method`.

    Raises:
        ValueError: If there is only one node, or the tasks do not say which cluster nodes are in.

    Example:
        >>> oracle().rewire.within
        'cluster'
    """
    return peer_method("oracle", PeerWeights(), RandomPeers(samples, "cluster", tuple(deluded)), **training)
