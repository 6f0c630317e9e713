"""Decentralised federated averaging with momentum."""

from __future__ import annotations

from typing import Unpack

from graphcollab.exchange import Exchange
from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.settings import Buffers
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis

__all__ = ["dfedavgm"]


@method(lr=0.01, epochs=1, batch_size=10, momentum=0.9)
def dfedavgm(*, part: str = "all", buffers: Buffers = "keep", **training: Unpack[Training]) -> Method:
    r"""DFedAvgM: nodes take some local steps with momentum, then the mean over their neighbours.

    `Decentralized Federated Averaging (Sun, Li, Wang, IEEE TPAMI 2022) <https://arxiv.org/abs/2104.11375>`_, algorithm
    1. From :math:`y^0 = y^{-1} = x_i` a node takes K steps of the heavy ball and sends the result:

    .. math::
        y^{k+1} = y^k - \eta\, g_i(y^k) + \theta\, (y^k - y^{k-1}), \qquad x_i \leftarrow \sum_j W_{ij}\, y_j^K

    The momentum θ starts afresh in every round. W is symmetric and doubly stochastic: Metropolis weights, which need an
    undirected graph (``dfedavgm().replace(weigh=Uniform())`` takes any). With ``momentum=0`` it is `dpsgd` with several
    local steps. The paper has no weight decay. Its second algorithm, in which nodes send quantised differences, is not
    among what is here.
    """
    return Method(
        "dfedavgm",
        local=fit(training),
        weigh=Metropolis(),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
