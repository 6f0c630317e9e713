"""CoBo: a bilevel problem that alternates between learning collaboration weights and learning models."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Unpack

from graphcollab._base.errors import RangeError
from graphcollab._base.settings import Buffers, Count, Natural, NonNegative, Positive
from graphcollab.components import Fit, GradientAlignment, LaplacianPull
from graphcollab.methods.declare import Training, make_optimizer, method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


@method(GradientAlignment, lr=0.01, batch_size=128)
def cobo(
    *,
    rho: Positive = 0.05,
    gamma: Positive = 0.01,
    domain: Literal["box", "simplex"] = "box",
    own: bool = False,
    sampling: Literal["constant", "time", "mixed", "all"] = "constant",
    switch: Natural | None = None,
    decay: Positive | None = None,
    pair_batch: Count | None = None,
    smoothness: NonNegative = 0.0,
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""CoBo: nodes alternate between pairwise weights and models, with one gradient step on each per round.

    `CoBo: Collaborative Learning via Bilevel Optimization (Hashemi, He, Jaggi, NeurIPS 2024)
    <https://arxiv.org/abs/2409.05539>`_, algorithm 1.

    .. math::
        w_{ij} &\leftarrow \Pi_{[0, 1]}\big(w_{ij} + \gamma \langle \nabla f_i(z_{ij}), \nabla f_j(z_{ij}) \rangle\big),
        \qquad z_{ij} = \tfrac12 (x_i + x_j) \\
        x_i &\leftarrow x_i - \eta \Big( \nabla f_i(x_i) + \rho \sum_k w_{ik} (x_i - x_k) \Big)

    A round is one local step, so runs take thousands of rounds. Far from their minima, gradients agree and all nodes
    help each other; closer to the minima, the gradients of dissimilar nodes conflict and their weights fall to 0.

    The pairwise gradients are taken at the models at the start of the round, on a batch other than that of the local
    step, the same for all pairs of a node (the paper does not specify this). Deviations from the paper: none in the
    update; sampling that decays with time decays as in the authors' code (`GradientAlignment`). In other respects that
    code differs: it updates the models before the weights and replaces the gradient by a running mean; here
    ``momentum`` is that of SGD. Neither momentum nor weight decay nor the moments of Adam act on the pull: with
    ``optimizer="adamw"``, as in section 4.3, the optimizer's step replaces :math:`-\eta \nabla f_i(x_i)` and the pull
    remains, taken at the models before the step. The authors' code for language models pulls after the step, by 0.001
    not multiplied by η (so ρ = 0.5 with their step size 0.002).

    Args:
        lr: η, the step size of the models, used in both the optimizer's step and the pull.
        batch_size: Samples per step.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adamw"``, with the settings given here, or an optimizer object with its
            own settings. Its state is kept from round to round.
        rho: ρ, the strength of the pull. The paper gives no value; 0.05 is from the authors' README. It must shrink
            with the number of nodes K: η (L + ρ K) < 2, see `LaplacianPull`.
        domain: ``"box"``: every weight is in [0, 1]; ``"simplex"``: a node's weights sum to 1 (section 4.3).
        own: On the simplex only: a node's own model has a weight, so it may listen to no other node, as in the authors'
            code.
        sampling: Pairs compared in a round, see `GradientAlignment`; ``"constant"`` is algorithm 1.
        decay: Decay rate of the probability with ``"time"`` and ``"mixed"``; ½ by default, 1 in the paper.
        pair_batch: Batch size of a gradient at a midpoint. Default: ``batch_size``.
        smoothness: L of the losses, if known, for the warning about the step size.
        part: Part of the model that is compared and pulled.

    Raises:
        ValueError: If ``lr`` or the optimizer's step size is 0.
    """
    step, batch_size = make_optimizer(training), training["batch_size"]
    if not step.lr:
        raise RangeError("lr", "lr scales the pull as well: expected a number above 0, got 0 (local() has no pull)")
    pairs = batch_size if pair_batch is None else pair_batch
    weigh = GradientAlignment(gamma, domain, sampling, pairs, part=part, own=own, switch=switch, decay=decay)
    pull = LaplacianPull(scale=step.lr * rho, lr=step.lr, smoothness=smoothness, domain=domain)
    return Method(
        "cobo",
        local=Fit(steps=1, batch_size=batch_size, optimizer=step, keep_state=bool(step.slots)),
        weigh=weigh,
        exchange=replace(pull, part=part, buffers=buffers),
        prepare=WithSelfLoops() if own else None,
    )
