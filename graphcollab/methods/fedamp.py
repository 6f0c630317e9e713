"""FedAMP: nodes are pulled towards mixtures of models that are near their own."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab.engine import Proximal
from graphcollab.judge import Judge
from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.methods._peers import peer_method
from graphcollab.rewire import sample_nodes
from graphcollab.settings import Buffers, NonNegative, Positive, Share
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import DistanceKernel, PeerWeights, SimilarityWeights

__all__ = ["fedamp"]


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
    r"""FedAMP: every node trains towards a mixture in which near models weigh more than far ones.

    `Personalized Cross-Silo Federated Learning on Non-IID Data (Huang et al., AAAI 2021)
    <https://arxiv.org/abs/2007.03797>`_. With :math:`A(x) = 1 - e^{-x / \sigma}`, in every round

    .. math::
        w_{ij} &= \alpha A'(\lVert \theta_i - \theta_j \rVert^2)
            = \frac{\alpha}{\sigma} e^{-\lVert \theta_i - \theta_j \rVert^2 / \sigma} \quad (j \ne i), \qquad
        w_{ii} = 1 - \sum_{j \ne i} w_{ij} \\
        u_i &= \sum_j w_{ij} \theta_j, \qquad
        \theta_i \leftarrow \arg\min_\theta F_i(\theta) + \frac{\lambda}{2 \alpha} \lVert \theta - u_i \rVert^2

    Nodes are judged by :math:`\theta_i`, which the mixture does not replace. Where it comes to rest,
    :math:`\nabla F_i(\theta_i) + \lambda \sum_j A'(\lVert \theta_i - \theta_j \rVert^2) (\theta_i - \theta_j) = 0`,
    which α has no part in: it says how fast and how safely.

    The equations are from public summaries and from code of others: the authors' is not public, and the paper's full
    text was not consulted. What is decided here:

    - The minimum is approached by local steps, as in the code of others, from :math:`u_i`; some start at
      :math:`\theta_i`. λ / α stiffens them: keep ``lr * lam / alpha`` well below 1, the more so with momentum. The
      defaults, λ / α = 1, are ours.
    - ``sigma="median"``: squared distances are in units of their median at the receiver, so :math:`w_{ij} = \alpha e^{-
      d^2 / \text{median}}`. A fixed σ that is small beside squared distances is local training, and these grow with
      the number of parameters.
    - :math:`w_{ii}` is never negative: where the others' weights sum to more than 1, as those of near models do for
      :math:`\alpha > \sigma / (K - 1)`, they are divided by their sum.
    - Where edges are given, a node's sums are over its neighbours. Models travel along edges, each once; a server would
      send :math:`u_i` down instead.
    - Nodes at rest keep :math:`\theta_i` and :math:`u_i`; the sums are over those at work.

    Published code is sometimes something else by this name: PFLlib's penalty has no gradient, so it is local training,
    and with its defaults α = σ = 1 own weights are negative; ``fedamp`` in the repository of pFedGraph is the variant
    HeurFedAMP, on changes of the models.

    Args:
        lam: λ, the strength of the coupling; 0 is local training from mixtures.
        alpha: α.
        sigma: σ, in the units of squared distances, or ``"median"``.
    """
    kernel = DistanceKernel(sigma, part, alpha if sigma == "median" else alpha / sigma)
    weigh = PeerWeights(kernel, merge=SimilarityWeights("rest"))
    local = fit(training, objective=Proximal(lam / alpha, part))
    slots = {"rewire": sample_nodes(fraction), "judge": Judge(field="x_local"), "prepare": WithSelfLoops()}
    return peer_method("fedamp", local, weigh, part, buffers, **slots)
