"""Cross-gradient aggregation."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange.exchange import Exchange
from graphcollab.local.cross_gradients import CrossGradients
from graphcollab.local.projected_gradient import ProjectedGradient
from graphcollab.method import Method
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis, Uniform

__all__ = ["cga"]


def cga(
    lr: float = 0.01,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    batch_size: int = 10,
    margin: float = 0.0,
    per_layer: bool = False,
    nesterov: bool = False,
    weights: str = "metropolis",
    part: str = "all",
    buffers: str = "keep",
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
    stay. Its other differences are options: ``margin=0.5``, ``per_layer=True`` and ``nesterov=True``; it also leaves
    models in evaluation mode once gradients have been exchanged, which is not repeated here.

    Args:
        lr: Step size η.
        momentum: β; the velocity is kept from round to round.
        weight_decay: Coefficient of the L2 penalty, added to the projected gradient.
        batch_size: Samples per step.
        margin: Lower bound of the coefficients of the neighbours' gradients.
        per_layer: Project parameter tensor by parameter tensor.
        nesterov: Nesterov's form of momentum.
        weights: ``"metropolis"`` (doubly stochastic, undirected graphs) or ``"uniform"`` (1 / degree, any graph).
        part: Part of the model that is mixed and whose gradients are exchanged.
        buffers: ``"keep"`` or ``"mix"`` running statistics.

    Raises:
        ValueError: If ``weights`` is unknown, or the margin is negative.

    Example:
        >>> cga(momentum=0.95).local.optimizer.momentum
        0.95
    """
    weighers = {"metropolis": Metropolis, "uniform": Uniform}
    if weights not in weighers:
        raise ValueError(f"weights must be one of {sorted(weighers)}, got {weights!r}")
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov)
    return Method(
        "cga",
        local=CrossGradients(ProjectedGradient(margin, per_layer), batch_size, optimizer, part, mixed=True),
        weigh=weighers[weights](),
        exchange=Exchange("update", "x_start", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
