"""HeurFedAMP: nodes are pulled towards mixtures of models whose direction is near their own's."""

from __future__ import annotations

from typing import Unpack

from graphcollab.engine import Proximal
from graphcollab.judge import Judge
from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import peer_method
from graphcollab.rewire import sample_nodes
from graphcollab.settings import Buffers, Fraction, NonNegative, Positive, Share
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import CosineWeights, PeerWeights, SimilarityWeights

__all__ = ["heurfedamp"]


@method(lr=0.01, epochs=5, batch_size=10)
def heurfedamp(
    *,
    lam: NonNegative = 0.1,
    alpha: Positive = 0.1,
    sigma: Positive = 10.0,
    own: Fraction = 0.3,
    fraction: Share = 1.0,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""HeurFedAMP: every node trains towards a mixture, most of its own model and of those at a small angle to it.

    `Personalized Cross-Silo Federated Learning on Non-IID Data (Huang et al., AAAI 2021)
    <https://arxiv.org/abs/2007.03797>`_, the heuristic for deep networks. In every round, with a constant
    :math:`w_{ii}`,

    .. math::
        w_{ij} &= (1 - w_{ii}) \frac{e^{\sigma \cos(\theta_i, \theta_j)}}
            {\sum_{h \ne i} e^{\sigma \cos(\theta_i, \theta_h)}} \quad (j \ne i) \\
        u_i &= \sum_j w_{ij} \theta_j, \qquad
        \theta_i \leftarrow \arg\min_\theta F_i(\theta) + \frac{\lambda}{2 \alpha} \lVert \theta - u_i \rVert^2

    Nodes are judged by :math:`\theta_i`, which the mixture does not replace. Unlike in `fedamp`, α has no part in the
    weights: only λ / α matters.

    Decided here as for `fedamp`, and not from the paper's text or the authors' code: local steps from :math:`u_i`
    approach the minimum, with λ / α as stiff as there; sums are over neighbours where edges are given, and over nodes
    at work; those at rest keep :math:`\theta_i` and :math:`u_i`; models travel along edges, each once. Besides:

    - The defaults of λ, α, σ and :math:`w_{ii}` are ours.
    - Cosines are of the models, of their trainable parameters in ``part``. A model that is zero has cosine 0 to all.
    - A node that hears nobody has :math:`u_i = \theta_i`.

    Models that start alike and have taken few steps have cosines near 1 with everybody, and the others then weigh
    nearly the same; a larger σ, or a ``part`` that differs more, tells them apart.

    Args:
        lam: λ, the strength of the coupling; 0 is local training from mixtures.
        alpha: α.
        sigma: σ, by which cosines are multiplied; a large one means few to listen to.
        own: :math:`w_{ii}`, the weight of a node's own model.
    """
    weigh = PeerWeights(CosineWeights(part), merge=SimilarityWeights(own, sigma))
    local = fit(training, objective=Proximal(lam / alpha, part))
    slots = {"rewire": sample_nodes(fraction), "judge": Judge(field="x_local"), "prepare": WithSelfLoops()}
    return peer_method("heurfedamp", local, weigh, part, buffers, **slots)
