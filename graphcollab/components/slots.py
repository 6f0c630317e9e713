"""The base classes of the slots of a method, and the type of weights for newcomers."""

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
"""Function that weighs edges to newcomers, [E], given their graph, env, and ∂L_i/∂w_ij of the mixed models' validation
losses at weights [E]."""


@dataclass(frozen=True)
class Local(Piece, ABC):
    """Base of the local slot: the local update of nodes on their own data."""

    crosses: ClassVar[bool] = False
    """Whether nodes already hear each other during the local update."""

    models: ClassVar[int] = 1
    """Number of models that a node trains: its own, and any auxiliary ones."""

    @abstractmethod
    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data after the local update of all nodes whose ``trains`` is set."""

    def local_steps(self, sizes: Tensor) -> Tensor:
        """Return the local steps per round of nodes with ``sizes`` training samples, [K]; NaN if unknown."""
        return torch.full_like(sizes, torch.nan, dtype=torch.float64)

    def alone(self, data: Data, env: Env) -> Data:
        """Return the data after a step that nodes take by themselves: another one than the update if that `crosses`."""
        return self(data, env)


@dataclass(frozen=True)
class Weigher(Piece, ABC):
    """Base of the weigh slot: the weight of every edge."""

    purpose: ClassVar[str] = "to find weights by"
    settling: ClassVar[int] = 20
    """Number of rounds after which learned weights that start equal should differ, if they ever do."""

    @property
    def learns(self) -> bool:
        """Whether to call `learn` after the exchange."""
        return False

    @property
    def origin(self) -> Origin:
        """Origin of the weights: ``"fixed"`` by the graph and sample counts, or ``"computed"`` anew in every round.

        They may also be ``"learned"`` from round to round, or ``"kept"`` from an earlier phase.
        """
        return "learned" if self.learns else "computed"

    @property
    def reads_scores(self) -> bool:
        """Whether weights depend on ``edge_score``, the round's similarities, which another piece must measure."""
        return False

    def rests(self, data: Data) -> bool:
        """Return whether nodes listen to no other node in the current round, by rule."""
        return False

    def hears(self, data: Data, env: Env) -> Sequence[Tensor]:
        """Return rows of owned nodes, [k, P] each, to be read along all edges: they travel with the exchange's."""
        return ()

    @abstractmethod
    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data with the round's ``edge_weight`` [E]."""

    def for_newcomers(self, data: Data, edge_index: Tensor, names: Sequence[str]) -> WeighNew | None:
        """Return a function that weighs edges to nodes that join after training; None if that is not defined.

        Edges are [2, E]: senders are the K nodes of the data, then the newcomers; receivers are newcomers, numbered
        from 0. Errors refer to nodes by name.
        """
        return None

    def learn(self, data: Data, env: Env, gradient: Tensor) -> Data:
        """Update the weigher's own parameters, given ∂L_i/∂w_ij of the validation losses for every edge, [E]."""
        return data


@dataclass(frozen=True)
class Exchanger(Piece, ABC):
    """Base of the exchange slot: how models are mixed, and how that depends on the edge weights."""

    @property
    @abstractmethod
    def along_edges(self) -> bool: ...

    @property
    def part(self) -> str:
        """Part of the model that is mixed."""
        return "all"

    @property
    def serves_start(self) -> bool:
        """Whether others hear the models from the start of the round."""
        return False

    @property
    def serves_rest(self) -> bool:
        """Whether nodes at rest get models too, including those that have stopped."""
        return False

    def hears(self, data: Data, env: Env) -> Sequence[Tensor]:
        """Return the rows of owned nodes, [k, P] each, that will be mixed along all edges."""
        return ()

    @abstractmethod
    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data with mixed models ``x``, and the models before mixing as ``x_local``."""

    def at_server(self, data: Data) -> Tensor | None:
        """Return which nodes send to a server in this round, [K]; None if models travel along edges."""
        return None

    def shares(self, data: Data) -> Tensor:
        """Return the weight of every edge in this round, [E], without the exchange's step size: 0 if not in use."""
        weight: Tensor = data.edge_weight
        return weight

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Return ∂L/∂w for every edge, [E], given ∂L/∂x of every node's mixed part, [K, P_part]; zeros by default."""
        return torch.zeros_like(data.edge_weight)


@dataclass(frozen=True)
class Rewiring(Piece):
    """Base of the rewire slot: edges and participating nodes of the next round. This class changes nothing."""

    weighs: ClassVar[bool] = False  # whether its edges, found once, are what distinguishes nodes
    finds_peers: ClassVar[bool] = False
    """Whether edges are drawn anew every round; a given graph then defines which may be drawn."""

    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data with the edges and participating nodes of the next round."""
        return data

    def near_newcomers(self, data: Data, new: Data, env: Env, both: Env, edge_index: Tensor) -> Tensor:
        """Return which edges from K nodes (``data``) to newcomers (``new``) are in use if a server averages, [E].

        Edges are [2, E]; ``env`` is the newcomers', ``both`` that of the K nodes, then the newcomers.
        """
        return torch.ones_like(edge_index[0], dtype=torch.bool)


@dataclass(frozen=True)
class Judge(Piece):
    """Base of the judge slot: every node serves, and is evaluated with, its model in one field.

    The ``field`` is ``"x"``: the model after the exchange; ``"x_local"``: before mixing, for methods that mix first and
    then train; ``"x_personal"``: that of `FitPersonal`; ``"best_x"``: the best that `EarlyStopping` has kept; or
    another field with a model per node that a piece keeps. As long as there is no such field, nodes are evaluated with
    ``"x"``.
    """

    field: str = dataclasses.field(default="x", kw_only=True)

    @property
    def reads(self) -> tuple[str, ...]:
        """Fields with models that other pieces, or the loop, must keep for it; those of a round then outlive it."""
        return (self.field,)

    def __call__(self, data: Data, env: Env) -> Stacks:
        models: Stacks = data.get(self.field, data.x)
        return models


@dataclass(frozen=True)
class Stop(Piece):
    """Base of the stop slot: early stopping of nodes. This class never stops a node."""

    purpose: ClassVar[str] = "to know when to stop"
    stops: ClassVar[bool] = False
    """Whether nodes may be stopped."""

    def before(self, data: Data, env: Env) -> Data:
        """Return the data after a check of the locally trained models, before merging."""
        return data

    def after(self, data: Data, env: Env) -> Data:
        """Return the data after a check of the merged models."""
        return data
