"""Merging with random peers."""

from __future__ import annotations

from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.methods._peers import peer_method
from graphcollab.rewire import PeerSampler
from graphcollab.settings import Buffers, Count, Momentum, NonNegative
from graphcollab.weigh import PeerWeights

__all__ = ["random_peers"]


@method
def random_peers(
    *,
    lr: NonNegative = 1e-3,
    epochs: Count = 1,
    steps: Count | None = None,
    batch_size: Count = 32,
    optimizer: Optimizer = "adam",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 0.0,
    samples: Count = 5,
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
) -> Method:
    """Every round a node merges with random peers: what a search for peers has to beat.

    The baseline "random" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1. Models are averaged by sample counts, a node's own included.

    Args:
        samples: Peers that a node meets in a round.

    Example:
        >>> random_peers(samples=3).rewire.samples
        3
    """
    local = fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay)
    return peer_method("random_peers", local, PeerWeights(), PeerSampler(samples), patience, part, buffers)
