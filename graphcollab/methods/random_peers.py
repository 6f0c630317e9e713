"""Merging with random peers."""

from __future__ import annotations

from typing import Unpack

from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import patient, peer_method
from graphcollab.rewire import PeerSampler
from graphcollab.settings import Buffers, Count
from graphcollab.weigh import PeerWeights

__all__ = ["random_peers"]


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam")
def random_peers(
    *,
    samples: Count = 5,
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    """Every round nodes merge with random peers: what a search for peers has to beat.

    The baseline "random" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1. Models are averaged by sample counts, a node's own included.
    """
    peers = PeerSampler(samples)
    return patient(peer_method("random_peers", fit(training), PeerWeights(), part, buffers, rewire=peers), patience)
