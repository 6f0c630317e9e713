"""Decentralized adaptive clustering."""

from __future__ import annotations

from typing import Unpack

from graphcollab.method import Method
from graphcollab.methods._peers import Training, merging, peer_method
from graphcollab.rewire import AdaptivePeers
from graphcollab.weigh import PeerWeights, Similarity, as_similarity

__all__ = ["dac"]


def dac(
    metric: str | Similarity = "cosine_weights",
    samples: int = 5,
    tau: float = 30.0,
    scale: str | None = "minmax",
    growth: float | None = None,
    merge: str = "fedavg",
    unknown: str = "epsilon",
    epsilon: float = 1e-6,
    two_step: str | None = "most_similar",
    share: str = "measured",
    limit: int | None = None,
    **training: Unpack[Training],
) -> Method:
    r"""DAC: nodes meet peers with probabilities that grow with the similarity measured, or told by peers.

    `Decentralized adaptive clustering of deep nets is beneficial for client collaboration (Listo Zec et al., 2022)
    <https://arxiv.org/abs/2206.08839>`_, as in *With a Little Help from My Friends* (Hagander, Ihre-Thomason, Lund
    University 2024), section 2.4.2.

    Deviations, each an argument: similarities that a node knows are brought to [0, 1] before they become probabilities
    (the thesis' "DAC with Min-Max scaling"), since a τ that suits one metric, one size of data or one moment of
    training does not suit others; plain DAC is ``scale=None`` with a ``tau`` tuned for the metric, DAC-var
    ``scale=None, growth=0.2``. Nodes tell what they have measured, as in the thesis' code; read literally, its text has
    them tell all they know (``share="all"``). All nodes merge at once, where published code lets one after the other.

    Args:
        metric: ``"inverse_loss"``, ``"cosine_weights"``, ``"cosine_updates"``, ``"inverse_distance"``, or a
            `Similarity`.
        samples: Peers that a node meets in a round.
        tau: τ, which multiplies similarities.
        scale: ``"minmax"`` or None.
        growth: b of a growing τ; None: constant.
        merge: ``"fedavg"``: by sample counts; ``"similarity"``: by the probabilities peers were drawn with (eq. 2.11 to
            2.13, called FedSim there); ``"softmax"``: by the cosines just measured, see `SoftmaxWeights` (ours; for
            metrics that are cosines).
        unknown: How peers of whom nothing is known are drawn, see `AdaptivePeers`.
        epsilon: ε, the least probability.
        two_step: Whom of several informants to believe, see `update_memory`.
        share: What nodes tell their peers, see `AdaptivePeers`.
        limit: Peers that a node remembers at most. None: all it knows of, which in a long run with many nodes can
            become all of them.
        training: ``epochs`` (1), ``lr`` (0.001), ``batch_size`` (32), ``optimizer`` ("adam"), ``weight_decay`` (0),
            ``patience`` (None: nobody stops early), ``part`` ("all") and ``buffers`` ("keep"), see `peer_method`.

    Raises:
        ValueError: If a setting is unknown or out of range, or there is only one node.

    Example:
        >>> dac("inverse_loss", merge="similarity", tau=30, scale=None).rewire.tau
        30
    """
    similarity = as_similarity(metric, training.get("part", "all"))
    sampler = AdaptivePeers(samples, tau, scale, growth, unknown, epsilon, two_step, share, limit)
    weigh = PeerWeights(similarity, merge=merging(merge, similarity, tau))
    return peer_method("dac", weigh, sampler, **training)
