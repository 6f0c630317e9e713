"""The watch slot: validation before and after merging, and per-node early stopping."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.checks import check_whole
from graphcollab.comm import Relation
from graphcollab.engine import Rows
from graphcollab.metrics import metric_of, score_rows
from graphcollab.piece import Field, Stop
from graphcollab.weigh import Similarity

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["EarlyStopping", "NoWatch", "ProbeSimilarity", "WatchMerging"]


@dataclass(frozen=True)
class NoWatch(Stop):
    """Nothing is watched."""

    stops: ClassVar[bool] = False

    def before(self, data: Data, env: Env) -> Data:
        """Called after the local update, before models are merged."""
        return data

    def after(self, data: Data, env: Env) -> Data:
        """Called after models were merged."""
        return data


@dataclass(frozen=True)
class WatchMerging(NoWatch):
    """Validate every node's model before and after merging, every round.

    Shapes:
        Writes ``val_loss_before``, ``val_metric_before``, ``val_loss_after`` and ``val_metric_after`` [K], of the last
        round; nodes that do not train keep their values.
    """

    needs: ClassVar[tuple[str, ...]] = ("val",)

    def init(self, data: Data, env: Env) -> Data:
        """Start without values."""
        data = copy.copy(data)
        for name in ("val_loss_before", "val_metric_before", "val_loss_after", "val_metric_after"):
            if name not in data:
                data[name] = torch.full((data.num_nodes,), torch.nan, dtype=torch.float64, device=data.node_id.device)
        return data

    def before(self, data: Data, env: Env) -> Data:
        """Validate what nodes learned themselves."""
        return self._validate(data, env, "before")

    def after(self, data: Data, env: Env) -> Data:
        """Validate what came of merging."""
        return self._validate(data, env, "after")

    def _validate(self, data: Data, env: Env, when: str) -> Data:
        nodes = data.trains.nonzero().flatten()
        if not len(nodes):
            return data
        loss, score = score_rows(env.engine, Rows.own(data.x, nodes), "val", metric_of(env.engine.tasks))
        data = copy.copy(data)
        data[f"val_loss_{when}"] = data[f"val_loss_{when}"].index_copy(0, nodes, loss)
        data[f"val_metric_{when}"] = data[f"val_metric_{when}"].index_copy(0, nodes, score)
        return data


@dataclass(frozen=True)
class EarlyStopping(WatchMerging):
    """Every node keeps its best model so far, and stops when there was no better one for some rounds.

    Models are validated after the local update and after merging; the best is the one with the smallest validation
    loss. A node that stops takes its best model back, neither trains nor merges any more, and goes on serving that
    model to others (*With a Little Help from My Friends*, chapter 3, which keeps the model of the highest validation
    accuracy and stops by the loss; here one criterion serves for both, and accuracy on a hundred samples has many
    ties). Use it with ``JudgedBy("best_x")``.

    Args:
        patience: Rounds without a better model after which a node stops. The thesis' is 50.

    Shapes:
        Keeps ``best_x`` and ``best_start`` (K rows each: the best model, and the one its round began with, so that what
        led to it can still be compared when its node rests), ``best_loss`` [K], ``stale`` [K] (rounds since the best)
        and ``stopped`` [K].

    Raises:
        ValueError: If the patience is no whole number of at least 1.
    """

    patience: int = 50
    stops: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = (
        Field("best_x", "rows", "every node's best model so far", known_to="owner"),
        Field("best_start", "rows", "the model that the best one's round began with", known_to="owner"),
        Field("best_loss", "per_node", "validation loss of the best model", known_to="owner"),
        Field("stale", "per_node", "rounds since the best model", known_to="owner"),
        Field("stopped", "per_node", "who has stopped"),
    )

    def __post_init__(self) -> None:
        check_whole(patience=self.patience)

    def init(self, data: Data, env: Env) -> Data:
        """Start with the models at hand; in a later phase nodes that have stopped stay stopped."""
        data = super().init(data, env)
        if "best_x" not in data:
            data.best_x = data.best_start = data.x
            data.best_loss = torch.full_like(data.val_loss_before, torch.inf)
            data.stale = torch.zeros_like(data.node_id)
            data.stopped = torch.zeros_like(data.isolated)
        data.trains = data.trains & ~data.stopped
        return data

    def before(self, data: Data, env: Env) -> Data:
        """Validate what nodes learned themselves, and keep it where it is the best."""
        data, better = self._keep_best(super().before(data, env), "before")
        counts = data.trains & ~data.val_loss_before.isnan()  # neither rounds at rest count nor undefined losses
        data.stale = torch.where(better, 0, data.stale + counts)
        return data

    def after(self, data: Data, env: Env) -> Data:
        """Validate what came of merging, keep it where it is the best, and stop who has waited too long."""
        data, better = self._keep_best(super().after(data, env), "after")
        data.stale = data.stale.masked_fill(better, 0)
        stops = data.trains & (data.stale >= self.patience)
        if bool(stops.any()):
            data.x = data.x.where(stops, data.best_x)
            data.stopped = data.stopped | stops
            data.trains = data.trains & ~stops
        return data

    def _keep_best(self, data: Data, when: str) -> tuple[Data, Tensor]:
        """Keep the models that are better than any before; return which these are, [K]."""
        data = copy.copy(data)
        loss = data[f"val_loss_{when}"]
        better = data.trains & (loss < data.best_loss)
        if bool(better.any()):
            data.best_loss = torch.where(better, loss, data.best_loss)
            data.best_x = data.best_x.where(better, data.x)
            data.best_start = data.best_start.where(better, data.x_start)
        return data, better


@dataclass(frozen=True)
class ProbeSimilarity(NoWatch):
    """Measure the similarity of some nodes to all others, every round: what a metric could see, for analysis only.

    Nothing is charged, and no method makes use of it.

    Args:
        metric: What is measured.
        nodes: Who measures, by position. Default: all, which takes K² measurements.
        watch: What else is watched.

    Shapes:
        Writes ``probe``, a `Relation` with every other node's similarity to each of the nodes.
    """

    keeps: ClassVar[tuple[Field, ...]] = (Field("probe", "relation", "similarities measured", "round", "receiver"),)

    metric: Similarity
    nodes: tuple[int, ...] | None = None
    watch: NoWatch = NoWatch()

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that are read."""
        return (*self.metric.needs, *self.watch.needs)

    @property
    def stops(self) -> bool:  # type: ignore[override]
        """Whether nodes may be stopped."""
        return self.watch.stops

    def init(self, data: Data, env: Env) -> Data:
        """Let the other begin.

        Raises:
            ValueError: If a node does not exist.
        """
        unknown = [k for k in self.nodes or () if not 0 <= k < data.num_nodes]
        if unknown:
            raise ValueError(f"nodes to probe are positions from 0 to {data.num_nodes - 1}, got {unknown[:5]}")
        return self.watch.init(data, env)

    def before(self, data: Data, env: Env) -> Data:
        """Measure."""
        everyone = torch.arange(data.num_nodes, device=data.node_id.device)
        receiver = everyone if self.nodes is None else everyone[list(self.nodes)]
        pairs = torch.cartesian_prod(receiver, everyone).T.flip(0)
        pairs = pairs[:, pairs[0] != pairs[1]]
        data = copy.copy(self.watch.before(data, env))
        data.probe = Relation(pairs, self.metric.scores(data, env, pairs), (len(everyone), len(everyone)))
        return data

    def after(self, data: Data, env: Env) -> Data:
        """Let the other watch."""
        return self.watch.after(data, env)
