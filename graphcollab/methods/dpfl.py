"""DPFL: every node searches for a few nodes whose average with it performs well on its own validation data."""

from __future__ import annotations

from typing import Unpack

from graphcollab._base.settings import Buffers, Count
from graphcollab.components import DoubleGreedy, PeerWeights
from graphcollab.methods.declare import Training, fit, method, peer_method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


@method(DoubleGreedy, lr=0.01, epochs=5, batch_size=16, momentum=0.9, weight_decay=1e-4)
def dpfl(
    *, budget: Count = 10, every: Count = 2, part: str = "all", buffers: Buffers = "keep", **training: Unpack[Training]
) -> Method:
    r"""DPFL: every node averages with at most B − 1 others, chosen by the average's gain on its validation data.

    `DPFL: Decentralized Personalized Federated Learning (Kharrat, Canini, Horváth, AISTATS 2025)
    <https://arxiv.org/abs/2406.06520>`_. After local training, in every ``every``-th round, node i chooses a set
    :math:`S_i` that contains it, by a randomized double greedy search (`DoubleGreedy`), and

    .. math::
        \theta_i \leftarrow \sum_{j \in S_i} \frac{n_j}{\sum_{l \in S_i} n_l} \theta_j

    Later searches choose from the node's first set. In all other rounds nodes train alone.

    The rule, its order and the defaults follow the authors' code; the paper's full text was not consulted. The paper
    is said to choose in every round (``every=1``). Differences from the authors' code:

    - All nodes average at once. In that code, later nodes average models that are already averages.
    - If a search step finds equal gain and loss, p is ½; that code leaves p at its previous value.
    - Losses are means over samples, not over batches; batch counters are not averaged.
    - The optimizer's state is reset every round, gradients are not clipped, and the step size is constant.
    - If edges are given, the candidates are a node's neighbors.

    A set may be worse than the node alone, see `DoubleGreedy`. A node whose first set is only itself stays alone. Every
    candidate's model is sent for the trial, even if it is rejected.
    """
    weigh = PeerWeights(choose=DoubleGreedy(budget, every, part, buffers))
    return peer_method("dpfl", fit(training), weigh, part, buffers, prepare=WithSelfLoops())
