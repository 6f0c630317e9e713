"""FedAMP and HeurFedAMP: pull nodes towards mixtures of models close to their own, in distance or in direction."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab._base.settings import Buffers, Fraction, NonNegative, Positive, Share
from graphcollab.components import CosineWeights, DistanceKernel, PeerWeights, SimilarityWeights, sample_nodes
from graphcollab.components.judge import Judge
from graphcollab.engine import Proximal
from graphcollab.methods.declare import Training, fit, method, peer_method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


@method(lr=0.01, epochs=5, batch_size=10)
def fedamp(
    *,
    lam: NonNegative = 0.1,
    alpha: Positive = 0.1,
    sigma: Positive | Literal["median"] = "median",
    fraction: Share = 1.0,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""FedAMP: every node trains towards a mixture in which closer models have larger weights.

    `Personalized Cross-Silo Federated Learning on Non-IID Data (Huang et al., AAAI 2021)
    <https://arxiv.org/abs/2007.03797>`_. With :math:`A(x) = 1 - e^{-x / \sigma}`, in every round

    .. math::
        w_{ij} &= \alpha A'(\lVert \theta_i - \theta_j \rVert^2)
            = \frac{\alpha}{\sigma} e^{-\lVert \theta_i - \theta_j \rVert^2 / \sigma} \quad (j \ne i), \qquad
        w_{ii} = 1 - \sum_{j \ne i} w_{ij} \\
        u_i &= \sum_j w_{ij} \theta_j, \qquad
        \theta_i \leftarrow \arg\min_\theta F_i(\theta) + \frac{\lambda}{2 \alpha} \lVert \theta - u_i \rVert^2

    The evaluated model is :math:`\theta_i`, which the mixture does not replace. At a fixed point,
    :math:`\nabla F_i(\theta_i) + \lambda \sum_j A'(\lVert \theta_i - \theta_j \rVert^2) (\theta_i - \theta_j) = 0`.
    α does not appear in it: α only controls the speed and stability of convergence.

    The equations are from public summaries and third-party code: the authors' code is not public, and the paper's full
    text was not consulted. Choices made here:

    - Local steps from :math:`u_i` approach the minimum, as in third-party code; some implementations start at
      :math:`\theta_i`. λ / α makes the problem stiffer: keep ``lr * lam / alpha`` well below 1, even more so with
      momentum. The defaults, λ / α = 1, are ours.
    - ``sigma="median"``: squared distances are in units of their median at the receiver, so :math:`w_{ij} = \alpha e^{-
      d^2 / \text{median}}`. A fixed σ that is small compared with the squared distances amounts to local training, and
      squared distances grow with the number of parameters.
    - :math:`w_{ii}` is never negative: if the other weights sum to more than 1, as those of close models do for
      :math:`\alpha > \sigma / (K - 1)`, they are divided by their sum.
    - If edges are given, a node's sums are over its neighbors. Each model travels once along each edge; a server would
      send :math:`u_i` down instead.
    - Nodes at rest keep :math:`\theta_i` and :math:`u_i`; the sums are over participating nodes.

    Code published under this name sometimes implements something else: PFLlib's penalty has no gradient, so it is local
    training, and its defaults α = σ = 1 make own weights negative; ``fedamp`` in the pFedGraph repository is the
    variant HeurFedAMP, applied to model changes.

    Args:
        lam: λ, the strength of the coupling; 0 is local training from mixtures.
        alpha: α.
        sigma: σ, in units of squared distances, or ``"median"``.
    """
    kernel = DistanceKernel(sigma, part, alpha if sigma == "median" else alpha / sigma)
    weigh = PeerWeights(kernel, merge=SimilarityWeights("rest"))
    local = fit(training, objective=Proximal(lam / alpha, part))
    slots = {"rewire": sample_nodes(fraction), "judge": Judge(field="x_local"), "prepare": WithSelfLoops()}
    return peer_method("fedamp", local, weigh, part, buffers, **slots)


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
    r"""HeurFedAMP: every node trains towards a mixture weighted to its own model and to models at a small angle to it.

    `Personalized Cross-Silo Federated Learning on Non-IID Data (Huang et al., AAAI 2021)
    <https://arxiv.org/abs/2007.03797>`_, the heuristic for deep networks. In every round, with a constant
    :math:`w_{ii}`,

    .. math::
        w_{ij} &= (1 - w_{ii}) \frac{e^{\sigma \cos(\theta_i, \theta_j)}}
            {\sum_{h \ne i} e^{\sigma \cos(\theta_i, \theta_h)}} \quad (j \ne i) \\
        u_i &= \sum_j w_{ij} \theta_j, \qquad
        \theta_i \leftarrow \arg\min_\theta F_i(\theta) + \frac{\lambda}{2 \alpha} \lVert \theta - u_i \rVert^2

    The evaluated model is :math:`\theta_i`, which the mixture does not replace. Unlike in `fedamp`, α does not enter
    the weights: only λ / α matters.

    These choices are as for `fedamp`, and not from the paper's text or the authors' code: local steps from :math:`u_i`
    approach the minimum, with the same stiffness λ / α; sums are over neighbors if edges are given, and over
    participating nodes; nodes at rest keep :math:`\theta_i` and :math:`u_i`; each model travels once along each edge.
    All defaults are ours. Cosines are between the models' trainable parameters in ``part``, and 0 if a model is zero. A
    node that hears no other node has :math:`u_i = \theta_i`.

    Models that start from the same parameters and have taken few steps all have cosines near 1, and their weights are
    then nearly equal; a larger σ, or a ``part`` that differs more, separates them.

    Args:
        lam: λ, the strength of the coupling; 0 is local training from mixtures.
        alpha: α.
        sigma: σ, the factor of the cosines; a large value concentrates the weights on few nodes.
        own: :math:`w_{ii}`, the weight of a node's own model.
    """
    weigh = PeerWeights(CosineWeights(part), merge=SimilarityWeights(own, sigma))
    local = fit(training, objective=Proximal(lam / alpha, part))
    slots = {"rewire": sample_nodes(fraction), "judge": Judge(field="x_local"), "prepare": WithSelfLoops()}
    return peer_method("heurfedamp", local, weigh, part, buffers, **slots)
