"""The stop slot: early stopping of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Count
from graphcollab.analysis.metrics import as_metric
from graphcollab.analysis.metrics.scores import score_rows
from graphcollab.components.env import Env
from graphcollab.components.slots import Stop
from graphcollab.engine import Rows

__all__ = ["EarlyStopping"]


@dataclass(frozen=True)
class EarlyStopping(Stop):
    """Every node keeps its best model so far, and stops after some rounds without a better one.

    Models are validated after the local update and after merging; the best has the smallest validation loss. A node
    that stops returns to its best model, no longer trains or merges, and keeps serving it (*With a Little Help from My
    Friends*, chapter 3, which keeps the model with the highest validation accuracy and stops by the loss; accuracy on a
    hundred samples has many ties). Use it with ``Judge(field="best_x")``. The thesis' ``patience`` is 50 rounds.
    """

    patience: Count = 50

    stops: ClassVar[bool] = True
    told: ClassVar[Readers] = {"everybody": "when it has stopped"}
    keeps: ClassVar[tuple[Field, ...]] = (
        Field("best_x", "models", "every node's best model so far", known_to="owner"),
        Field("best_start", "models", "the model that the best one's round began with", known_to="owner"),
        Field("best_loss", "per_node", "validation loss of the best model", known_to="owner"),
        Field("stale", "per_node", "rounds since the best model", known_to="owner"),
        Field("stopped", "per_node", "who has stopped"),
    )
    needs: ClassVar[tuple[str, ...]] = ("val",)

    def init(self, data: Data, env: Env) -> Data:
        """In a later phase, nodes that have stopped stay stopped."""
        if "best_x" not in data:
            data = updated(
                data,
                best_x=data.x,
                best_start=data.x,  # inputs of the best update stay comparable when its node rests
                best_loss=torch.full_like(data.bytes_sent, torch.inf, dtype=torch.float64),
                stale=torch.zeros_like(data.node_id),
                stopped=torch.zeros_like(data.isolated),
            )
        return updated(data, trains=data.trains & ~data.stopped)

    def before(self, data: Data, env: Env) -> Data:
        loss = self._validate(data, env)
        data, better = self._keep_best(data, loss)
        counts = data.trains & ~loss.isnan()  # rounds at rest and undefined losses do not count
        return updated(data, stale=torch.where(better, 0, data.stale + counts))

    def after(self, data: Data, env: Env) -> Data:
        data, better = self._keep_best(data, self._validate(data, env))
        data = updated(data, stale=data.stale.masked_fill(better, 0))
        (stops,) = env.plane.all_gather(env.plane.local_values(data.trains & (data.stale >= self.patience)))
        if not bool(stops.any()):
            return data
        x = data.x.where(stops, data.best_x)
        return updated(data, x=x, stopped=data.stopped | stops, trains=data.trains & ~stops)

    def _validate(self, data: Data, env: Env) -> Tensor:
        """Return validation losses of own nodes that train, [K], NaN elsewhere; infinite if a model has diverged."""
        loss = torch.full_like(data.best_loss, torch.nan)
        nodes = env.plane.local(data.trains.nonzero().flatten())
        if len(nodes):
            loss[nodes] = score_rows(env.engine, Rows.own(data.x, nodes), "val", as_metric(env.engine.tasks.metric))[0]
        return loss

    def _keep_best(self, data: Data, loss: Tensor) -> tuple[Data, Tensor]:
        """Return the data, and which nodes' models are better than all before, [K]."""
        better = data.trains & (loss < data.best_loss)
        if bool(better.any()):
            data = updated(
                data,
                best_loss=torch.where(better, loss, data.best_loss),
                best_x=data.best_x.where(better, data.x),
                best_start=data.best_start.where(better, data.x_start),
            )
        return data, better
