"""pFedSim's weights: how alike the classifiers of two nodes are, class by class, on a logarithmic scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.control.at_work import edges_in_use, has_neighbors
from graphcollab.piece import Weigher
from graphcollab.settings import Real
from graphcollab.typing import Env
from graphcollab.weigh.head_cosines import check_head, head_cosines
from graphcollab.weigh.self_loops import require_self_loops

__all__ = ["HeadAffinity", "affinity_weights"]


def affinity_weights(values: Tensor, receiver: Tensor, num_nodes: int) -> Tensor:
    r"""Return pFedSim's weights of similarities, :math:`-\log(1 - s)` over its sum for every receiver.

    Args:
        values: s of every edge, from 0 to less than 1; every receiver has one that is not 0.
        receiver: The edges' receivers.
        num_nodes: K.

    Shapes:
        values, receiver, output: [E].

    Example:
        >>> affinity_weights(torch.tensor([0.9999, 0.5, 0.0]), torch.tensor([0, 0, 0]), 1)
        tensor([0.9300, 0.0700, 0.0000])
    """
    affinity = -torch.log1p(-values)
    return affinity / scatter(affinity, receiver, dim_size=num_nodes)[receiver]


@dataclass(frozen=True)
class HeadAffinity(Weigher):
    r"""Weights by the similarity of classifiers, which a server compares.

    `pFedSim: Similarity-Aware Model Aggregation Towards Personalized Federated Learning
    <https://arxiv.org/abs/2305.15706>`_ (Tan et al., 2023). With :math:`\phi_{ic}` the weights, without the bias, that
    node i's classifier has for class c of C:

    .. math::
        s_{ij} = \max\Big(0, \frac1C \sum_c \cos(\phi_{ic}, \phi_{jc})\Big), \qquad s_{ii} = s_{\max}, \qquad
        \alpha_{ij} = \frac{-\log(1 - \min(s_{ij}, s_{\max}))}{\sum_k -\log(1 - \min(s_{ik}, s_{\max}))}

    over the senders k that i hears, itself included. A similarity of 1 would weigh infinitely much: the published code
    has 0.9999 for a node with itself; here all similarities are capped by it, so that equal classifiers weigh the same
    as the own one.

    A node that is like nobody, or whose classifier is zero, keeps its own model. Senders that do not serve weigh
    nothing, and the others' weights sum to 1.

    Args:
        part: Part of the model that the exchange mixes.
        head: The classifier: a part that is one linear layer.
        cap: :math:`s_{\max}`.

    Shapes:
        Writes ``edge_weight`` [E]; every receiver's sum is 1. A node at work (that trains and serves) is charged the
        P_head floats of its classifier, sent to the server once, unless it is in the part that is mixed.

    Raises:
        ValueError: If the classifier is not one linear layer that all nodes have in common, or a node has no self-loop.

    Example:
        >>> HeadAffinity(cap=0.99)
        HeadAffinity(part='backbone', head='head', cap=0.99)
    """

    travels: ClassVar[str] = "the classifier, up to the server"

    part: str = "backbone"
    head: str = "head"
    cap: Annotated[float, Real(above=0, below=1)] = 0.9999

    @property
    def agrees(self) -> dict[str, object]:
        """The part that is mixed, which travels anyway."""
        return {"part": self.part}

    def init(self, data: Data, env: Env) -> Data:
        """Check the classifiers, and that every node hears itself."""
        check_head(data, self.head)
        require_self_loops(data, env, "a node that is like nobody keeps its own model")
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Set ``edge_weight``, and count the classifiers that the server compares."""
        data = super().__call__(data, env)
        mixed, head = (data.x.specs[0].columns(part) for part in (self.part, self.head))
        if mixed.start <= head.start and head.stop <= mixed.stop:  # the exchange counts it
            return data
        sends = data.trains & data.serves & has_neighbors(data)
        return env.plane.charge(data, sends.nonzero().flatten(), head.stop - head.start)

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights of the round's edges."""
        sender, receiver = data.edge_index
        alike = head_cosines(data, env, self.head, per_class=True).clamp(0, self.cap)
        in_use = edges_in_use(data)
        if in_use is not None:
            alike = alike.masked_fill(~in_use, 0)
        alike = alike.masked_fill(sender == receiver, self.cap)
        return affinity_weights(alike, receiver, data.num_nodes)
