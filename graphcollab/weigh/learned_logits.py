"""L2C's weigher: one learned number per edge."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter, softmax

from graphcollab.control.at_work import edges_in_use
from graphcollab.engine import Adam, RowOptimizer
from graphcollab.piece import Field, Weigher
from graphcollab.typing import Env

__all__ = ["LearnedLogits"]


@dataclass(frozen=True)
class LearnedLogits(Weigher):
    r"""Softmax of learned logits, one for every edge.

    From `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)`, eq. 3:

    .. math::
        w_{ij} = \frac{e^{a_{ij}}}{\sum_{l \in \{i\} \cup N(i)} e^{a_{il}}}, \qquad
        \frac{\partial L}{\partial a_{ij}} = w_{ij} \Big( s_j - \sum_l w_{il} s_l \Big), \quad
        s_j = \frac{\partial L}{\partial w_{ij}}

    The gradient is that closed form; no graph through the models is kept. Every logit has its own Adam state. The paper
    leaves a⁰ open; here it is 0, so weights start uniform. The paper's line 24 averages a over nodes, which has no
    meaning for logits that belong to one node, and is not done.

    Args:
        optimizer: Update of the logits. Default: Adam, lr 0.1, weight decay 0.01 (the paper's).

    Shapes:
        Keeps ``edge_logit`` [E] and one ``edge_logit_<slot>`` [E] per slot of the optimiser; writes ``edge_weight``
        [E].
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_logit", "per_edge", "logits of the weights", known_to="receiver"),
        Field("edge_logit_*", "per_edge", "the state of the logits' optimiser", known_to="receiver"),
        Field("weigher_step", "scalar", "steps of the logits so far"),
    )

    optimizer: RowOptimizer = field(default_factory=lambda: Adam(lr=0.1, weight_decay=0.01))

    @property
    def learns(self) -> bool:
        """They do."""
        return True

    @property
    def needs(self) -> tuple[str, ...]:
        """Validation samples, to learn from."""
        return ("val",)

    def init(self, data: Data, env: Env) -> Data:
        """Start from equal weights."""
        data = copy.copy(data)
        logit = torch.zeros(data.edge_index.shape[1], dtype=data.x.dtype, device=data.edge_index.device)
        data.edge_logit = logit
        for slot in self.optimizer.slots:
            data[f"edge_logit_{slot}"] = torch.zeros_like(logit)
        data.weigher_step = 0
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Set ``edge_weight`` to the softmax over every receiver's edges."""
        data = copy.copy(data)
        data.edge_weight = softmax(data.edge_logit, data.edge_index[1], num_nodes=data.num_nodes)
        return data

    def learn(self, data: Data, env: Env, gradient: Tensor) -> Data:
        """Take one step on the logits; those of edges that are not in use, or of nodes at rest, stay as they are."""
        receiver, weight = data.edge_index[1], data.edge_weight
        mean = scatter(weight * gradient, receiver, dim_size=data.num_nodes)
        to_logit = weight * (gradient - mean[receiver])
        before, data = data, copy.copy(data)
        data.edge_logit = data.edge_logit.clone()
        state = {}
        for slot in self.optimizer.slots:
            name = f"edge_logit_{slot}"
            data[name] = data[name].clone()
            state[slot] = [data[name]]
        self.optimizer.update([data.edge_logit], [to_logit], state, data.weigher_step)
        if (in_use := edges_in_use(data)) is not None:
            learned = in_use & data.trains[receiver]
            for name in ("edge_logit", *(f"edge_logit_{slot}" for slot in self.optimizer.slots)):
                data[name] = torch.where(learned, data[name], before[name])
        data.weigher_step = data.weigher_step + 1
        return data
