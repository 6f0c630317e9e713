"""Personalized adaptive neighbour matching."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import Metric, merging, patient, peer_method
from graphcollab.phases import Phases
from graphcollab.rewire import KeepChosen, NeighborBag
from graphcollab.settings import Buffers, Count, Positive
from graphcollab.weigh import AugmentBags, BestPeers, CosineUpdates, PeerWeights, as_similarity

__all__ = ["panm"]


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam")
def panm(
    *,
    metric: Metric | None = None,
    neighbors: Count = 5,
    samples: Count = 5,
    explore_rounds: Count = 50,
    every: Count = 5,
    measure: Literal["bag", "sample"] = "bag",
    merge: Literal["fedavg", "softmax"] = "fedavg",
    tau: Positive = 30.0,
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Phases:
    """PANM: nodes keep the most similar peers met so far; later a mixture of two Gaussians says who is a neighbour.

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
        every: τ, rounds between two augmentations.
        measure: Whether in an augmentation all of the ``"bag"`` is measured anew (the text), or a ``"sample"`` of it.
        merge: ``"fedavg"``: by sample counts, as in the paper; ``"softmax"``: by the cosines just measured, see
            `SimilarityWeights` (ours), with which a node whose bag has strangers in it keeps its own model.
        tau: τ of that softmax. Peers' cosines of 1 − 1/τ and more count; with networks they are lower than with linear
            models.

    Raises:
        ValueError: If a softmax is to merge by a metric that is no cosine.
    """
    similarity = CosineUpdates(0.0, part) if metric is None else as_similarity(metric, part)
    bag, weigher = NeighborBag(samples, neighbors, every, measure), merging(merge, similarity, tau)
    select = PeerWeights(similarity, BestPeers(neighbors), weigher)
    augment = PeerWeights(similarity, AugmentBags(bag), weigher)
    local = fit(training)
    first = peer_method("panm_select", local, select, part, buffers, rewire=KeepChosen(samples))
    second = peer_method("panm", local, augment, part, buffers, rewire=bag)
    return Phases(patient(first, patience), explore_rounds, patient(second, patience))
