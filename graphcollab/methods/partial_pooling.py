"""Partial pooling: slopes in common, or shrunk towards the common ones, and an intercept of every node's own."""

from __future__ import annotations

from typing import Unpack

from graphcollab.declare import Training, Weights, fit, method
from graphcollab.exchange import Exchange, ThroughServer
from graphcollab.judge import Judge
from graphcollab.local import FitPersonal
from graphcollab.method import Method
from graphcollab.rewire import sample_nodes
from graphcollab.settings import Buffers, Incomplete, NonNegative, Share


@method(lr=0.05, epochs=1, batch_size=16)
def partial_pooling(
    *,
    lam: NonNegative | None = None,
    fraction: Share = 1.0,
    weights: Weights = "counts",
    incomplete: Incomplete = "refuse",
    part: str = "slopes",
    buffers: Buffers = "average",
    **training: Unpack[Training],
) -> Method:
    r"""Nodes share slopes, exactly or up to a shrinkage, and each has an intercept of its own.

    `Data Analysis Using Regression and Multilevel/Hierarchical Models (Gelman, Hill, Cambridge University Press 2007)
    <https://doi.org/10.1017/CBO9780511790942>`_, chapter 12: the regression with an intercept per group, and with
    slopes per group. As federated learning it is `partial personalization <https://arxiv.org/abs/1912.00818>`_
    (Arivazhagan et al., 2019; `Pillutla et al. <https://arxiv.org/abs/2204.03809>`_, ICML 2022), whose personal part is
    the bias of the output layer; with ``lam`` it is the objective of `Ditto <https://arxiv.org/abs/2012.04221>`_ (Li et
    al., ICML 2021) on the other part.

    .. math::
        \beta &\leftarrow \sum_{k \in S} \frac{n_k}{\sum_{l \in S} n_l} \beta_k,
        \qquad \alpha_k \text{ stays} \\
        v_k &\leftarrow v_k - \eta \big( \nabla F_k(v_k) + \lambda (v_k - (\beta, \cdot)) \big)

    over the nodes S at work, with :math:`(\beta_k, \alpha_k)` slopes and intercept after local steps from
    :math:`(\beta, \alpha_k)`. With ``lam`` a node trains a second model :math:`v_k` beside it, which never leaves the
    node and by which it is judged: its slopes are pulled, its intercept is free. A linear model without ``lam``, one
    full batch a round and a small step converges to least squares with an indicator of every node.

    What is not as in chapter 12:

    - Intercepts are not shrunk towards their mean, so few rows of a node determine its intercept.
    - Slopes are shrunk towards those that fit all nodes best in common, not towards the mean of the nodes' own, by
      equal amounts in all directions, and by a strength that is given and not estimated: choose it on validation data.
    - Models are fitted by local steps and averaging. Several local steps a round converge to somewhere near the fit in
      one place, since nodes whose data differ drift apart before they are averaged.

    Args:
        lam: λ, the pull of a node's slopes to the common ones: 0 is local training, a large one the common slopes.
            Steps are stable while ``lr`` times the sum of λ and the loss's largest curvature is below 2. None: slopes
            are common.
        part: Part of the model that is shared. ``"slopes"``: all parameters but the output layer's bias.
    """
    local = fit(training)
    return Method(
        "partial_pooling",
        local=local if lam is None else FitPersonal(local, lam, part),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughServer(weights, incomplete=incomplete)),
        rewire=sample_nodes(fraction),
        judge=Judge(field="x" if lam is None else "x_personal"),
    )
