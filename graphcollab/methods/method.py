"""`Method`: a value with named slots; one round runs the slots in order."""

from __future__ import annotations

import copy
import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab._base.device import beside
from graphcollab._base.errors import (
    ConflictError,
    MismatchError,
    MissingError,
    TooFewError,
    UnknownError,
    UnsupportedError,
)
from graphcollab._base.piece import Field, Piece, updated
from graphcollab._base.settings import check_settings
from graphcollab.comm.relation import Relation
from graphcollab.components import (
    ApplyTransform,
    Env,
    Exchange,
    Exchanger,
    Judge,
    Layer,
    Local,
    NoExchange,
    NoWeights,
    Rewiring,
    Stop,
    Weigher,
)
from graphcollab.components.allowed import allowed_only
from graphcollab.components.at_work import apply_participation, count_messages, restore_participation
from graphcollab.components.guard import screen, settle, settle_validation, sift, unless_ruined, without_refused
from graphcollab.components.state import LOOP, end_round, fields_of, start_round
from graphcollab.data.tasks import Tasks
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.engine.stack import Stacks

__all__ = ["Method", "NonFiniteLossError", "Playable", "in_step"]

F = TypeVar("F", bound=Callable[..., Any])


class Playable(ABC):
    """Interface that `Method` and `Phases` share; all of it follows from the pieces."""

    @abstractmethod
    def walk(self) -> Iterator[Piece]:
        """Yield all pieces, including those nested in other pieces."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields that the pieces keep in the ``Data``."""
        return fields_of(self.walk())

    @property
    def along_edges(self) -> bool:
        """Whether models travel along the graph's edges; if not, a run needs no edges."""
        return any(piece.along_edges for piece in self.walk())

    @property
    def beyond_edges(self) -> bool:
        """Whether connected nodes share more than travels along edges: a server's average, or common encoders."""
        return any(piece.beyond_edges for piece in self.walk())

    @property
    def embeds(self) -> bool:
        """Whether a piece reads latents, which models must then provide (`SplitModel` does)."""
        return any(piece.embeds for piece in self.walk())

    @property
    def models_trained(self) -> int:
        """Number of models that a node trains in the local slot: its own and any auxiliary ones."""
        return max(piece.models for piece in self.walk() if isinstance(piece, Local))

    @abstractmethod
    def local_steps(self, sizes: Tensor, rounds: int, start: int = 0) -> Tensor:
        """Return the local steps of nodes with ``sizes`` training samples, [K], from round ``start`` to ``rounds``."""


def in_step(compute: F) -> F:
    """Make an error in one process fail all of them with the same error, and forget received rows afterwards."""

    @functools.wraps(compute)
    def met(self: Any, data: Data, env: Env) -> Any:
        try:
            with env.plane.raise_on_all():
                return compute(self, data, env)
        finally:
            env.plane.forget()

    return cast(F, met)


