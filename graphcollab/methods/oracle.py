"""Merging with peers of one's own true cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import patient, peer_method
from graphcollab.rewire import PeerSampler
from graphcollab.settings import Buffers, Count, Natural
from graphcollab.weigh import PeerWeights

__all__ = ["oracle"]


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam")
def oracle(
    *,
    samples: Count = 5,
    deluded: Sequence[Natural] = (),
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    """Every round nodes merge with random peers of their own true cluster, which no method is told.

    The baseline "oracle" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1; with ``deluded`` nodes its experiment on cluster death, section 4.2:
    ``Phases(oracle(), 50, oracle(deluded=range(5)))``. CoBo's oracle, FedAvg of everybody in the true cluster, is
    ``fedavg(within="cluster")``.

    Args:
        deluded: Nodes (by ``node_id``) that merge with peers of another cluster only, the one after their own.
    """
    peers = PeerSampler(samples, within="cluster", deluded=tuple(deluded))
    return patient(peer_method("oracle", fit(training), PeerWeights(), part, buffers, rewire=peers), patience)
