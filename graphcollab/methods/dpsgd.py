"""Decentralised parallel SGD."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange import Exchange
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import Metropolis, Uniform

__all__ = ["dpsgd"]


def dpsgd(
    epochs: int | None = None,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    batch_size: int = 10,
    weights: str = "metropolis",
    part: str = "all",
    buffers: str = "keep",
) -> Method:
    r"""DPSGD: mix the models and take a gradient step.

    `Can Decentralized Algorithms Outperform Centralized Algorithms? (Lian et al., NeurIPS 2017)
    <https://arxiv.org/abs/1705.09056>`_.

    .. math::
        x_i \leftarrow \sum_j W_{ij} x_j - \eta\, g_i(x_i)

    The gradient is taken at a node's own model before mixing. With ``epochs``, nodes take several epochs of local steps
    and then mix the results, the variant that the L2C paper compares with.

    Args:
        epochs: Local epochs per round. Default: one step per round, the algorithm's own form.
        lr: Step size η.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        weights: ``"metropolis"`` (doubly stochastic, undirected graphs) or ``"uniform"`` (1 / degree, any graph).
        part: Part of the model that is mixed.
        buffers: ``"keep"`` or ``"mix"`` running statistics.

    Raises:
        ValueError: If ``weights`` is unknown.

    Example:
        >>> dpsgd().exchange.base, dpsgd(epochs=5).exchange.base
        ('update', 'zero')
    """
    weighers = {"metropolis": Metropolis, "uniform": Uniform}
    if weights not in weighers:
        raise ValueError(f"weights must be one of {sorted(weighers)}, got {weights!r}")
    optimizer = SGD(lr=lr, weight_decay=weight_decay)
    one_step = epochs is None
    return Method(
        "dpsgd",
        local=Fit(steps=1 if one_step else None, epochs=epochs or 1, batch_size=batch_size, optimizer=optimizer),
        weigh=weighers[weights](),
        exchange=Exchange("update", "x_start", part, buffers=buffers)
        if one_step
        else Exchange("zero", "x", part, buffers=buffers),
        prepare=WithSelfLoops(),
    )
