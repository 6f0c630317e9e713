"""DPFL: every node searches for a few others whose average with it is good on its own validation data."""

from __future__ import annotations

from typing import Unpack

from graphcollab._base.settings import Buffers, Count
from graphcollab.components.weigh.double_greedy import DoubleGreedy
from graphcollab.components.weigh.peer_weights import PeerWeights
from graphcollab.methods.declare import Training, fit, method, peer_method
from graphcollab.methods.method import Method
from graphcollab.transforms import WithSelfLoops


@method(DoubleGreedy, lr=0.01, epochs=5, batch_size=16, momentum=0.9, weight_decay=1e-4)
def dpfl(
    *, budget: Count = 10, every: Count = 2, part: str = "all", buffers: Buffers = "keep", **training: Unpack[Training]
) -> Method:
    r"""DPFL: every node averages with at most B − 1 others, chosen by what the average is worth on its validation data.

    `DPFL: Decentralized Personalized Federated Learning (Kharrat, Canini, Horváth, AISTATS 2025)
    <https://arxiv.org/abs/2406.06520>`_. After local training, in every ``every``-th round, node i chooses a set
    :math:`S_i` that contains it, by a randomized double greedy search (`DoubleGreedy`), and

    .. math::
        \theta_i \leftarrow \sum_{j \in S_i} \frac{n_j}{\sum_{l \in S_i} n_l} \theta_j

    Its later choices are from its first set. In all other rounds nodes train alone.

    The rule, its order and the defaults are those of the authors' code; the paper's full text was not consulted, which
    is said to choose in every round (``every=1``). What differs from that code:

    - Nodes average at once. In the code later nodes average models that are averages already.
    - Where a search step finds gain and loss alike, p is ½; the code leaves it to what came before.
    - Losses are means over samples, not over batches; counters of batches are not averaged.
    - The optimizer's state starts afresh every round; gradients are not clipped, and the step size stays.
    - Where edges are given, candidates are a node's neighbors.

    A set may be worse than the node alone, see `DoubleGreedy`. A node whose first set is
    itself alone stays alone. Every candidate's model travels to be tried, also if it is rejected.
    """
    weigh = PeerWeights(choose=DoubleGreedy(budget, every, part, buffers))
    return peer_method("dpfl", fit(training), weigh, part, buffers, prepare=WithSelfLoops())
