"""Decentralised federated averaging with momentum."""

from __future__ import annotations

from graphcollab.exchange import Exchange
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.settings import Buffers, Count, Momentum, NonNegative
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis

__all__ = ["dfedavgm"]


@method
def dfedavgm(
    *,
    lr: NonNegative = 0.01,
    epochs: Count = 1,
    steps: Count | None = None,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.9,
    weight_decay: NonNegative = 0.0,
    part: str = "all",
    buffers: Buffers = "keep",
) -> Method:
    r"""DFedAvgM: some local steps with momentum, then the mean over the neighbours.

    `Decentralized Federated Averaging (Sun, Li, Wang, IEEE TPAMI 2022) <https://arxiv.org/abs/2104.11375>`_, algorithm
    1. From :math:`y^0 = y^{-1} = x_i` a node takes K steps of the heavy ball and sends the result:

    .. math::
        y^{k+1} = y^k - \eta\, g_i(y^k) + \theta\, (y^k - y^{k-1}), \qquad x_i \leftarrow \sum_j W_{ij}\, y_j^K

    The momentum starts afresh in every round. W is symmetric and doubly stochastic: Metropolis weights, which need an
    undirected graph (``dfedavgm().replace(weigh=Uniform())`` takes any). With ``momentum=0`` it is `dpsgd` with several
    local steps. The paper's second algorithm, in which nodes send quantised differences, is not among what is here.

    Args:
        lr: Step size η.
        steps: Local steps K per round, instead of ``epochs``.
        momentum: θ.
        weight_decay: Coefficient of the L2 penalty; the paper has none.

    Example:
        >>> dfedavgm(momentum=0.5, steps=2).local.optimizer
        SGD(lr=0.01, weight_decay=0.0, momentum=0.5, nesterov=False)
    """
    return Method(
        "dfedavgm",
        local=fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay),
        weigh=Metropolis(),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
