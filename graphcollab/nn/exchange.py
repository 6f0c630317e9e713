"""The exchange slot: a base plus a weighted sum of what nodes send."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.comm import Relation
from graphcollab.nn.at_work import edges_in_use, weights_in_use
from graphcollab.nn.mix import Mix
from graphcollab.ops import edge_products

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["Exchange", "NoExchange", "ServerAverage"]

_MIX = Mix()  # it has no state, and making one takes milliseconds

TERMS = ("zero", "x", "x_start", "update")


@dataclass(frozen=True)
class NoExchange:
    """Nodes keep what they learned themselves."""

    part = "all"
    along_edges = False

    def init(self, data: Data, env: Env) -> Data:
        """Nothing to create."""
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Leave every model as it is."""
        return data

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """There is no dependence on weights."""
        return torch.zeros_like(data.edge_weight)


@dataclass(frozen=True)
class Exchange:
    r"""A base plus a weighted sum over the edges a node listens along.

    .. math::
        x_i \leftarrow b_i + \sum_{j \to i} w_{ij} m_j

    Base and message are each one of ``"x"`` (after the local update), ``"x_start"`` (before it), ``"update"``
    (x − x_start) and ``"zero"``. Model averaging is ``Exchange("zero", "x")``, L2C ``Exchange("x_start", "update")``,
    DPSGD ``Exchange("update", "x_start")``.

    Nodes at rest take no part. What a node would have given senders that do not serve goes to its own model, if it has
    a self-loop, else its other weights grow in proportion; a node that does not train keeps its model.

    Args:
        base: b.
        message: m.
        part: Part of the model that is exchanged; the rest stays with the node.
        neighbors_only: Leave self-loops out of the sum (their weights still take part in the normalisation).
        buffers: ``"keep"``: every node keeps its buffers (running statistics); ``"mix"``: average them with the
            same weights.

    Shapes:
        Reads ``x`` and ``x_start`` (K rows each) and ``edge_weight`` [E]; writes ``x``, and ``x_local``, the models
        before the exchange.

    Raises:
        ValueError: If base, message or buffers is not one of those named.
    """

    base: str = "zero"
    message: str = "x"
    part: str = "all"
    neighbors_only: bool = False
    buffers: str = "keep"
    along_edges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.base not in TERMS or self.message not in TERMS[1:]:
            raise ValueError(
                f"base must be one of {TERMS} and message one of {TERMS[1:]}, got {self.base}, {self.message}"
            )
        if self.buffers not in ("keep", "mix"):
            raise ValueError(f"buffers must be 'keep' or 'mix', got {self.buffers!r}")

    def init(self, data: Data, env: Env) -> Data:
        """Check that the part can be shared."""
        data.x.part(self.part)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Exchange and mix."""
        message = _term(data, self.message, self.part)
        edge_index = data.edge_index
        shares, keeps = weights_in_use(data, edges_in_use(data))
        weight = self._without_loops(shares, edge_index)
        mixed = _MIX(env.comm.halo(message, edge_index), edge_index, weight, (len(message), data.num_nodes))
        if self.base != "zero":
            mixed = mixed + _term(data, self.base, self.part)
        new = data.x.with_part(self.part, _unless(keeps, mixed, data.x.part(self.part)))
        if self.buffers == "mix" and all("buffers" in spec.parts for spec in data.x.specs):
            old = data.x.part("buffers")
            new = new.with_part("buffers", _unless(keeps, _MIX(old, edge_index, weight), old))
        crossing = (edge_index[0] != edge_index[1]) & (weight != 0)
        data = env.comm.count(data, edge_index[0, crossing], message.shape[1])
        data = copy.copy(data)
        data.x, data.x_local = new, data.x
        return data

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Return ∂L_i/∂w_ij = ⟨∂L_i/∂x_i, m_j⟩ for every edge, [E]; call it in the round of the exchange."""
        sent = copy.copy(data)
        sent.x = data.x_local
        message = env.comm.halo(_term(sent, self.message, self.part), data.edge_index)
        gradient = self._without_loops(edge_products(cotangent, message, data.edge_index), data.edge_index)
        in_use = edges_in_use(data)
        if in_use is None:
            return gradient
        given = copy.copy(data)
        given.edge_weight = data.edge_weight.detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(weights_in_use(given, in_use)[0], given.edge_weight, gradient)
        return gradient

    def _without_loops(self, values: Tensor, edge_index: Tensor) -> Tensor:
        return values.masked_fill(edge_index[0] == edge_index[1], 0) if self.neighbors_only else values


