"""Federated clustering."""

from __future__ import annotations

from typing import Annotated, Unpack

from graphcollab.declare import Training, make_optimizer, method
from graphcollab.exchange import NoExchange
from graphcollab.local import ClippedMean, CrossGradients
from graphcollab.method import Method
from graphcollab.settings import Count, Fraction, Real
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import KeepWeights


@method(lr=0.01, batch_size=10, weight_decay=5e-4)
def fc(
    *,
    tau: Annotated[float, Real(least=0, infinite=True)] | None = None,
    quantile: Fraction = 0.2,
    iterations: Count = 10,
    part: str = "all",
    **training: Unpack[Training],
) -> Method:
    r"""Federated clustering: nodes step along the mean of those gradients at their model that are near to their own.

    `Provably Personalized and Robust Federated Learning (Werner et al., TMLR 2023) <https://arxiv.org/abs/2306.08393>`_.

    .. math::
        x_i \leftarrow x_i - \eta\, v_i, \qquad
        v_i = \text{ClippedMean}\big(\nabla f_j(x_i) : j \in N(i) \cup \{i\}\big)

    with `ClippedMean`, found anew in every round. Models are not mixed. With all pairs, the default graph, a round
    costs K² gradients; ``fc().replace(rewire=SampleNodes(fraction))`` lets some of the nodes play. ``edge_weight`` is
    the share of j's gradient in i's step, also on self-loops; a row sums to 1.

    Which gradients are near must be said. Of n nodes, :math:`\lfloor n q \rfloor + 1` are; the default q = 0.2 is
    cautious: it lets in few nodes of other clusters unless clusters are smaller than a fifth of the nodes, and with
    four nodes or fewer everybody trains alone. CoBo's comparison gives FC the true cluster size c, which is
    ``quantile=(c - 0.5) / n``, and lr = 0.05. There, published code takes gradients of other nodes' models on i's data;
    here, as in the paper, they are of i's model on other nodes' data.

    Args:
        optimizer: What steps along v (plus weight decay); its state is kept from round to round.
        momentum: Momentum of SGD; the paper's main form has none.
        tau: τ, the distance within which gradients count as near. Default: by the quantile.
        quantile: q, the share of the gradients that are near.
        iterations: M, steps of the clipped mean.
        part: Part of the model whose gradients are combined; the rest trains alone.
    """
    near = ClippedMean(tau, quantile, iterations)
    return Method(
        "fc",
        local=CrossGradients(near, training["batch_size"], make_optimizer(training), part),
        weigh=KeepWeights(),
        exchange=NoExchange(shown=part),
        prepare=WithSelfLoops(),
    )
