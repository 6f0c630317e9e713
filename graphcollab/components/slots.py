"""The bases of the slots of a method, and what weighs edges to newcomers."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.piece import Origin, Piece
from graphcollab.components.env import Env
from graphcollab.engine.stack import Stacks

__all__ = ["Exchanger", "Judge", "Local", "Rewiring", "Stop", "WeighNew", "Weigher"]

WeighNew: TypeAlias = Callable[[Data, Env, Callable[[Tensor], Tensor]], Tensor]
"""Weighs edges to newcomers, [E], given their graph, env, and ∂L_i/∂w_ij of the mixed models' validation losses at
weights [E]."""


@dataclass(frozen=True)
class Local(Piece, ABC):
    """Base of the local slot: what nodes do on their own data."""

    crosses: ClassVar[bool] = False
    """Whether nodes hear of each other in the local update already."""

    models: ClassVar[int] = 1
    """How many models a node trains in it: its own, and those beside it."""

    @abstractmethod
    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data after the local update of all nodes whose ``trains`` is set."""

    def local_steps(self, sizes: Tensor) -> Tensor:
        """Return how many steps nodes with so many training samples take in a round, [K]; NaN where it is not known."""
        return torch.full_like(sizes, torch.nan, dtype=torch.float64)

    def alone(self, data: Data, env: Env) -> Data:
        """Return the data after the step that nodes take by themselves: another one where the update `crosses`."""
        return self(data, env)


@dataclass(frozen=True)
class Weigher(Piece, ABC):
    """Base of the weigh slot: what every edge weighs."""

    purpose: ClassVar[str] = "to find weights by"
    settling: ClassVar[int] = 20
    """Rounds after which weights that are learned, and start equal, should differ if they ever do."""

    @property
    def learns(self) -> bool:
        """Whether `learn` is to be called after the exchange."""
        return False

    @property
    def origin(self) -> Origin:
        """Where weights come from: ``"fixed"`` by the graph and sample counts, or ``"computed"`` anew in every round.

        They may also be ``"learned"`` from round to round, or ``"kept"`` as an earlier phase has left them.
        """
        return "learned" if self.learns else "computed"

    @property
    def reads_scores(self) -> bool:
        """Whether it weighs by ``edge_score``, the round's similarities, which something else must have measured."""
        return False

    def rests(self, data: Data) -> bool:
        """Tell whether nodes listen to nobody in the round at hand, by rule."""
        return False

    def hears(self, data: Data, env: Env) -> Sequence[Tensor]:
        """Return rows of owned nodes, [k, P] each, that it reads along all edges: they come with the exchange's."""
        return ()

    @abstractmethod
    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data with the round's ``edge_weight`` [E]."""

    def for_newcomers(self, data: Data, edge_index: Tensor, names: Sequence[str]) -> WeighNew | None:
        """Return what weighs edges to nodes that come after training; None where that cannot be said of such nodes.

        Edges are [2, E]: senders are the K nodes of the data, then the newcomers; receivers are newcomers, numbered
        from 0. Errors call nodes by their names.
        """
        return None

    def learn(self, data: Data, env: Env, gradient: Tensor) -> Data:
        """Step on the weigher's own parameters, given ∂L_i/∂w_ij of the validation losses for every edge, [E]."""
        return data


@dataclass(frozen=True)
class Exchanger(Piece, ABC):
    """Base of the exchange slot: how models are mixed, and how that depends on the edge weights."""

    mixes: ClassVar[bool] = True  # whether it mixes models that began as nodes' own initial ones

    @property
    @abstractmethod
    def along_edges(self) -> bool: ...

    @property
    def part(self) -> str:
        """Part of the model that is mixed."""
        return "all"

    @property
    def serves_start(self) -> bool:
        """Whether others hear models as they were when the round began."""
        return False

    @property
    def serves_rest(self) -> bool:
        """Whether nodes at rest are given models too, as those are that have stopped."""
        return False

    def hears(self, data: Data, env: Env) -> Sequence[Tensor]:
        """Return the rows of owned nodes, [k, P] each, that it is going to mix along all edges."""
        return ()

    @abstractmethod
    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data with mixed models ``x``, and those from before as ``x_local``."""

    def at_server(self, data: Data) -> Tensor | None:
        """Return who sends to a server in this round, [K]; None if models travel along edges."""
        return None

    def shares(self, data: Data) -> Tensor:
        """Return what every edge weighs in this round, [E], without the exchange's step size: 0 if it is not in use."""
        weight: Tensor = data.edge_weight
        return weight

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Return ∂L/∂w for every edge, [E], given ∂L/∂x of every node's mixed part, [K, P_part]; zeros by default."""
        return torch.zeros_like(data.edge_weight)


@dataclass(frozen=True)
class Rewiring(Piece):
    """Base of the rewire slot: who listens to whom, and who works, in the next round. This one changes nothing."""

    weighs: ClassVar[bool] = False  # whether its edges, found once, are what tells nodes apart
    finds_peers: ClassVar[bool] = False
    """Whether edges are drawn anew every round; a graph that is given then says which may be drawn."""

    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data with the next round's edges and nodes at work."""
        return data

    def near_newcomers(self, data: Data, new: Data, env: Env, both: Env, edge_index: Tensor) -> Tensor:
        """Return which edges from K nodes (``data``) to newcomers (``new``) are in use where a server averages, [E].

        Edges are [2, E]; ``env`` is the newcomers', ``both`` that of the K nodes, then the newcomers.
        """
        return torch.ones_like(edge_index[0], dtype=torch.bool)


@dataclass(frozen=True)
class Judge(Piece):
    """Base of the judge slot: every node serves, and is judged by, the model that one field has for it.

    The ``field`` is ``"x"``: the model after the exchange; ``"x_local"``: before mixing, for methods that mix first and
    train then; ``"x_personal"``: `FitPersonal`'s; ``"best_x"``: the best that `EarlyStopping` has kept; or another
    field with a model per node that a piece keeps. Where there is no such field yet, nodes are judged by ``"x"``.
    """

    field: str = dataclasses.field(default="x", kw_only=True)

    @property
    def reads(self) -> tuple[str, ...]:
        """Fields with models that other pieces, or the loop, must keep for it; one of the round then outlives it."""
        return (self.field,)

    def __call__(self, data: Data, env: Env) -> Stacks:
        models: Stacks = data.get(self.field, data.x)
        return models


@dataclass(frozen=True)
class Stop(Piece):
    """Base of the stop slot: when a node has learned enough. This one never stops anybody."""

    purpose: ClassVar[str] = "to know when to stop"
    stops: ClassVar[bool] = False
    """Whether nodes may be stopped."""

    def before(self, data: Data, env: Env) -> Data:
        """Return the data after a look at what nodes learned, before models are merged."""
        return data

    def after(self, data: Data, env: Env) -> Data:
        """Return the data after a look at what came of merging."""
        return data
