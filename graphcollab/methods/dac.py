"""Decentralized adaptive clustering."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import Metric, merging, patient, peer_method
from graphcollab.rewire import AdaptivePeers
from graphcollab.settings import Buffers, Count, Positive, Share
from graphcollab.weigh import PeerWeights, as_similarity

__all__ = ["dac"]


@method(lr=1e-3, epochs=1, batch_size=32, optimizer="adam")
def dac(
    *,
    metric: Metric = "cosine_weights",
    samples: Count = 5,
    tau: Positive = 30.0,
    scale: Literal["minmax"] | None = "minmax",
    growth: Positive | None = None,
    merge: Literal["fedavg", "similarity", "softmax"] = "fedavg",
    unknown: Literal["epsilon", "zero"] = "epsilon",
    epsilon: Share = 1e-6,
    two_step: Literal["most_similar", "least_similar", "bounded"] | None = "most_similar",
    share: Literal["measured", "all"] = "measured",
    limit: Count | None = None,
    patience: Count | None = None,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    """DAC: nodes meet peers with probabilities that grow with the similarity measured, or told by peers.

    `Decentralized adaptive clustering of deep nets is beneficial for client collaboration (Listo Zec et al., 2022)
    <https://arxiv.org/abs/2206.08839>`_, as in *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund
    University 2024), section 2.4.2.

    Deviations, each an argument: similarities that a node knows are brought to [0, 1] before they become probabilities
    (the thesis' "DAC with Min-Max scaling"), since a τ that suits one metric, one size of data or one moment of
    training does not suit others; plain DAC is ``scale=None`` with a ``tau`` tuned for the metric, DAC-var
    ``scale=None, growth=0.2``. Nodes tell what they have measured, as in the thesis' code; read literally, its text has
    them tell all they know (``share="all"``). All nodes merge at once, where published code lets one after the other.

    Args:
        tau: τ, which multiplies similarities.
        scale: ``"minmax"`` or None.
        growth: b of a growing τ; None: constant.
        merge: ``"fedavg"``: by sample counts; ``"similarity"``: by the probabilities peers were drawn with (eq.
            2.11-2.13); ``"softmax"``: by the cosines just measured, see `SimilarityWeights` (ours).
        unknown: How peers of whom nothing is known are drawn, see `AdaptivePeers`.
        epsilon: ε, the least probability.
        two_step: Whom of several informants to believe, see `update_memory`.
        share: What nodes tell their peers, see `AdaptivePeers`.
        limit: Peers that a node remembers at most. None: all it knows of, which in a long run with many nodes can
            become all of them.

    Raises:
        ValueError: If a softmax is to merge by a metric that is no cosine.
    """
    similarity = as_similarity(metric, part)
    weigh = PeerWeights(similarity, merge=merging(merge, similarity, tau))
    sampler = AdaptivePeers(samples, tau, scale, growth, unknown, epsilon, two_step, share, limit)
    return patient(peer_method("dac", fit(training), weigh, part, buffers, rewire=sampler), patience)
