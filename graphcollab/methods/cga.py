"""Cross-gradient aggregation."""

from __future__ import annotations

from typing import Literal

from graphcollab.exchange.exchange import Exchange
from graphcollab.local.combine import ProjectedGradient
from graphcollab.local.cross_gradients import CrossGradients
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, make_optimizer, method
from graphcollab.settings import Buffers, Count, Momentum, NonNegative
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis, Uniform

__all__ = ["cga"]


@method
def cga(
    *,
    lr: NonNegative = 0.01,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.9,
    weight_decay: NonNegative = 5e-4,
    margin: NonNegative = 0.0,
    per_layer: bool = False,
    weights: Literal["metropolis", "uniform"] = "metropolis",
    part: str = "all",
    buffers: Buffers = "keep",
) -> Method:
    r"""CGA: mix the models, and step along the gradient that goes against no neighbour's data.

    `Cross-Gradient Aggregation for Decentralized Learning from Non-IID data (Esfandiari et al., ICML 2021)
    <https://arxiv.org/abs/2103.02051>`_.

    .. math::
        v_i \leftarrow \beta v_i - \eta\, \tilde g_i, \qquad x_i \leftarrow \sum_j \pi_{ij} x_j + v_i

    where :math:`\tilde g_i` is the projection of the own gradient onto the directions that are at no obtuse angle to
    the gradients of the neighbours' data at x_i (`graphcollab.local.ProjectedGradient`). All gradients are taken before
    mixing.

    The authors' code gathers the batches of all nodes at all nodes; here models travel, as the paper has it, and data
    stay. Its other differences are settings: ``margin=0.5``, ``per_layer=True`` and
    ``optimizer=SGD(lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)``; it also leaves models in evaluation mode
    once gradients have been exchanged, which is not repeated here.

    Args:
        lr: Step size η.
        optimizer: What steps along the projected gradient, by name or as an object; its state is kept from round to
            round.
        momentum: β of SGD.
        weight_decay: Coefficient of the L2 penalty, added to the projected gradient.
        margin: Lower bound of the coefficients of the neighbours' gradients.
        per_layer: Project parameter tensor by parameter tensor.
        weights: ``"metropolis"`` (doubly stochastic, undirected graphs) or ``"uniform"`` (1 / degree, any graph).
        part: Part of the model that is mixed and whose gradients are exchanged.

    Example:
        >>> cga(momentum=0.95).local.optimizer.momentum
        0.95
    """
    update = make_optimizer(optimizer, lr, momentum, weight_decay)
    return Method(
        "cga",
        local=CrossGradients(ProjectedGradient(margin, per_layer), batch_size, update, part, mixed=True),
        weigh=Metropolis() if weights == "metropolis" else Uniform(),
        exchange=Exchange("update", "x_start", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
