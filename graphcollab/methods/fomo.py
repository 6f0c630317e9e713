"""FedFomo: first-order model optimization."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab._base.settings import Buffers, Count, Fraction, NonNegative
from graphcollab.components import Exchange, FirstOrderGain, GreedyPeers
from graphcollab.methods.declare import Training, fit, method
from graphcollab.methods.method import Method


@method(GreedyPeers, FirstOrderGain, lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def fomo(
    *,
    samples: Count = 5,
    epsilon: Fraction = 0.3,
    decay: NonNegative = 0.05,
    norm: Literal["l1", "l2"] = "l2",
    split: Literal["train", "val"] = "val",
    part: str = "all",
    buffers: Buffers = "keep",
    **training: Unpack[Training],
) -> Method:
    r"""FedFomo: nodes step from the start of the round towards the models that help on their own validation data.

    `Personalized Federated Learning with First Order Model Optimization (Zhang et al., ICLR 2021)
    <https://arxiv.org/abs/2012.08565>`_.

    .. math::
        \theta_i \leftarrow \theta_i^{\text{start}} + \sum_j w_{ij} (\theta_j - \theta_i^{\text{start}}), \qquad
        w_{ij} \propto \max\Big(0,
        \frac{\mathcal{L}_i(\theta_i^{\text{start}}) - \mathcal{L}_i(\theta_j)}
        {\lVert \theta_j - \theta_i^{\text{start}} \rVert}\Big)

    over the node's own model after its local update and the models of the peers it has met; see `FirstOrderGain`. A
    node that no model helps, its own included, returns to its model at the start of the round. `GreedyPeers` chooses
    the peers.

    A gain is 0 if a loss is not finite, if a model is within rounding of the base (8 ε ‖θ_i‖), or if its loss is within
    rounding of the base's (8 ε of the larger; 10⁻⁶ of it in single precision): otherwise noise would be divided by
    noise.

    Deviations: nodes download each other's models directly, in the same round, whereas the paper's nodes use a server.
    A peer's running affinity grows by its share of the absolute gains, which is bounded: see ``update_affinity``. Local
    training is that of the other methods here (the published code: step size 0.1, batches of 50).

    Args:
        samples: Models that a node downloads in a round.
        epsilon: Probability that one of them is random instead of the next best.
    """
    return Method(
        "fomo",
        local=fit(training),
        weigh=FirstOrderGain(split, norm, part, buffers),
        exchange=Exchange("x_start", "x", part, buffers=buffers, against="x_start"),
        rewire=GreedyPeers(samples, epsilon, decay),
    )
