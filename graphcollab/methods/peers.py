"""Methods that search for peers, and their baselines: random peers, and peers of a node's own true cluster."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab._base.errors import ConflictError
from graphcollab._base.settings import Count, Positive, Share
from graphcollab.components import (
    AdaptivePeers,
    AugmentBags,
    BestPeers,
    CosineUpdates,
    CountChosen,
    Formula,
    FrequentPeers,
    KeepChosen,
    NeighborBag,
    PeerSampler,
    PeerWeights,
    SampleCounts,
    Similarity,
    SimilarityWeights,
    as_similarity,
)
from graphcollab.components.weigh.similarity import SimilarityLike
from graphcollab.methods.declare import Gossip, gossip, method
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases


@method(AdaptivePeers, lr=1e-3, epochs=1, batch_size=32, optimizer="adam", part="all", buffers="keep")
def dac(
    *,
    metric: SimilarityLike = "cosine_weights",
    samples: Count = 5,
    tau: Positive = 30.0,
    scale: Literal["minmax"] | None = "minmax",
    growth: Positive | None = None,
    merge: Literal["fedavg", "similarity", "softmax"] = "fedavg",
    unknown: Literal["epsilon", "zero"] = "epsilon",
    epsilon: Share = 1e-6,
    two_step: Literal["most_similar", "least_similar", "bounded"] | None = "most_similar",
    share: Literal["measured", "all"] = "measured",
    tells: Count | None = 20,
    limit: Count | None = 75,
    **given: Unpack[Gossip],
) -> Method:
    """DAC: nodes meet peers with probabilities that grow with similarities, measured or reported by peers.

    `Decentralized adaptive clustering of deep nets is beneficial for client collaboration (Listo Zec et al., 2022)
    <https://arxiv.org/abs/2206.08839>`_, as in *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund
    University 2024), section 2.4.2.

    Deviations, each an argument. Known similarities are scaled to [0, 1] before they become probabilities (the thesis'
    "DAC with Min-Max scaling"), since a τ tuned for one metric, data size or stage of training does not suit others;
    plain DAC is ``scale=None`` with a ``tau`` tuned for the metric, DAC-var ``scale=None, growth=0.2``. Nodes report
    the similarities they have measured, as in the thesis' code; read literally, its text has them report all they know
    (``share="all"``). They report on the ``tells`` nodes they measured last, and remember ``limit`` of the reported
    ones, so the cost of a round does not grow over a run; the thesis bounds neither (``tells=None, limit=None``). All
    nodes merge at once; published code merges them one after another.

    Args:
        merge: ``"fedavg"``: by sample counts; ``"similarity"``: by the probabilities with which peers were drawn (eq.
            2.11-2.13); ``"softmax"``: by the cosines just measured, see `SimilarityWeights` (our addition; rejected
            for metrics that are not cosines).
    """
    similarity = as_similarity(metric, given["part"])
    weigh = PeerWeights(similarity, merge=_merging(merge, similarity, tau))
    sampler = AdaptivePeers(samples, tau, scale, growth, unknown, epsilon, two_step, share, tells, limit)
    return gossip("dac", weigh, given, rewire=sampler)


@method(NeighborBag, lr=1e-3, epochs=1, batch_size=32, optimizer="adam", part="all", buffers="keep")
def panm(
    *,
    metric: SimilarityLike | None = None,
    neighbors: Count = 5,
    samples: Count = 5,
    explore_rounds: Count = 50,
    every: Count = 5,
    measure: Literal["bag", "sample"] = "bag",
    merge: Literal["fedavg", "softmax"] = "fedavg",
    tau: Positive = 30.0,
    **given: Unpack[Gossip],
) -> Phases:
    """PANM: nodes keep their most similar peers so far; later a two-Gaussian mixture identifies the neighbors.

    `Towards effective clustered federated learning: a peer-to-peer framework with adaptive neighbor matching (Li et
    al., 2022) <https://arxiv.org/abs/2203.12285>`_, as in *With a Little Help from My Friends* (Hagander,
    Ihre-Thomason, Lund University 2024), appendix B. First stage (NSMC): the ``neighbors`` most similar of the previous
    peers and ``samples`` new ones are chosen. Second stage (NAEM): these form a node's bag. Every few rounds
    `GMMNeighborAugmentation` augments it from new peers, and a node merges with random members of its bag.

    Args:
        metric: Similarity that is measured. The paper uses the inverse loss, and α times the cosine of the last updates
            plus (1 − α) times that of the changes since the start, with an unspecified α. Default: α = 0, since last
            updates become noise as models converge, and bags then fill with dissimilar nodes.
        neighbors: k, the number of peers that a node merges with in a round.
        samples: l, the number of new peers in a round that searches for peers.
        every: τ, the number of rounds between two augmentations.
        merge: ``"fedavg"``: by sample counts, as in the paper; ``"softmax"``: by the cosines just measured, see
            `SimilarityWeights` (our addition; rejected for other metrics); a node with dissimilar nodes in its bag then
            keeps its own model.
        tau: τ of that softmax. Peers with cosines of at least 1 − 1/τ count; cosines are lower with networks than with
            linear models.
    """
    part = given["part"]
    similarity = CosineUpdates(0.0, part) if metric is None else as_similarity(metric, part)
    bag, weigher = NeighborBag(samples, neighbors, every, measure), _merging(merge, similarity, tau)
    select = PeerWeights(similarity, BestPeers(neighbors), weigher)
    augment = PeerWeights(similarity, AugmentBags(bag), weigher)
    first = gossip("panm_select", select, given, rewire=KeepChosen(samples))
    return Phases(first, explore_rounds, gossip("panm", augment, given, rewire=bag))


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam", part="all", buffers="keep")
def pens(
    *,
    metric: SimilarityLike = "inverse_loss",
    samples: Count = 5,
    chosen: Count = 2,
    explore_rounds: Count = 50,
    **given: Unpack[Gossip],
) -> Phases:
    """PENS: nodes test random peers, then gossip with those that ranked best more often than expected by chance.

    `Decentralized federated learning of deep neural networks on non-iid data (Onoszko et al., 2021)
    <https://arxiv.org/abs/2107.08517>`_. First stage: a node meets ``samples`` random peers, measures each model on its
    own training data, and merges with the ``chosen`` best. Second stage: it merges with as many random neighbors, which
    are the peers that were chosen more often than expected. Models are merged by sample counts, including the node's
    own.

    Args:
        metric: Similarity that is measured; in the paper, the loss on the node's own training data.
        samples: n_sampled, the number of random peers met in a round of the first stage; 10 in the paper.
        chosen: m, at most ``samples``.
        explore_rounds: T_1, rounds of the first stage. The paper's 200 are meant for longer runs.
    """
    if chosen > samples:
        raise ConflictError(
            "chosen", f"chosen={chosen} peers of samples={samples} that are met: meet more, or choose fewer"
        )
    measure = PeerWeights(as_similarity(metric, given["part"]), BestPeers(chosen))
    explore = gossip("pens_explore", measure, given, rewire=CountChosen(samples))
    return Phases(explore, explore_rounds, gossip("pens", PeerWeights(), given, rewire=FrequentPeers(chosen, chosen)))


@method(PeerSampler, lr=1e-3, epochs=1, batch_size=32, optimizer="adam", part="all", buffers="keep")
def oracle(
    *,
    samples: Count = 5,
    **given: Unpack[Gossip],
) -> Method:
    """Oracle: every round, nodes merge with random peers of their own true cluster, unknown in practice.

    The baseline "oracle" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1. CoBo's oracle, FedAvg within the true cluster, is ``fedavg(within="cluster")``.
    """
    return gossip("oracle", PeerWeights(), given, rewire=PeerSampler(samples, within="cluster"))


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam", part="all", buffers="keep")
def random_peers(
    *,
    samples: Count = 5,
    **given: Unpack[Gossip],
) -> Method:
    """Random peers: every round, nodes merge with random peers; the baseline for peer search.

    The baseline "random" of *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund University 2024),
    section 2.4.1. Models are averaged by sample counts, a node's own included.
    """
    return gossip("random_peers", PeerWeights(), given, rewire=PeerSampler(samples))


def _merging(merge: str, similarity: Similarity, tau: float) -> Formula:
    """Return the weights of the chosen peers: ``"fedavg"``, ``"similarity"`` or ``"softmax"``, with τ."""
    if merge == "softmax" and similarity.unbounded:
        raise ConflictError(
            "merge", f"merge='softmax' needs a cosine as metric, got {type(similarity).__name__}: merge by 'fedavg'"
        )
    if merge == "fedavg":
        return SampleCounts()
    return SimilarityWeights(by="prior") if merge == "similarity" else SimilarityWeights("alike", tau)
