"""Performance-based neighbour selection."""

from __future__ import annotations

from typing import Unpack

from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import Metric, patient, peer_method
from graphcollab.phases import Phases
from graphcollab.rewire import CountChosen, FrequentPeers
from graphcollab.settings import Buffers, Count
from graphcollab.weigh import BestPeers, PeerWeights, as_similarity

__all__ = ["pens"]


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam")
def pens(
    *,
    metric: Metric = "inverse_loss",
    samples: Count = 5,
    chosen: Count = 2,
    explore_rounds: Count = 50,
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Phases:
    """PENS: nodes try random peers and count who turns out best, then gossip with those who did more than by chance.

    `Decentralized federated learning of deep neural networks on non-iid data (Onoszko et al., 2021)
    <https://arxiv.org/abs/2107.08517>`_. First stage: a node meets ``samples`` random peers, measures each model on its
    own training data, and merges with the ``chosen`` best. Second stage: it merges with that many random ones of its
    neighbours, who were chosen more often than expected. Merging is by sample counts, a node's own model included.

    Args:
        metric: What is measured; the paper's is the loss on own training data.
        samples: n_sampled, random peers met in a round of the first stage; the paper's is 10.
        chosen: m.
        explore_rounds: T_1, rounds of the first stage. The paper's 200 are meant for longer runs.

    Raises:
        ValueError: If more peers are to be chosen than are met.
    """
    if chosen > samples:
        raise ValueError(f"chosen={chosen} peers of samples={samples} that are met: meet more, or choose fewer")
    local, measure = fit(training), PeerWeights(as_similarity(metric, part), BestPeers(chosen))
    explore = peer_method("pens_explore", local, measure, part, buffers, rewire=CountChosen(samples))
    gossip = peer_method("pens", local, PeerWeights(), part, buffers, rewire=FrequentPeers(chosen, chosen))
    return Phases(patient(explore, patience), explore_rounds, patient(gossip, patience))
