"""Partial pooling: slopes that are shared, or shrunk towards the shared ones, and an intercept per node."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from graphcollab._base.errors import ConflictError
from graphcollab._base.settings import Natural, NonNegative, Positive
from graphcollab.components import Judge, RandomSlopes, ShrinkIntercepts
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.methods.declare import Serving, averaged, fit, method
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases


@method(lr=0.05, epochs=1, batch_size=16, part="slopes", buffers="average")
def partial_pooling(
    *,
    lam: Positive | None = None,
    shrink: NonNegative = 0.0,
    warmup: Natural = 0,
    **given: Unpack[Serving],
) -> Method | Phases:
    r"""Partial pooling: nodes share slopes, exactly or up to a shrinkage, and each has an intercept of its own.

    `Data Analysis Using Regression and Multilevel/Hierarchical Models (Gelman, Hill, Cambridge University Press 2007)
    <https://doi.org/10.1017/CBO9780511790942>`_, chapter 12: the regression with an intercept per group, and with
    slopes per group. As federated learning it is `partial personalization <https://arxiv.org/abs/1912.00818>`_
    (Arivazhagan et al., 2019; `Pillutla et al. <https://arxiv.org/abs/2204.03809>`_, ICML 2022), whose personal part is
    the bias of the output layer.

    .. math::
        \beta \leftarrow \sum_{k \in S} \frac{n_k}{\sum_{l \in S} n_l} \beta_k,
        \qquad \alpha_k \text{ stays}

    over the participating nodes S, with :math:`(\beta_k, \alpha_k)` slopes and intercept after local steps from
    :math:`(\beta, \alpha_k)`. With one full batch a round and a small step size, a linear model converges to least
    squares with an indicator per node. With ``lam`` a node is evaluated with its own slopes, which are fitted to its
    samples and shrunk towards the shared ones, as if the sum of its losses had a term :math:`\frac{\lambda}{2} \lVert
    \beta_k - \beta \rVert^2`; in models with hidden layers these are the slopes of the output layer. They never leave
    the node (`graphcollab.components.RandomSlopes`).

    With ``shrink`` intercepts are pulled towards their mean :math:`\bar\alpha`, as if each node's mean loss had a term
    :math:`\frac{\nu}{2 n_k} (\alpha_k - \bar\alpha)^2`; the fewer samples a node has, the more it takes from the others
    (`ShrinkIntercepts`).

    Differences from chapter 12:

    - Intercepts are shrunk towards their mean by a given strength, by default 0, not by an estimated one.
    - Slopes are shrunk towards those that jointly fit all nodes best, not towards the mean of the nodes' own slopes, by
      equal amounts in all directions, and by a given strength, not an estimated one: tune it on validation data.
    - Models are fitted by local steps and averaging. Several local steps a round converge only near the centralized
      fit, since nodes with different data drift apart before they are averaged.
    - In the first ``warmup`` rounds intercepts are averaged, too: if an input is the same for all samples of a node (a
      school's size), the node's own intercept would learn what that input's slope should, and the slope would hardly
      move.

    Args:
        lam: λ, the pull of a node's slopes towards the shared ones, in samples: the more samples a node has, the
            further its slopes may deviate. In the book's terms it is :math:`2 \sigma_y^2 / \sigma_\beta^2` for
            ``loss="mse"`` and :math:`1 / \sigma_\beta^2` for classes, where σ_β is the spread between nodes of a
            standardized input's slope. None: slopes are shared.
        shrink: ν, the pull of intercepts towards their mean. In the book's terms it is :math:`2 \sigma_y^2 /
            \sigma_\alpha^2` for ``loss="mse"``, twice the ratio of the variances within and between nodes, and
            :math:`1 / \sigma_\alpha^2` for classes: tune it on validation data, for example over 0, 1 and 10. Only with
            all slopes as ``part``.
        warmup: Rounds in which intercepts are shared as well, if ``part`` is slopes. Runs must be longer.
        part: Part of the model that is shared. ``"slopes"``: all parameters but the output layer's bias.
    """
    local, slots, part = fit(given), averaged(given), given["part"]
    average = slots["exchange"]
    if shrink and part != "slopes":
        raise ConflictError("shrink", "intercepts are shrunk beside common slopes: leave out part=, or shrink=")
    taken = LocalSteps(local.epochs, local.steps, local.batch_size, local.optimizer)
    shrinks = ShrinkIntercepts(buffers=average.buffers, route=average.route, shrink=shrink, taken=taken)
    slots["judge"] = Judge() if lam is None else RandomSlopes(lam)
    slots["exchange"] = shrinks if shrink else average
    pooling = Method("partial_pooling", local=local, **slots)
    if warmup == 0:
        return pooling
    return Phases(pooling.replace(exchange=replace(average, part="all" if part == "slopes" else part)), warmup, pooling)
