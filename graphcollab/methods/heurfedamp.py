"""HeurFedAMP: nodes are pulled towards mixtures of models whose direction is near their own's."""

from __future__ import annotations

from graphcollab.engine import Proximal
from graphcollab.exchange import Exchange
from graphcollab.judge import Judge
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.rewire.scheduled import sample_nodes
from graphcollab.settings import Buffers, Count, Fraction, Momentum, NonNegative, Positive, Share
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import CosineWeights, PeerWeights, SimilarityWeights

__all__ = ["heurfedamp"]


@method
def heurfedamp(
    *,
    lr: NonNegative = 0.01,
    epochs: Count = 5,
    steps: Count | None = None,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 0.0,
    lam: NonNegative = 0.1,
    alpha: Positive = 0.1,
    sigma: Positive = 10.0,
    own: Fraction = 0.3,
    fraction: Share = 1.0,
    part: str = "all",
    buffers: Buffers = "keep",
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

    The paper's full text was not consulted, and the authors' code is not public. What is decided here:

    - The minimum is approached by local steps from :math:`u_i`. λ / α stiffens them: keep ``lr * lam / alpha`` well
      below 1, the more so with momentum. The defaults of λ, α, σ and :math:`w_{ii}` are ours.
    - Cosines are of the models, of their trainable parameters in ``part``. A model that is zero has cosine 0 to all.
    - Where edges are given, a node's sums are over its neighbours; one that hears nobody has :math:`u_i = \theta_i`.
      Models travel along edges, each once; a server would send :math:`u_i` down instead.
    - Nodes at rest keep :math:`\theta_i` and :math:`u_i`; the sums are over those at work.

    Models that start alike and have taken few steps have cosines near 1 with everybody, and the others then weigh
    nearly the same; a larger σ, or a ``part`` that differs more, tells them apart.

    Args:
        lam: λ, the strength of the coupling; 0 is local training from mixtures.
        alpha: α.
        sigma: σ, by which cosines are multiplied; a large one means few to listen to.
        own: :math:`w_{ii}`, the weight of a node's own model.

    Example:
        >>> heurfedamp(sigma=5.0, own=0.5).weigh.merge
        SimilarityWeights(own=0.5, tau=5.0, by='score')
    """
    pull = Proximal(lam / alpha, part)
    return Method(
        "heurfedamp",
        local=fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay, objective=pull),
        weigh=PeerWeights(CosineWeights(part), merge=SimilarityWeights(own, sigma), part=part, buffers=buffers),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        rewire=sample_nodes(fraction),
        judge=Judge(field="x_local"),
        prepare=WithSelfLoops(),
    )
