"""CoBo: whom to collaborate with as one half of a bilevel problem, the models as the other."""

from __future__ import annotations

from typing import Literal

from graphcollab.engine import SGD
from graphcollab.exchange import LaplacianPull
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.methods._method import method
from graphcollab.settings import Buffers, Count, Momentum, Natural, NonNegative, Positive
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import GradientAlignment

__all__ = ["cobo"]


@method(GradientAlignment)
def cobo(
    *,
    lr: Positive = 0.01,
    batch_size: Count = 128,
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 0.0,
    rho: Positive = 0.05,
    gamma: Positive = 0.01,
    domain: Literal["box", "simplex"] = "box",
    own: bool = False,
    sampling: Literal["constant", "time", "mixed", "all"] = "constant",
    switch: Natural | None = None,
    decay: Positive | None = None,
    smoothness: NonNegative = 0.0,
    part: str = "all",
    buffers: Buffers = "keep",
) -> Method:
    r"""CoBo: nodes alternate between the weights of pairs and the models, one gradient step each a round.

    `CoBo: Collaborative Learning via Bilevel Optimization (Hashemi, He, Jaggi, NeurIPS 2024)
    <https://arxiv.org/abs/2409.05539>`_, algorithm 1.

    .. math::
        w_{ij} &\leftarrow \Pi_{[0, 1]}\big(w_{ij} + \gamma \langle \nabla f_i(z_{ij}), \nabla f_j(z_{ij}) \rangle\big),
        \qquad z_{ij} = \tfrac12 (x_i + x_j) \\
        x_i &\leftarrow x_i - \eta \Big( \nabla f_i(x_i) + \rho \sum_k w_{ik} (x_i - x_k) \Big)

    A round is one local step, so runs take thousands of rounds. Far from their minima gradients agree and everybody
    helps everybody; closer to them those of unlike nodes turn against each other, and their weight falls to 0.

    Deviations from the paper: none in the update; sampling that falls with time falls as in the authors' code
    (`GradientAlignment`). Otherwise that code updates the models before the weights and replaces the gradient by a
    running mean; ``momentum`` is SGD's own, kept from round to round. Neither it nor weight decay acts on the pull.

    Args:
        lr: η, the step size of the models, in the step of SGD and in the pull.
        rho: ρ, the strength of the pull. The paper does not say; 0.05 is the authors' README. It must shrink with the
            number of nodes K: η (L + ρ K) < 2, see `LaplacianPull`.
        domain: ``"box"``: every weight is in [0, 1]; ``"simplex"``: a node's weights sum to 1 (section 4.3).
        own: On the simplex only: a node's own model has a weight, so it may listen to nobody, as in the authors' code.
        sampling: Which pairs are compared in a round, see `GradientAlignment`; ``"constant"`` is algorithm 1.
        decay: How fast the probability falls with ``"time"`` and ``"mixed"``; ½ by default, the paper's is 1.
        smoothness: L of the losses, where it is known, for the warning about the step size.
        part: Part of the model that is compared and pulled.
    """
    weigh = GradientAlignment(gamma, domain, sampling, batch_size, part=part, own=own, switch=switch, decay=decay)
    step = SGD(lr=lr, momentum=momentum, weight_decay=weight_decay)
    return Method(
        "cobo",
        local=Fit(steps=1, batch_size=batch_size, optimizer=step, keep_state=momentum > 0),
        weigh=weigh,
        exchange=LaplacianPull(part=part, buffers=buffers, scale=lr * rho, lr=lr, smoothness=smoothness),
        prepare=WithSelfLoops() if own else None,
    )
