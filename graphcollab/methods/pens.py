"""Performance-based neighbour selection."""

from __future__ import annotations

from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.methods._peers import Metric, peer_method
from graphcollab.phases import Phases
from graphcollab.rewire import CountChosen, FrequentPeers
from graphcollab.settings import Buffers, Count, Momentum, NonNegative
from graphcollab.weigh import BestPeers, PeerWeights, as_similarity

__all__ = ["pens"]


@method
def pens(
    *,
    lr: NonNegative = 1e-3,
    epochs: Count = 1,
    steps: Count | None = None,
    batch_size: Count = 32,
    optimizer: Optimizer = "adam",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 0.0,
    metric: Metric = "inverse_loss",
    samples: Count = 5,
    chosen: Count = 2,
    explore_rounds: Count = 50,
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
) -> Phases:
    """PENS: try random peers and count who turns out best, then gossip with those who did more often than by chance.

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

    Example:
        >>> pens(explore_rounds=20).until
        20
    """
    if chosen > samples:
        raise ValueError(f"chosen={chosen} peers of samples={samples} that are met: meet more, or choose fewer")
    local = fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay)
    measure = PeerWeights(as_similarity(metric, part), BestPeers(chosen))
    explore = peer_method("pens_explore", local, measure, CountChosen(samples), patience, part, buffers)
    gossip = peer_method("pens", local, PeerWeights(), FrequentPeers(chosen, chosen), patience, part, buffers)
    return Phases(explore, explore_rounds, gossip)
