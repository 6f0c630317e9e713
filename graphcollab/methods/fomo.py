"""First order model optimisation."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange import Exchange
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.rewire import GreedyPeers
from graphcollab.weigh import FirstOrderGain

__all__ = ["fomo"]


def fomo(
    samples: int = 5,
    epsilon: float = 0.3,
    decay: float = 0.05,
    norm: str = "l2",
    split: str = "val",
    epochs: int = 5,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    batch_size: int = 10,
    part: str = "all",
    buffers: str = "keep",
    steps: int | None = None,
) -> Method:
    r"""FedFomo: step from where the round began towards the models that help on one's own validation data.

    `Personalized Federated Learning with First Order Model Optimization (Zhang et al., ICLR 2021)
    <https://arxiv.org/abs/2012.08565>`_.

    .. math::
        \theta_i \leftarrow \theta_i^{\text{start}} + \sum_j w_{ij} (\theta_j - \theta_i^{\text{start}}), \qquad
        w_{ij} \propto \max\Big(0,
        \frac{\mathcal{L}_i(\theta_i^{\text{start}}) - \mathcal{L}_i(\theta_j)}
        {\lVert \theta_j - \theta_i^{\text{start}} \rVert}\Big)

    over the node's own model after its local update, and those of the peers it has met; see `FirstOrderGain`. A node
    whom no model helps, its own included, goes back to where the round began. Whom to meet is `GreedyPeers`' choice.

    Deviations: nodes download each other's models directly, where the paper's go through a server, and in the same
    round. A peer's running affinity grows by its share of the absolute gains, which has a bound, see `update_affinity`.
    Local training is that of the other methods here (the published code: step size 0.1, batches of 50).

    Args:
        samples: Models that a node downloads in a round.
        epsilon: Probability that one of them is random rather than the next best.
        decay: How much smaller that probability is after every round.
        norm: ``"l2"``, or ``"l1"`` as in the published code.
        split: Split on which models are judged.
        epochs: Passes over a node's samples per round.
        lr: Step size of SGD.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        part: Part of the model that is exchanged.
        buffers: ``"keep"`` or ``"mix"`` running statistics.
        steps: Local steps per round, instead of ``epochs``.

    Raises:
        ValueError: If a setting is unknown or out of range, or there is only one node.

    Example:
        >>> fomo(samples=3).exchange.against
        'x_start'
    """
    optimizer = SGD(lr=lr, weight_decay=weight_decay)
    return Method(
        "fomo",
        local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer),
        weigh=FirstOrderGain(split, norm, part, buffers),
        exchange=Exchange("x_start", "x", part, buffers=buffers, against="x_start"),
        rewire=GreedyPeers(samples, epsilon, decay),
    )