@dataclass(frozen=True)
class ServerAverage:
    """Averages through server nodes: nodes at work send up, every node takes the average down.

    A bipartite mix up and one row down in place of a complete graph, so the cost is K d and not K² d. Weights are
    sample counts, normalised over the nodes at work (those that both train and serve). A server that hears from nobody
    changes nothing. A node that sends is charged d floats up and d down; the others get the average only to be judged
    by it.

    Args:
        part: Part of the model that is averaged.
        buffers: ``"mix"``: buffers (running statistics) are averaged too; ``"keep"``: they stay with the node.
    """

    part: str = "all"
    buffers: str = "mix"
    along_edges: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.buffers not in ("keep", "mix"):
            raise ValueError(f"buffers must be 'keep' or 'mix', got {self.buffers!r}")

    def init(self, data: Data, env: Env) -> Data:
        """Connect every node to one server."""
        data.x.part(self.part)
        data = copy.copy(data)
        node = torch.arange(data.num_nodes, device=data.node_id.device)
        counts = env.engine.tasks.sizes("train").to(data.x.tensors[0].dtype)
        data.server = Relation(torch.stack([node, torch.zeros_like(node)]), counts, (data.num_nodes, 1))
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Average up, send down."""
        server = data.server
        node, place = server.edge_index
        count = server.values * (data.trains & data.serves)[node]
        total = torch.zeros(server.size[1], dtype=count.dtype, device=count.device).index_add_(0, place, count)
        weight = count / total[place].clamp(min=torch.finfo(count.dtype).tiny)
        heard = (total > 0)[place]
        new = data.x
        parts = [self.part] + ["buffers"] * (self.buffers == "mix" and all("buffers" in s.parts for s in new.specs))
        width = 0
        for part in parts:
            old = new.part(part)
            average = _MIX(env.comm.halo(old, server.edge_index), server.edge_index, weight, server.size)
            reached = torch.zeros_like(data.isolated).index_fill_(0, node[heard], True) & ~data.isolated
            new = new.with_part(part, _send_down(average, server, reached, old))
            width += old.shape[1]
        data = env.comm.count(data, node[count > 0], 2 * width)
        data.x, data.x_local = new, data.x
        return data

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Return zeros: the average does not depend on edge weights."""
        return torch.zeros_like(data.edge_weight)


def _send_down(average: Tensor, server: Relation, reached: Tensor, old: Tensor) -> Tensor:
    """Return every node's row [K, P]: its server's average, or its own if not reached.

    Where one server reaches all, the average is stored once for all of them.
    """
    if server.size[1] == 1 and bool(reached.all()):
        return average.expand(len(old), -1)
    node, place = server.edge_index
    home = torch.zeros(len(old), dtype=torch.int64, device=place.device).index_copy_(0, node, place)
    return torch.where(reached[:, None], average[home], old)


def _unless(keeps: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """Return the new rows, but the old ones of nodes that keep theirs."""
    return new if keeps is None else torch.where(keeps[:, None], old, new)


def _term(data: Data, name: str, part: str) -> Tensor:
    """Return one of the terms of an exchange, [K, P_part]."""
    if name == "update":
        return data.x.part(part) - data.x_start.part(part)
    return data[name].part(part)
