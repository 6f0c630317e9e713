"""Decentralised federated averaging with momentum."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange import Exchange
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis

__all__ = ["dfedavgm"]


def dfedavgm(
    epochs: int = 1,
    steps: int | None = None,
    lr: float = 0.01,
    momentum: float = 0.9,
    batch_size: int = 10,
    weight_decay: float = 0.0,
    part: str = "all",
    buffers: str = "keep",
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
        epochs: Passes over a node's samples per round.
        steps: Local steps K per round, instead of ``epochs``.
        lr: Step size η.
        momentum: θ.
        batch_size: Samples per step.
        weight_decay: Coefficient of the L2 penalty; the paper has none.
        part: Part of the model that is mixed.
        buffers: ``"keep"`` or ``"mix"`` running statistics.

    Example:
        >>> dfedavgm(momentum=0.5, steps=2).local.optimizer
        SGD(lr=0.01, weight_decay=0.0, momentum=0.5, nesterov=False)
    """
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum)
    return Method(
        "dfedavgm",
        local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer),
        weigh=Metropolis(),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
