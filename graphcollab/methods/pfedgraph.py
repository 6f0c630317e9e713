"""pFedGraph: weights between those by similarity and those by sample counts."""

from __future__ import annotations

from typing import Unpack

from graphcollab._base.settings import Buffers, Finite, Fraction, Positive, Share
from graphcollab.components import CosineUpdates, PeerWeights, SimplexWeights, sample_nodes
from graphcollab.engine import Proximal
from graphcollab.methods.declare import Training, fit, method, peer_method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


@method(SimplexWeights, lr=0.01, epochs=5, batch_size=64, momentum=0.9, weight_decay=1e-5)
def pfedgraph(
    *,
    alpha: Positive = 0.8,
    lam: Finite = 0.01,
    snap: Fraction | None = 0.9,
    compare: str | None = None,
    fraction: Share = 1.0,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""pFedGraph: every node infers its aggregation weights from data sizes and from how models have changed.

    `Personalized Federated Learning with Inferred Collaboration Graphs (Ye, Ni, Wu, Chen, Wang, ICML 2023)
    <https://proceedings.mlr.press/v202/ye23b.html>`_. One round, with :math:`u_i` the model at its start:

    .. math::
        \theta_i &\leftarrow \arg\min_\theta F_i(\theta) - \lambda \cos(\theta, u_i), \qquad
        s_{ij} = \cos(\theta_i - \theta^0, \theta_j - \theta^0) \\
        w_i &= \operatorname*{argmin}_{w \ge 0,\, \sum_j w_j = 1} \; -\sum_j w_j s_{ij} + \alpha \sum_j (w_j - p_j)^2,
            \qquad \theta_i \leftarrow \sum_j w_{ij} \theta_j

    where p are the shares of training samples, :math:`s_{ii} = 1`, and θ⁰ is the initial model. The rows w are
    projections onto the simplex (`SimplexWeights`), asymmetric and soon sparse. The evaluated model is the average.

    The rule, its order and the defaults follow the authors' code; the paper's full text was not consulted. Differences
    from the authors' code:

    - That code adds :math:`+ \lambda \cos`, which pushes the model away from :math:`u_i`. A public re-implementation
      quotes the paper with the sign used here. ``lam=-0.01`` reproduces the code.
    - Its first round omits that term: ``Phases(pfedgraph(lam=0.0), 1, pfedgraph())``.
    - :math:`u_i` is the average (the code's variant "approx"); its variant "cosine", the average of models divided by
      their norms, which would have to travel too, is not implemented.
    - Its variant that compares only the last layer (``compare="head"`` here) leaves out half of the pairs by mistake.
    - If edges are given, a row covers the node's neighbors and itself, and p is normalized over them.
    - It takes 200 or 400 steps a round.

    Since θ⁰ is never renewed, cosines include what all nodes have learned in common, and rise over the rounds; a row
    jumps when a cosine passes ``snap``. For the comparison, every model travels along every edge, even if the weight
    turns out to be zero.

    Args:
        alpha: α; large: weights by sample counts, as in FedAvg; small: all weight on the most similar nodes.
        lam: λ; 0 disables the term.
        compare: Part of the models that is compared. Default: the part that is averaged.
    """
    metric = CosineUpdates(0.0, part if compare is None else compare)
    weigh = PeerWeights(metric, merge=SimplexWeights(alpha, snap))
    local = fit(training, objective=lam * Proximal(1.0, part, "cosine") if lam else None)
    slots = {"rewire": sample_nodes(fraction), "prepare": WithSelfLoops()}
    return peer_method("pfedgraph", local, weigh, part, buffers, **slots)
