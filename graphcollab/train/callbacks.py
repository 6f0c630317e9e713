"""`Callback`, the hooks of a run, and the callbacks that show progress, record graphs and watch metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from graphcollab._base.settings import Count, checked
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, score_all
from graphcollab.components import Env
from graphcollab.engine import Rows
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method, last_graph
from graphcollab.persistence.history import History


class Callback:
    """Base class of callbacks: override the hooks you need. A callback must not change the data.

    A run calls callbacks in the given order, then the progress bar; a checkpoint is written after all of them. Between
    sites, a round in which a site is lost is played again, so hooks may be called twice with the same ``data.round``.

    Attributes:
        needs: Splits in which every node must have samples.
        everywhere: Whether every process of a multi-process run calls the callback, which is required if it computes
            with models; otherwise only the main process does.
    """

    needs: tuple[str, ...] = ()
    everywhere = True

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Called before the first round that is played; after a resume, ``rounds`` are those left."""

    def before_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the local update, before the exchange; ``data.round`` counts from 0."""

    def after_mixing(self, data: Data, env: Env, method: Method) -> None:
        """Called in every round after the exchange, with the method that plays it (for phases, the current one)."""

    def on_round(self, data: Data, history: History) -> None:
        """Called after every round, before a possible evaluation; ``data.round`` rounds have been played."""

    def before_evaluate(self, models: Stacks, env: Env) -> None:
        """Called before every evaluation, with the evaluated models."""

    def values(self) -> Mapping[str, Tensor]:
        """Return the observed values of every node, [K] by name; evaluations keep them in ``history.values``.

        A name that the evaluation or another callback already uses is rejected. State that a resumed run must restore
        belongs in ``history.observed``.
        """
        return {}

    def on_evaluate(self, data: Data, history: History) -> None:
        """Called after every evaluation; its values are the last ones in the history."""

    def should_stop(self, data: Data, history: History) -> bool:
        """Return whether to end the run now, even if rounds are left; the last round is evaluated."""
        return False

    def on_end(self, data: Data, history: History) -> None:
        """Called once at the end, also if the run is interrupted or stopped by an error."""


class Progress(Callback):
    """A progress bar over rounds that shows the mean metric, after an optional label."""

    everywhere = False

    @checked
    def __init__(self, label: str = "") -> None:
        self.label = label
        self.bar: Any = None

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        self.bar = tqdm(total=rounds, initial=data.round, desc=self.label, unit="round", leave=False)

    def on_round(self, data: Data, history: History) -> None:
        self.bar.update(1)

    def on_evaluate(self, data: Data, history: History) -> None:
        for name in ("test_metric", "val_metric"):
            if name in history.values:
                self.bar.set_postfix({history.metric: f"{history.mean(name)[-1]:.4f}"})
                return

    def on_end(self, data: Data, history: History) -> None:
        if self.bar is not None:
            self.bar.close()


class RecordGraph(Callback):
    """Record the edges and weights of the exchange in ``history.graphs``.

    Args:
        rounds: Rounds to record, counted from 1. Default: every round.
        scores: Also record in ``history.scores`` the similarities that the method measured for its own use
            (``data.scores``). Rounds without measurements are left out, and so are rounds for which another callback
            has recorded scores.
    """

    @checked
    def __init__(self, rounds: Collection[Count] | None = None, scores: bool = False) -> None:
        self.rounds, self.scores = rounds, scores

    def on_round(self, data: Data, history: History) -> None:
        if self.rounds is not None and data.round not in self.rounds:
            return
        edge_index, edge_weight = last_graph(data)
        history.graphs[data.round] = edge_index.clone().cpu(), edge_weight.cpu()  # frees tensors attached to the edges
        if self.scores and "scores" in data and data.round not in history.scores:
            history.scores[data.round] = data.scores.edge_index.cpu(), data.scores.values.cpu()


class WatchMetrics(Callback):
    """Watch further metrics of the evaluated models; evaluations keep them in ``history.values``.

    Names combine the split and the metric, such as ``test_brier``. A metric that is undefined at a node is NaN.

    Args:
        metrics: A metric (a name, a ``Metric`` or a function), or several of them.
        splits: Splits on which each node's model is evaluated.
    """

    @checked
    def __init__(self, metrics: AnyMetrics, splits: Collection[str] = ("test",)) -> None:
        self.metrics, self.splits = as_metrics(metrics, None), tuple(splits)
        self.found: dict[str, Tensor] = {}

    def before_evaluate(self, models: Stacks, env: Env) -> None:
        for split in self.splits:
            own = score_all(env.engine, Rows.own(models), split, self.metrics)[1]  # [M, k]
            values = env.plane.all_gather(own.T.contiguous())[0].T  # [M, K]
            self.found |= {f"{split}_{one.name}": value for one, value in zip(self.metrics, values, strict=True)}

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.found)
