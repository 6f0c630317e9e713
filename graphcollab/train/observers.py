"""Callbacks that look into rounds: validation before and after merging, and similarities, for analysis only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.engine import Rows
from graphcollab.metrics import as_metric, score_rows
from graphcollab.settings import Count, Natural, checked
from graphcollab.train.callbacks import Callback
from graphcollab.train.history import History
from graphcollab.typing import Env
from graphcollab.weigh import Similarity

__all__ = ["ProbeSimilarity", "WatchMerging"]


class WatchMerging(Callback):
    """Validate every node's model before and after merging, every round.

    Evaluations keep ``val_loss_before``, ``val_metric_before``, ``val_loss_after`` and ``val_metric_after`` of the last
    round in ``history.values``; nodes that do not train keep their values. Merging is drawn by
    `graphcollab.report.merge_curves`, and `HealthCheck` warns where it keeps hurting.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """Validation samples."""
        return ("val",)

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Go on from the values of the last round, which a resumed history has."""
        for name in (f"val_{what}_{when}" for what in ("loss", "metric") for when in ("before", "after")):
            history.merging.setdefault(name, torch.full((data.num_nodes,), torch.nan, dtype=torch.float64))
        self.whole, self.now = history.merging, dict(history.merging)

    def before_mixing(self, data: Data, env: Env) -> None:
        """Validate what nodes learned themselves."""
        self._validate(data, env, "before")

    def after_mixing(self, data: Data, env: Env) -> None:
        """Validate what came of merging."""
        self._validate(data, env, "after")

    def on_round(self, data: Data, history: History) -> None:
        """Keep the values of the round, now that it is whole."""
        history.merging.update(self.now)

    def values(self) -> Mapping[str, Tensor]:
        """Return loss and metric before and after merging."""
        return dict(self.whole)

    def _validate(self, data: Data, env: Env, when: str) -> None:
        nodes = data.trains.nonzero().flatten()
        if not len(nodes):
            return
        found = score_rows(env.engine, Rows.own(data.x, nodes), "val", as_metric(env.engine.tasks.metric))
        for what, value in zip(("loss", "metric"), found, strict=True):
            name = f"val_{what}_{when}"
            self.now[name] = self.now[name].index_copy(0, nodes.cpu(), value.cpu())


class ProbeSimilarity(Callback):
    """Measure the similarity of some nodes to all others in ``history.scores``: what a metric could see.

    Nothing is charged, and no method makes use of it. `graphcollab.report.similarity_curves` draws it.

    Args:
        metric: What is measured.
        nodes: Who measures, by position. Default: all, which takes K² measurements.
        rounds: Rounds, counted from 1. Default: every round.
    """

    @checked
    def __init__(
        self, metric: Similarity, nodes: Collection[Natural] | None = None, rounds: Collection[Count] | None = None
    ) -> None:
        self.metric, self.nodes, self.rounds = metric, None if nodes is None else list(nodes), rounds
        self.found: tuple[Tensor, Tensor] | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that the metric reads."""
        return self.metric.needs

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Check that the nodes exist.

        Raises:
            ValueError: If one does not.
        """
        self.found = None
        unknown = [k for k in self.nodes or () if k >= data.num_nodes]
        if unknown:
            raise ValueError(f"nodes must be positions from 0 to {data.num_nodes - 1}, got {unknown[:5]}")

    def before_mixing(self, data: Data, env: Env) -> None:
        """Measure."""
        if self.rounds is not None and data.round + 1 not in self.rounds:
            return
        everyone = torch.arange(data.num_nodes, device=data.node_id.device)
        receiver = everyone if self.nodes is None else everyone[self.nodes]
        pairs = torch.cartesian_prod(receiver, everyone).T.flip(0)
        pairs = pairs[:, pairs[0] != pairs[1]]
        self.found = pairs.cpu(), self.metric.scores(data, env, pairs).cpu()

    def on_round(self, data: Data, history: History) -> None:
        """Keep what was measured in the round, now that it is whole."""
        if self.found is not None:
            history.scores[data.round], self.found = self.found, None
