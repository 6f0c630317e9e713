"""Decentralized parallel SGD and decentralized federated averaging with momentum."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Unpack

from graphcollab._base.settings import Buffers
from graphcollab.components import Exchange, Metropolis, Uniform
from graphcollab.methods.declare import Training, fit, method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


@method(lr=0.01, epochs=None, batch_size=10, weight_decay=5e-4)
def dpsgd(
    *,
    weights: Literal["metropolis", "uniform"] = "metropolis",
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""DPSGD: nodes mix their models and take a gradient step.

    `Can Decentralized Algorithms Outperform Centralized Algorithms? (Lian et al., NeurIPS 2017)
    <https://arxiv.org/abs/1705.09056>`_.

    .. math::
        x_i \leftarrow \sum_j W_{ij} x_j - \eta\, g_i(x_i)

    The gradient is taken at a node's own model before mixing. With ``epochs`` or ``steps``, nodes take several local
    steps and then mix the results; this is the variant in the L2C paper's comparison.

    Args:
        epochs: Local epochs per round. Default: one step per round, the algorithm's original form.
        steps: Local steps per round, instead of ``epochs``; they are taken before mixing, even if it is only one.
        optimizer: Optimizer of the local update, by name or as an object. Its state is kept from round to round if a
            round is one step, and is reset every round otherwise.
        weights: ``"metropolis"`` (doubly stochastic, undirected graphs) or ``"uniform"`` (1 / degree, any graph).
    """
    one_step = training["epochs"] is None and training["steps"] is None
    local = fit({**training, "steps": 1} if one_step else training)
    return Method(
        "dpsgd",
        local=replace(local, keep_state=one_step and bool(local.optimizer.slots)),
        weigh=Metropolis() if weights == "metropolis" else Uniform(),
        exchange=Exchange("update" if one_step else "zero", "x_start" if one_step else "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )


@method(lr=0.01, epochs=1, batch_size=10, momentum=0.9)
def dfedavgm(*, part: str = "all", buffers: Buffers = "keep", **training: Unpack[Training]) -> Method:
    r"""DFedAvgM: nodes take several local steps with momentum, then average with their neighbors.

    `Decentralized Federated Averaging (Sun, Li, Wang, IEEE TPAMI 2022) <https://arxiv.org/abs/2104.11375>`_, algorithm
    1. From :math:`y^0 = y^{-1} = x_i`, a node takes K heavy-ball steps and sends the result:

    .. math::
        y^{k+1} = y^k - \eta\, g_i(y^k) + \theta\, (y^k - y^{k-1}), \qquad x_i \leftarrow \sum_j W_{ij}\, y_j^K

    The momentum θ is reset in every round. W is symmetric and doubly stochastic: Metropolis weights, which need an
    undirected graph (``dfedavgm().replace(weigh=Uniform())`` takes any graph). With ``momentum=0`` it is `dpsgd` with
    several local steps. The paper has no weight decay. Its second algorithm, in which nodes send quantized differences,
    is not implemented.
    """
    return Method(
        "dfedavgm",
        local=fit(training),
        weigh=Metropolis(),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
