"""Performance-based neighbour selection."""

from __future__ import annotations

from typing import Unpack

from graphcollab.methods._peers import Training, peer_method
from graphcollab.phases import Phases
from graphcollab.rewire import CountChosen, FrequentPeers
from graphcollab.weigh import BestPeers, PeerWeights, Similarity, as_similarity

__all__ = ["pens"]


def pens(
    metric: str | Similarity = "inverse_loss",
    samples: int = 5,
    chosen: int = 2,
    explore_rounds: int = 50,
    **training: Unpack[Training],
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
        training: ``epochs`` (1), ``lr`` (0.001), ``batch_size`` (32), ``optimizer`` ("adam"), ``weight_decay`` (0),
            ``patience`` (None: nobody stops early), ``part`` ("all") and ``buffers`` ("keep"), see `peer_method`.

    Raises:
        ValueError: If more peers are to be chosen than are met, or there is only one node.

    Example:
        >>> pens(explore_rounds=20).until
        20
    """
    if chosen > samples:
        raise ValueError(f"{chosen} peers are to be chosen of {samples} that are met: meet more, or choose fewer")
    measure = PeerWeights(as_similarity(metric, training.get("part", "all")), BestPeers(chosen))
    explore = peer_method("pens_explore", measure, CountChosen(samples), **training)
    return Phases(
        explore, explore_rounds, peer_method("pens", PeerWeights(), FrequentPeers(chosen, chosen), **training)
    )
