"""What can happen in a run beside the rounds: `Callback`, and the callbacks that show, record and measure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from graphcollab._base.settings import Count, checked
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, score_all
from graphcollab.components.env import Env
from graphcollab.engine import Rows
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method, last_graph
from graphcollab.persistence.history import History


class Callback:
    """Base of callbacks: override what you need. A callback must not change the data.

    A run calls ``on_start``, then in every round ``before_mixing``, ``after_mixing``, ``after_learning``, ``on_round``
    and, where the round is evaluated, ``before_evaluate`` and ``on_evaluate``; then ``on_end``. It calls callbacks as
    they were given, then the progress bar; a checkpoint comes after all of them. Between sites a round in which a site
    is lost is played again, so what is called in it may be called twice with the same ``data.round``.

    Attributes:
        needs: Splits that every node must have samples in.
        everywhere: Whether each process of a run that has several calls it, as it must where it computes with models;
            else the first alone does.
    """

    needs: tuple[str, ...] = ()
    everywhere = True

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Called before the first round that is played (after a resume: of those left)."""

    def before_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the local update, before models are exchanged; ``data.round`` counts from 0."""

    def after_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the exchange."""

    def after_learning(self, method: Method, data: Data, env: Env) -> None:
        """Called after `after_mixing`, with the method that plays the round (of phases the one at hand)."""

    def on_round(self, data: Data, history: History) -> None:
        """Called after every round, before it may be evaluated; ``data.round`` rounds have been played."""

    def before_evaluate(self, models: Stacks, env: Env) -> None:
        """Called before every evaluation, with the models that nodes are judged by."""

    def values(self) -> Mapping[str, Tensor]:
        """Return what was observed of every node, [K] by name; evaluations keep it in ``history.values``.

        A name that the evaluation or another callback has already is refused. What a resumed run must find again
        belongs into ``history.observed``.
        """
        return {}

    def on_evaluate(self, data: Data, history: History) -> None:
        """Called after every evaluation, whose values are the last in the history."""

    def should_stop(self, data: Data, history: History) -> bool:
        """Tell whether the run shall end now, whatever rounds are left; its last round is evaluated."""
        return False

    def on_end(self, data: Data, history: History) -> None:
        """Called once at the end, also of a run that is interrupted or stopped by an error."""


class Progress(Callback):
    """A progress bar over rounds with the mean metric, behind a label."""

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
    """Keep the edges and weights that some rounds exchanged along in ``history.graphs``.

    Args:
        rounds: Rounds, counted from 1. Default: every round.
        scores: Keep in ``history.scores``, too, the similarities that the method measured for its own use
            (``data.scores``). Rounds in which it measured nothing are left out, and so are those of which
            another callback has kept some.
    """

    @checked
    def __init__(self, rounds: Collection[Count] | None = None, scores: bool = False) -> None:
        self.rounds, self.scores = rounds, scores

    def on_round(self, data: Data, history: History) -> None:
        if self.rounds is not None and data.round not in self.rounds:
            return
        edge_index, edge_weight = last_graph(data)
        history.graphs[data.round] = edge_index.clone().cpu(), edge_weight.cpu()  # what hangs on its edges is freed
        if self.scores and "scores" in data and data.round not in history.scores:
            history.scores[data.round] = data.scores.edge_index.cpu(), data.scores.values.cpu()


class WatchMetrics(Callback):
    """Keep further metrics of the models that nodes are judged by; evaluations keep them in ``history.values``.

    Names are those of the split and the metric, such as ``test_brier``. A metric that is not defined at a node is NaN.

    Args:
        metrics: A metric (a name, a ``Metric`` or a function), or several of them.
        splits: Which samples of a node its model is judged on.
    """

    @checked
    def __init__(self, metrics: AnyMetrics, splits: Collection[str] = ("test",)) -> None:
        self.metrics, self.splits = as_metrics(metrics, None), tuple(splits)
        self.found: dict[str, Tensor] = {}

    def before_evaluate(self, models: Stacks, env: Env) -> None:
        for split in self.splits:
            values = env.plane.gather_scores(score_all(env.engine, Rows.own(models), split, self.metrics)[1])
            self.found |= {f"{split}_{one.name}": value for one, value in zip(self.metrics, values, strict=True)}

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.found)