@dataclass(frozen=True)
class Method(Playable):
    """Hyper-parameters of a collaboration method, slot by slot.

    A round is local → weigh → exchange → learn → rewire. All state that outlives a round is in the ``Data``, created by
    the pieces' ``init``; a method itself has no state, and a checkpoint is the ``Data``.

    Args:
        name: The method's name, for tables.
        local: Local update of a node on its own data.
        weigh: Computation of the edge weights; a learned weigher gets ∂L_i/∂w_ij of the validation losses.
        exchange: What is mixed, and the base to which it is added.
        rewire: Edges and participating nodes of the next round. A PyG transform is applied every round
            (`ApplyTransform`).
        judge: Models that nodes serve and are evaluated with.
        stop: Early stopping of nodes, by their models before and after mixing.
        prepare: Transform applied to the graph before the first round, for example to add self-loops.

    Raises:
        ValueError: If pieces disagree on the exchanged part of the model or on the treatment of buffers, if the
            evaluated models are kept by no piece, if stopped nodes would still be given models, or if weights are
            missing, or are learned although the exchange gives no gradients for them.
    """

    name: str
    local: Local
    weigh: Weigher = field(default_factory=NoWeights)
    exchange: Exchanger = field(default_factory=NoExchange)
    rewire: Rewiring | BaseTransform = field(default_factory=Rewiring)
    judge: Judge = field(default_factory=Judge)
    stop: Stop = field(default_factory=Stop)
    prepare: BaseTransform | None = None

    def __post_init__(self) -> None:
        if isinstance(self.rewire, BaseTransform):
            object.__setattr__(self, "rewire", ApplyTransform(self.rewire))
        check_settings(self)
        self._check_stop()
        self._check_agreement()
        self._check_judge()
        self._check_learning()

    @property
    def part(self) -> str:
        """Part of the model that is mixed, defined by the exchange."""
        return self.exchange.part

    @property
    def finds_peers(self) -> bool:
        """Whether edges are drawn anew every round; a given graph then defines the edges that may be drawn."""
        return self.rewire.finds_peers

    @property
    def stops(self) -> bool:
        """Whether nodes may stop early."""
        return self.stop.stops

    def walk(self) -> Iterator[Piece]:
        return (piece for slot in self._slots() for piece in slot.walk())

    def should_stop(self, data: Data) -> bool:
        """Return whether all nodes have stopped, so that nothing is left to do."""
        return self.stops and bool((data.stopped | data.isolated).all())

    def replace(self, **slots: Any) -> Method:
        """Return a copy of the method with other slots; no state is shared."""
        return dataclasses.replace(self, **slots)

    def local_steps(self, sizes: Tensor, rounds: int, start: int = 0) -> Tensor:
        return max(rounds - start, 0) * self.local.local_steps(sizes)

    def last(self, played: int) -> Method:
        """Return the method that played the last round: this one; `Phases` have several."""
        return self

    def check(self, tasks: Tasks) -> None:
        """Check that nodes have the data the method needs; a ValueError names a node without samples of a split."""
        for piece in self.walk():
            for split in piece.needs:
                tasks.require(split, f"{self.name} needs {piece.purpose}")

    @in_step
    def start(self, data: Data, env: Env) -> Data:
        """Create the state that the pieces keep from round to round; all nodes except isolated ones participate."""
        data = copy.copy(data)
        if env.participation is not None:
            env.participation.check(data)
            data.present = env.participation.members(data, data.round)
        there = torch.ones_like(data.isolated) if env.plane.complete else env.plane.there
        data.trains = data.serves = ~data.isolated & there
        data.phase_start = data.round
        data = screen(data, self.local, env)
        if self.weigh.learns:
            data.x.part(self.part)  # check that the part is contiguous, as gradients with respect to it are needed
            if isinstance(self.exchange, Layer):
                self.exchange.require_weights(data)
        if self.prepare is not None:
            data = allowed_only(self.prepare(data))
        for piece in self._slots():
            data = piece.init(data, env)
        without_refused(data, env)
        self._check_at_work(data, env)
        if not env.plane.complete:  # nodes that are lost now may come back
            data.trains, data.serves = (mask | ~(data.isolated | there) for mask in (data.trains, data.serves))
        return allowed_only(data)

    @in_step
    def play(self, data: Data, env: Env) -> Data:
        """Play one round."""
        last, fields = data, self.fields
        env.plane.start_round()
        data = without_refused(start_round(data, fields), env)
        data.x_start = data.x
        before = data
        data = began = sift(apply_participation(data, env), self.local, env)
        data = settle(self.local(data, env), self.local, env, self.exchange.serves_start)
        for observer in env.observers:
            observer.before_mixing(copy.copy(data), env)
        data = self.stop.before(data, env)
        env.plane.prefetch(data.edge_index, partial(self._hears, data, env))
        data = without_refused(self.weigh(without_refused(data, env), env), env)
        data = self.exchange(count_messages(data, env, self.exchange.at_server(data)), env)
        data = unless_ruined(data, env, ("train", "val") if self.weigh.learns else ("train",))
        edge_index, edge_weight = data.edge_index, data.edge_weight
        if self.weigh.learns:
            data = self._learn(data, env)
        for observer in env.observers:
            observer.after_mixing(copy.copy(data), env, self)
        data = without_refused(data, env)
        data = self.rewire(restore_participation(self.stop.after(data, env), before, began, env), env)
        data = end_round(data, fields, self.judge.reads, last, ~began.trains)
        if data.edge_index is not edge_index:
            data.last_graph = Relation(edge_index, edge_weight, (data.num_nodes, data.num_nodes))
            data = allowed_only(data)
        data.round = data.round + 1
        return self._let_leave(data, last, env)

    @in_step
    def models(self, data: Data, env: Env) -> Stacks:
        """Return the evaluated models; nodes that have left keep the models they had when they left."""
        models = self.judge(data, env)
        if env.participation is None or "as_left" not in data:
            return models
        return models.where(env.participation.left(data, data.round), data.as_left)

    def _check_stop(self) -> None:
        if self.stops and "x_local" in self.judge.reads:
            raise ConflictError(
                "stop",
                f"{self.name} judges models before mixing, but a node may stop at a mixture: use Judge(field='best_x')",
            )
        if self.stops and self.exchange.serves_rest:
            raise ConflictError(
                "stop",
                f"{self.name} gives stopped nodes a server's model too: stop the run by run(patience=...) instead",
            )

    def _check_agreement(self) -> None:
        wanted = self.exchange.agrees
        for piece in self.walk():
            for setting, value in piece.agrees.items():
                if setting in wanted and value != wanted[setting]:
                    what = "exchanges the part" if setting == "part" else f"exchanges with {setting}"
                    raise MismatchError(
                        setting,
                        f"{self.name} {what} {wanted[setting]!r}, and its {type(piece).__name__} says {value!r}: give "
                        f"both the same {setting}",
                    )

    def _check_judge(self) -> None:
        models = {field.name for field in (*LOOP, *self.fields) if field.kind == "models"}
        for read in self.judge.reads:
            if read not in models:
                known = ", ".join(map(repr, sorted(models)))
                raise UnknownError(
                    "judge",
                    f"{self.name} judges nodes by {read!r}, in which no piece keeps models: use one of {known}",
                )

    def _check_learning(self) -> None:
        kind = type(self.exchange)
        mixes = isinstance(self.exchange, Exchange | Layer) and self.exchange.along_edges
        if isinstance(self.weigh, NoWeights) and mixes:
            raise MissingError(
                "weigh",
                f"{self.name} has no weights, and its {kind.__name__} mixes by them: give weigh=, such as Uniform()",
            )
        if self.weigh.learns and (not self.exchange.along_edges or kind.weight_gradient is Exchanger.weight_gradient):
            raise UnsupportedError(
                "exchange",
                f"{self.name} learns weights by {type(self.weigh).__name__}, and its {kind.__name__} gives no "
                "gradient: use Exchange along edges, or Layer(module)",
            )

    def _check_at_work(self, data: Data, env: Env) -> None:
        there = data.present & ~data.isolated
        if "stopped" in data:
            there = there & ~data.stopped
        if not env.plane.complete or not bool(data.present.all()) or int(there.sum()) < 2:
            return
        if int(data.trains.sum()) == 1 and self.along_edges and not self.exchange.serves_rest:
            raise TooFewError(
                "fraction",
                f"{self.name}: one of {int(there.sum())} nodes is at work in a round, so none receives a model: use a "
                "larger fraction, or the method local",
            )

    def _slots(self) -> tuple[Piece, ...]:
        """Return the slots in the order of their initialization."""
        return self.local, self.weigh, self.exchange, self.stop, self.rewire, self.judge

    def _hears(self, data: Data, env: Env) -> list[Tensor]:
        """Return the rows of owned nodes that are read along all edges in this round, [k, P] each."""
        return [*self.exchange.hears(data, env), *self.weigh.hears(data, env)]

    def _let_leave(self, data: Data, last: Data, env: Env) -> Data:
        """Let nodes that have left keep their models, whatever a server sends."""
        if env.participation is None or not bool((left := env.participation.left(data, data.round)).any()):
            return data
        gone = env.participation.left(data, last.round)
        data.x = data.x.where(gone, last.x)
        if bool((leaving := left & ~gone).any()):
            data.as_left = data.get("as_left", data.x).where(leaving, self.judge(data, env))
        return data

    def _learn(self, data: Data, env: Env) -> Data:
        losses, cotangent = env.engine.grad(Rows.own(data.x), "val", part=self.part)
        losses = env.plane.from_local(losses)
        data = updated(settle_validation(data, losses, env), val_loss=losses)
        cotangent = cotangent.masked_fill_(beside(env.plane.local_values(data.isolated)[:, None], cotangent), 0)
        return self.weigh.learn(data, env, self.exchange.weight_gradient(data, env, cotangent))


def last_graph(data: Data) -> tuple[Tensor, Tensor]:
    """Return edges [2, E] and weights [E] of the last exchange; ``data`` already holds those of the next round."""
    if "last_graph" in data:
        return data.last_graph.edge_index, data.last_graph.values
    return data.edge_index, data.edge_weight
