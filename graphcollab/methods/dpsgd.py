"""Decentralised parallel SGD."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Unpack

from graphcollab.exchange import Exchange
from graphcollab.method import Method
from graphcollab.methods._method import Training, fit, method
from graphcollab.settings import Buffers
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis, Uniform

__all__ = ["dpsgd"]


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
    steps and then mix the results, the variant that the L2C paper compares with.

    Args:
        epochs: Local epochs per round. Default: one step per round, the algorithm's own form.
        steps: Local steps per round, instead of ``epochs``; they are taken before mixing, also a single one.
        optimizer: The local update, by name or as an object. Its state is kept from round to round where a round is one
            step, and starts afresh otherwise.
        weights: ``"metropolis"`` (doubly stochastic, undirected graphs) or ``"uniform"`` (1 / degree, any graph).

    Example:
        >>> dpsgd().exchange.base, dpsgd(epochs=5).exchange.base
        ('update', 'zero')
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
