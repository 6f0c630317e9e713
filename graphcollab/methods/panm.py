"""Personalized adaptive neighbour matching."""

from __future__ import annotations

from typing import Unpack

from graphcollab.methods._peers import Training, merging, peer_method
from graphcollab.phases import Phases
from graphcollab.rewire import KeepChosen, NeighborBag
from graphcollab.weigh import AugmentBags, BestPeers, CosineUpdates, PeerWeights, Similarity, as_similarity

__all__ = ["panm"]


def panm(
    metric: str | Similarity | None = None,
    neighbors: int = 5,
    samples: int = 5,
    explore_rounds: int = 50,
    every: int = 5,
    measure: str = "bag",
    merge: str = "fedavg",
    tau: float = 30.0,
    **training: Unpack[Training],
) -> Phases:
    """PANM: keep the most similar peers met so far, then let a mixture of two Gaussians say who else is a neighbour.

    `Towards effective clustered federated learning: a peer-to-peer framework with adaptive neighbor matching (Li et
    al., 2022) <https://arxiv.org/abs/2203.12285>`_, as in *With a Little Help from My Friends* (Hagander,
    Ihre-Thomason, Lund University 2024), appendix B.
    First stage (NSMC): of the peers chosen before and ``samples`` new ones the ``neighbors`` most similar are chosen.
    Second stage (NAEM): those are a node's bag; every few rounds it is augmented from new peers by
    `GMMNeighborAugmentation`, and a node merges with random ones from its bag.

    Args:
        metric: What is measured. The paper has the inverse loss, and α times the cosine of the last updates plus
            (1 − α) times that of the changes since the start, with an α it does not name. Default: α = 0, since last
            updates become noise as models converge, and bags then fill with strangers.
        neighbors: k, peers that a node merges with in a round.
        samples: l, new peers in a round that looks for some.
        explore_rounds: T_1, rounds of the first stage.
        every: τ, rounds between two augmentations.
        merge: ``"fedavg"``: by sample counts, as in the paper; ``"softmax"``: by the cosines just measured, see
            `SoftmaxWeights` (ours), with which a node whose bag has strangers in it keeps its own model.
        tau: τ of that softmax. Peers' cosines of 1 − 1/τ and more count; with networks they are lower than with linear
            models.
        measure: Whether in an augmentation all of the ``"bag"`` is measured anew (the text), or a ``"sample"`` of it.
        training: ``epochs`` (1), ``lr`` (0.001), ``batch_size`` (32), ``optimizer`` ("adam"), ``weight_decay`` (0),
            ``patience`` (None: nobody stops early), ``part`` ("all") and ``buffers`` ("keep"), see `peer_method`.

    Raises:
        ValueError: If a number is smaller than 1, or there is only one node.

    Example:
        >>> panm(neighbors=3).next.rewire.listens
        3
    """
    part = training.get("part", "all")
    similarity = CosineUpdates(0.0, part) if metric is None else as_similarity(metric, part)
    bag = NeighborBag(samples, neighbors, every, measure)
    if merge == "similarity":
        raise ValueError(
            "merge='similarity' weighs by the probabilities peers were drawn with, and PANM draws alike: use "
            "'fedavg' or 'softmax'"
        )
    weigher = merging(merge, similarity, tau)
    select = PeerWeights(similarity, BestPeers(neighbors), weigher)
    first = peer_method("panm_select", select, KeepChosen(samples), **training)
    second = peer_method("panm", PeerWeights(similarity, AugmentBags(bag), weigher), bag, **training)
    return Phases(first, explore_rounds, second)
