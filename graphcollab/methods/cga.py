"""Methods that step along combined gradients at a node's model: cross-gradient aggregation, federated clustering."""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

from graphcollab._base.settings import Buffers, Count, Fraction, NonNegative, Real
from graphcollab.components import (
    ClippedMean,
    CrossGradients,
    Exchange,
    KeepWeights,
    Metropolis,
    NoExchange,
    ProjectedGradient,
    Uniform,
)
from graphcollab.methods.declare import Training, make_optimizer, method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


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
    r"""CGA: nodes mix their models and step along a gradient that conflicts with no neighbor's data.

    `Cross-Gradient Aggregation for Decentralized Learning from Non-IID data (Esfandiari et al., ICML 2021)
    <https://arxiv.org/abs/2103.02051>`_.

    .. math::
        v_i \leftarrow \beta v_i - \eta\, \tilde g_i, \qquad x_i \leftarrow \sum_j \pi_{ij} x_j + v_i

    where :math:`\tilde g_i` is the projection of the node's own gradient onto the directions that form no obtuse angle
    with the gradients of the neighbors' data at x_i (`ProjectedGradient`). All gradients are computed before mixing.

    The authors' code gathers the batches of all nodes at all nodes; here models travel, as in the paper. The authors'
    code also leaves models in evaluation mode after the gradient exchange, which is not reproduced here. Its other
    differences are available as settings: u ≥ 0.5 (``margin=0.5``), a separate projection for each parameter tensor
    (``per_layer=True``), and SGD with ``nesterov=True``. It also scales :math:`g_j` by the mixing weight
    :math:`\pi_{ij}`. Without a margin this has no effect; with uniform weights of n models it equals ``margin=0.5 /
    n``.

    Args:
        optimizer: Optimizer of the step along the projected gradient (plus weight decay); its state is kept from round
            to round.
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


@method(lr=0.01, batch_size=10, weight_decay=5e-4)
def fc(
    *,
    tau: Annotated[float, Real(least=0, infinite=True)] | None = None,
    quantile: Fraction = 0.2,
    iterations: Count = 10,
    part: str = "all",
    **training: Unpack[Training],
) -> Method:
    r"""Federated clustering: nodes step along the mean of the gradients at their model that are close to their own.

    `Provably Personalized and Robust Federated Learning (Werner et al., TMLR 2023) <https://arxiv.org/abs/2306.08393>`_.

    .. math::
        x_i \leftarrow x_i - \eta\, v_i, \qquad
        v_i = \text{ClippedMean}\big(\nabla f_j(x_i) : j \in N(i) \cup \{i\}\big)

    with `ClippedMean`, computed anew in every round. Models are not mixed. On the default graph of all pairs, a round
    costs K² gradients; ``fc().replace(rewire=SampleNodes(fraction))`` samples the nodes that take part. ``edge_weight``
    is the share of j's gradient in i's step, including self-loops; each row sums to 1.

    You must state how many gradients are near: of n nodes, :math:`\lfloor n q \rfloor + 1` are. The default q = 0.2 is
    conservative: it admits few nodes of other clusters unless clusters are smaller than a fifth of the nodes, and with
    four nodes or fewer every node trains alone. CoBo's comparison gives FC the true cluster size c, which is
    ``quantile=(c - 0.5) / n``, and lr = 0.05. The code published there takes the gradients of other nodes' models on
    i's data; here, as in the paper, they are the gradients of i's model on other nodes' data.

    Args:
        optimizer: Optimizer of the step along v (plus weight decay); its state is kept from round to round.
        momentum: Momentum of SGD; the paper's main form has none.
        tau: τ, the distance within which gradients count as near. Default: set by the quantile.
        quantile: q, the share of the gradients that count as near.
        iterations: M, the number of steps of the clipped mean.
        part: Part of the model whose gradients are combined; the rest is trained locally.
    """
    near = ClippedMean(tau, quantile, iterations)
    return Method(
        "fc",
        local=CrossGradients(near, training["batch_size"], make_optimizer(training), part),
        weigh=KeepWeights(),
        exchange=NoExchange(shown=part),
        prepare=WithSelfLoops(),
    )
