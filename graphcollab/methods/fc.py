"""Federated clustering."""

from __future__ import annotations

from typing import Annotated

from graphcollab.exchange import NoExchange
from graphcollab.local.combine import ClippedMean
from graphcollab.local.cross_gradients import CrossGradients
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, make_optimizer, method
from graphcollab.settings import Count, Fraction, Momentum, NonNegative, Real
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import KeepWeights

__all__ = ["fc"]


@method
def fc(
    *,
    lr: NonNegative = 0.01,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 5e-4,
    tau: Annotated[float, Real(least=0, infinite=True)] | None = None,
    quantile: Fraction = 0.2,
    iterations: Count = 10,
    part: str = "all",
) -> Method:
    r"""Federated clustering: step along the mean of those gradients at the own model that are near to the own one.

    `Provably Personalized and Robust Federated Learning (Werner et al., TMLR 2023) <https://arxiv.org/abs/2306.08393>`_.

    .. math::
        x_i \leftarrow x_i - \eta\, v_i, \qquad
        v_i = \text{ClippedMean}\big(\nabla f_j(x_i) : j \in N(i) \cup \{i\}\big)

    with `graphcollab.local.ClippedMean`, found anew in every round. Models are not mixed. With all pairs, the default
    graph, a round costs K² gradients; ``fc().replace(rewire=SampleNodes(fraction))`` lets some of the nodes play.
    ``edge_weight`` is the share of j's gradient in i's step, also on self-loops; a row sums to 1.

    Which gradients are near must be said. Of n nodes, :math:`\lfloor n q \rfloor + 1` are; the default q = 0.2 is
    cautious: it lets in few nodes of other clusters unless clusters are smaller than a fifth of the nodes, and with
    four nodes or fewer everybody trains alone. CoBo's comparison gives FC the true cluster size c, which is
    ``quantile=(c - 0.5) / n``, and lr = 0.05. There, published code takes gradients of other nodes' models on i's data;
    here, as in the paper, they are of i's model on other nodes' data.

    Args:
        lr: Step size η.
        optimizer: What steps along v, by name or as an object; its state is kept from round to round.
        momentum: Momentum of SGD; the paper's main form has none.
        weight_decay: Coefficient of the L2 penalty, added to v.
        tau: τ, the distance within which gradients count as near. Default: by the quantile.
        quantile: q, the share of the gradients that are near.
        iterations: M, steps of the clipped mean.
        part: Part of the model whose gradients are combined; the rest trains alone.

    Example:
        >>> fc(quantile=1.5 / 8).local.combine  # clusters of two among eight nodes
        ClippedMean(tau=None, quantile=0.1875, iterations=10)
    """
    update = make_optimizer(optimizer, lr, momentum, weight_decay)
    return Method(
        "fc",
        local=CrossGradients(ClippedMean(tau, quantile, iterations), batch_size, update, part),
        weigh=KeepWeights(),
        exchange=NoExchange(shown=part),
        prepare=WithSelfLoops(),
    )
