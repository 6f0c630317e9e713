"""Logits learned from validation losses, one for every edge: L2C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter, softmax

from graphcollab._base.piece import Field, updated
from graphcollab.components.at_work import edges_in_use, serving
from graphcollab.components.env import Env
from graphcollab.components.slots import Weigher, WeighNew
from graphcollab.engine import AdamW
from graphcollab.engine.optimizer import RowOptimizer


@dataclass(frozen=True)
class LearnedLogits(Weigher):
    r"""Softmax of learned logits, one for every edge.

    .. math::
        \frac{\partial L}{\partial a_{ij}} = w_{ij} \Big( s_j - \sum_l w_{il} s_l \Big), \qquad
        s_j = \frac{\partial L}{\partial w_{ij}}

    Every logit has its own Adam state. See `l2c`.

    Args:
        optimizer: Update of the logits. Default: AdamW, lr 0.1, weight decay 0.01. The paper's is Adam, whose coupled
            decay dominates once validation gradients are small, and makes all weights uniform again.
        own: ``"largest"`` (default): after every step, a node's own logit is raised to the largest of its row, a
            deviation: if two nodes follow each other more than themselves, each follows updates that nothing corrects
            at its own model, and their models drift apart. ``"softmax"``: the paper's form; the own model is treated
            like all others.

    Shapes:
        Keeps ``edge_logit`` [E] and one ``edge_logit_<slot>`` [E] per slot of the optimizer; writes ``edge_weight``
        [E].
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_logit", "per_edge", "logits of the weights", known_to="receiver"),
        Field("edge_logit_*", "per_edge", "the state of the logits' optimizer", known_to="receiver"),
        Field("weigher_step", "scalar", "steps of the logits so far"),
    )
    needs: ClassVar[tuple[str, ...]] = ("val",)
    learns: ClassVar[bool] = True

    optimizer: RowOptimizer = field(default_factory=lambda: AdamW(lr=0.1, weight_decay=0.01))
    own: Literal["largest", "softmax"] = "largest"

    def init(self, data: Data, env: Env) -> Data:
        zeros = {name: torch.zeros_like(data.edge_index[0], dtype=data.x.dtype) for name in self._names()}
        return updated(data, weigher_step=0, **zeros)

    def __call__(self, data: Data, env: Env) -> Data:
        return updated(data, edge_weight=softmax(data.edge_logit, data.edge_index[1], num_nodes=data.num_nodes))

    def learn(self, data: Data, env: Env, gradient: Tensor) -> Data:
        """Logits of edges that are not in use, or of nodes at rest, stay unchanged."""
        (sender, receiver), weight, names = data.edge_index, data.edge_weight, self._names()
        mean = scatter(weight * gradient, receiver, dim_size=data.num_nodes)
        learned = [data[name].clone() for name in names]
        logit, *moments = learned
        state = {slot: [moment] for slot, moment in zip(self.optimizer.slots, moments, strict=True)}
        self.optimizer.update([logit], [weight * (gradient - mean[receiver])], state, data.weigher_step)
        if edges_in_use(data) is not None:
            moves = data.trains[receiver] & (serving(data)[sender] | (sender == receiver))
            learned = [torch.where(moves, new, data[name]) for name, new in zip(names, learned, strict=True)]
        if self.own == "largest":
            largest = scatter(learned[0], receiver, dim_size=data.num_nodes, reduce="max")
            own = (sender == receiver) & data.trains[receiver]
            learned[0] = torch.where(own, largest[receiver], learned[0])
        return updated(data, weigher_step=data.weigher_step + 1, **dict(zip(names, learned, strict=True)))

    def for_newcomers(self, data: Data, edge_index: Tensor, names: Sequence[str]) -> WeighNew:
        """Newcomers learn logits for their edges in as many steps as the old nodes have taken."""

        def weigh(new: Data, env: Env, gradient: Callable[[Tensor], Tensor]) -> Tensor:
            count = data.num_nodes + new.num_nodes
            graph = Data(x=new.x, edge_index=edge_index + torch.tensor([[0], [data.num_nodes]]), num_nodes=count)
            graph.trains = graph.serves = torch.ones(count, dtype=torch.bool)
            graph = self(self.init(graph, env), env)
            for _ in range(data.weigher_step):
                graph = self(self.learn(graph, env, gradient(graph.edge_weight)), env)
            weight: Tensor = graph.edge_weight
            return weight

        return weigh

    def _names(self) -> list[str]:
        return ["edge_logit", *(f"edge_logit_{slot}" for slot in self.optimizer.slots)]
