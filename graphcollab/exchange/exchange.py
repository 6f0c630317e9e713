"""The exchange slot: a base plus a weighted sum of what nodes send."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.control.at_work import edges_in_use, weights_in_use
from graphcollab.exchange.buffers import buffers_travel, check_buffers
from graphcollab.piece import Exchanger

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["Exchange", "NoExchange"]


TERMS = ("zero", "x", "x_start", "update")


@dataclass(frozen=True)
class NoExchange(Exchanger):
    """Nodes keep what they learned themselves."""

    def __call__(self, data: Data, env: Env) -> Data:
        """Leave every model as it is."""
        return data

    def at_server(self, data: Data) -> Tensor | None:
        """Nobody sends anything."""
        return torch.zeros_like(data.trains)


@dataclass(frozen=True)
class Exchange(Exchanger):
    r"""A base plus a weighted sum over the edges a node listens along.

    .. math::
        x_i \leftarrow b_i + s \sum_{j \to i} w_{ij} m_j \qquad \text{or} \qquad
        x_i \leftarrow b_i + s \sum_{j \to i} w_{ij} (m_j - a_i)

    Base and message are each one of ``"x"`` (after the local update), ``"x_start"`` (before it), ``"update"``
    (x − x_start) and ``"zero"``. Model averaging is ``Exchange("zero", "x")``, L2C ``Exchange("x_start", "update")``,
    DPSGD ``Exchange("update", "x_start")``. The second form pulls towards the senders: CoBo's step along the weighted
    Laplacian is ``Exchange("x", "x_start", against="x_start", scale=ηρ)``.

    Nodes at rest take no part. What a node would have given senders that do not serve goes to its own model, if it has
    a self-loop, else its other weights grow in proportion; under the second form such senders pull at nothing. A node
    that does not train keeps its model.

    Args:
        base: b.
        message: m.
        part: Part of the model that is exchanged; the rest stays with the node.
        neighbors_only: Leave self-loops out of the sum (their weights still take part in the normalisation).
        buffers: ``"keep"``: every node keeps its buffers (running statistics); ``"mix"``: average them with the
            same weights.
        against: a, one of ``"x"``, ``"x_start"`` and ``"update"``. Default: the first form.
        scale: s.

    Shapes:
        Reads ``x`` and ``x_start`` (K rows each) and ``edge_weight`` [E]; writes ``x``, and ``x_local``, the models
        before the exchange.

    Raises:
        ValueError: If base, message, buffers or against is not one of those named, or the scale is not a positive
            finite number.
    """

    base: str = "zero"
    message: str = "x"
    part: str = "all"
    neighbors_only: bool = False
    buffers: str = "keep"
    against: str | None = None
    scale: float = 1.0
    along_edges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.base not in TERMS or self.message not in TERMS[1:]:
            raise ValueError(
                f"base must be one of {TERMS} and message one of {TERMS[1:]}, got {self.base}, {self.message}"
            )
        check_buffers(self.buffers)
        if self.against not in (None, *TERMS[1:]):
            raise ValueError(f"against must be one of {TERMS[1:]} or None, got {self.against!r}")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be a positive finite number, got {self.scale}")

    @property
    def serves_start(self) -> bool:
        """Whether others hear models as they were when the round began."""
        return self.message in ("x_start", "update")

    def init(self, data: Data, env: Env) -> Data:
        """Check that the part can be shared."""
        data.x.part(self.part)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Exchange and mix."""
        message = _term(data, self.message, self.part)
        edge_index = data.edge_index
        shares, keeps = self._weights_in_use(data, edges_in_use(data))
        weight = self._without_loops(shares, edge_index)
        keeps = None if keeps is None else env.plane.mine(keeps)
        if self.against is None:
            mixed = env.plane.mix(message, weight, edge_index)
        else:
            mixed = env.plane.pull(message, _term(data, self.against, self.part), weight, edge_index)
        if self.base != "zero":
            mixed = mixed + _term(data, self.base, self.part)
        new = data.x.with_part(self.part, _unless(keeps, mixed, data.x.part(self.part)))
        width = message.shape[1]
        if buffers_travel(data.x, self.buffers):
            old = data.x.part("buffers")
            if self.against is None:
                mixed = env.plane.mix(old, weight, edge_index)
            else:
                mixed = old + env.plane.pull(old, old, weight, edge_index)
            new = new.with_part("buffers", _unless(keeps, mixed, old))
            width += old.shape[1]
        data = copy.copy(self._count(data, env, weight, width))
        data.x, data.x_local = new, data.x
        return data

    def at_server(self, data: Data) -> Tensor | None:
        """Models travel along the edges."""
        return None

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Return ∂L_i/∂w_ij = ⟨∂L_i/∂x_i, m_j⟩ for every edge, [E]; call it in the round of the exchange."""
        sent = copy.copy(data)
        sent.x = data.x_local
        gradient = env.plane.products(cotangent, _term(sent, self.message, self.part), data.edge_index)
        if self.against is not None:
            own = env.plane.gather((cotangent * _term(sent, self.against, self.part)).sum(1))
            gradient = gradient - own[data.edge_index[1]]
        gradient = self._without_loops(gradient, data.edge_index)
        in_use = edges_in_use(data)
        if in_use is None:
            return gradient if self.scale == 1 else self.scale * gradient
        given = copy.copy(data)
        given.edge_weight = data.edge_weight.detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self._weights_in_use(given, in_use)[0], given.edge_weight, gradient)
        return gradient

    def _count(self, data: Data, env: Env, weight: Tensor, width: int) -> Data:
        """Count what has travelled: ``width`` floats along every edge between two nodes that weighs something."""
        sender, receiver = data.edge_index
        sent = (sender != receiver) & (weight != 0)
        return env.plane.charge(data, sender[sent], width, at=receiver[sent])

    def _weights_in_use(self, data: Data, in_use: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return every edge's factor in the sum, [E], and which nodes keep their model, [K], if some do."""
        if self.against is None or in_use is None:
            weight, keeps = weights_in_use(data, in_use)
        else:
            weight, keeps = data.edge_weight.masked_fill(~in_use, 0), ~data.trains
            weight = weight.masked_fill(keeps[data.edge_index[1]], 0)
        return (weight if self.scale == 1 else self.scale * weight), keeps

    def _without_loops(self, values: Tensor, edge_index: Tensor) -> Tensor:
        return values.masked_fill(edge_index[0] == edge_index[1], 0) if self.neighbors_only else values


def _against(mixed: Tensor, own: Tensor, weight: Tensor, edge_index: Tensor) -> Tensor:
    """Return Σ_j w_ij (m_j - a_i), [K, P_part], given Σ_j w_ij m_j and a."""
    total = scatter(weight, edge_index[1], dim_size=len(own))
    return torch.addcmul(mixed, own, total[:, None].to(own.dtype), value=-1)


def _unless(keeps: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """Return the new rows, but the old ones of nodes that keep theirs."""
    return new if keeps is None else torch.where(keeps[:, None], old, new)


def _term(data: Data, name: str, part: str) -> Tensor:
    """Return one of the terms of an exchange, [K, P_part]."""
    if name == "update":
        return data.x.part(part) - data.x_start.part(part)
    return data[name].part(part)
