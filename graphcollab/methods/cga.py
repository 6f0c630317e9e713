"""Cross-gradient aggregation."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab.declare import Training, make_optimizer, method
from graphcollab.exchange import Exchange
from graphcollab.local import CrossGradients, ProjectedGradient
from graphcollab.method import Method
from graphcollab.settings import Buffers, NonNegative
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis, Uniform


@method(ProjectedGradient, lr=0.01, batch_size=10, momentum=0.9, weight_decay=5e-4)
def cga(
    *,
    margin: NonNegative = 0.0,
    per_layer: bool = False,
    weights: Literal["metropolis", "uniform"] = "metropolis",
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""CGA: nodes mix their models, and step along the gradient that goes against no neighbour's data.

    `Cross-Gradient Aggregation for Decentralized Learning from Non-IID data (Esfandiari et al., ICML 2021)
    <https://arxiv.org/abs/2103.02051>`_.

    .. math::
        v_i \leftarrow \beta v_i - \eta\, \tilde g_i, \qquad x_i \leftarrow \sum_j \pi_{ij} x_j + v_i

    where :math:`\tilde g_i` is the projection of the own gradient onto the directions that are at no obtuse angle to
    the gradients of the neighbours' data at x_i (`ProjectedGradient`). All gradients are taken before mixing.

    The authors' code gathers the batches of all nodes at all nodes; here models travel, as the paper has it. It also
    leaves models in evaluation mode once gradients have been exchanged, which is not repeated here. Its other
    differences are settings: u ≥ 0.5 (``margin=0.5``), a projection of the gradient of every parameter tensor by itself
    (``per_layer=True``) and SGD with ``nesterov=True``; and it scales :math:`g_j` by the mixing weight
    :math:`\pi_{ij}`, which changes nothing without a margin, and with uniform weights of n models is ``margin=0.5 /
    n``.

    Args:
        optimizer: What steps along the projected gradient (plus weight decay); its state is kept from round to round.
        weights: ``"metropolis"`` (doubly stochastic, undirected graphs) or ``"uniform"`` (1 / degree, any graph).
        part: Part of the model that is mixed and whose gradients are exchanged.
    """
    gradients = ProjectedGradient(margin, per_layer)
    return Method(
        "cga",
        local=CrossGradients(gradients, training["batch_size"], make_optimizer(training), part, mixed=True),
        weigh=Metropolis() if weights == "metropolis" else Uniform(),
        exchange=Exchange("update", "x_start", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
