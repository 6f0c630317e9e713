"""Merging with peers of one's own true cluster."""

from __future__ import annotations

from collections.abc import Sequence

from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.methods._peers import peer_method
from graphcollab.rewire import PeerSampler
from graphcollab.settings import Buffers, Count, Momentum, Natural, NonNegative
from graphcollab.weigh import PeerWeights

__all__ = ["oracle"]


@method
def oracle(
    *,
    lr: NonNegative = 1e-3,
    epochs: Count = 1,
    steps: Count | None = None,
    batch_size: Count = 32,
    optimizer: Optimizer = "adam",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 0.0,
    samples: Count = 5,
    deluded: Sequence[Natural] = (),
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
) -> Method:
    """Every round a node merges with random peers of its own true cluster, which no method is told.

    The baseline "oracle" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1; with ``deluded`` nodes its experiment on cluster death, section 4.2:
    ``Phases(oracle(), 50, oracle(deluded=range(5)))``. CoBo's oracle, FedAvg of everybody in the true cluster, is
    ``fedavg(within="cluster")``.

    Args:
        samples: Peers that a node meets in a round.
        deluded: Nodes (by ``node_id``) that merge with peers of another cluster only, the one after their own.

    Example:
        >>> oracle().rewire.within
        'cluster'
    """
    local = fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay)
    peers = PeerSampler(samples, within="cluster", deluded=tuple(deluded))
    return peer_method("oracle", local, PeerWeights(), peers, patience, part, buffers)
