"""What can happen in a run beside the rounds: `Callback`, progress bar, logs, records of the graph."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from graphcollab.method import last_graph
from graphcollab.settings import Count, checked
from graphcollab.train.history import History
from graphcollab.typing import Env

__all__ = ["Callback", "CsvLog", "JsonLog", "Progress", "RecordGraph", "RecordScores", "TensorBoardLog"]


class Callback:
    """Base of callbacks: override what you need. A callback must not change the data.

    A run calls ``on_start``, then in every round ``before_mixing``, ``after_mixing``, ``on_round`` and, where the round
    is evaluated, ``on_evaluate``; then ``on_stop`` and ``on_end``. It calls callbacks in this order: the report of
    isolated nodes, the user's as they were given, the progress bar, patience, evaluation, checkpoints. Only ``on_stop``
    goes the other way: the last state is saved before anything is put back.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that every node must have samples in."""
        return ()

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Called before the first round that is played (after a resume: of those left)."""

    def before_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the local update, before models are exchanged; ``data.round`` counts from 0."""

    def after_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the exchange."""

    def on_round(self, data: Data, history: History) -> None:
        """Called after every round, before it may be evaluated; ``data.round`` rounds have been played."""

    def values(self) -> Mapping[str, Tensor]:
        """Return what was observed of every node, [K] by name; evaluations keep it in ``history.values``.

        A name that the evaluation or another callback has already is refused.
        """
        return {}

    def on_evaluate(self, data: Data, history: History) -> None:
        """Called after every evaluation, whose values are the last in the history."""

    def ends(self, data: Data, history: History) -> bool:
        """Tell whether the run shall end now, whatever rounds are left; its last round is evaluated."""
        return False

    def on_error(self, data: Data, history: History) -> None:
        """Called where a round or its evaluation fails, with the state after the last whole round."""

    def on_stop(self, data: Data, history: History) -> None:
        """Called after the last round, also where Ctrl-C has made it the last; not after an error."""

    def on_end(self, data: Data, history: History) -> None:
        """Called once at the end, also of a run that is interrupted or stopped by an error."""


class Progress(Callback):
    """A progress bar over rounds with the mean metric.

    Args:
        label: What stands in front of it.
    """

    @checked
    def __init__(self, label: str = "") -> None:
        self.label = label
        self.bar: Any = None

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Open the bar."""
        self.bar = tqdm(total=rounds, initial=data.round, desc=self.label, unit="round", file=sys.stderr, leave=False)

    def on_round(self, data: Data, history: History) -> None:
        """Move on by one."""
        self.bar.update(1)

    def on_evaluate(self, data: Data, history: History) -> None:
        """Show the mean metric."""
        for name in ("test_metric", "val_metric"):
            if name in history.values:
                self.bar.set_postfix({history.metric: f"{history.mean(name)[-1]:.4f}"})
                return

    def on_end(self, data: Data, history: History) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()


class RecordGraph(Callback):
    """Keep the edges and weights that some rounds exchanged along in ``history.graphs``.

    Args:
        rounds: Rounds, counted from 1. Default: every round.
    """

    @checked
    def __init__(self, rounds: Collection[Count] | None = None) -> None:
        self.rounds = rounds

    def on_round(self, data: Data, history: History) -> None:
        """Keep the graph if it is one of the rounds."""
        if self.rounds is None or data.round in self.rounds:
            edge_index, edge_weight = last_graph(data)
            history.graphs[data.round] = (edge_index.cpu(), edge_weight.cpu())


class RecordScores(Callback):
    """Keep the similarities that nodes measured in some rounds in ``history.scores``.

    They are those that the method measured for its own use (``data.scores``). Rounds in which it measured nothing are
    left out, and so are those in which `ProbeSimilarity` has measured for analysis.

    Args:
        rounds: Rounds, counted from 1. Default: every round.
    """

    @checked
    def __init__(self, rounds: Collection[Count] | None = None) -> None:
        self.rounds = rounds

    def on_round(self, data: Data, history: History) -> None:
        """Keep the similarities if it is one of the rounds."""
        wanted = self.rounds is None or data.round in self.rounds
        if wanted and "scores" in data and data.round not in history.scores:
            history.scores[data.round] = (data.scores.edge_index.cpu(), data.scores.values.cpu())


class CsvLog(Callback):
    """Write the history as CSV after every evaluation; the file is whole at any moment."""

    @checked
    def __init__(self, path: str | Path) -> None:
        self.path = path

    def on_evaluate(self, data: Data, history: History) -> None:
        """Write the file anew."""
        history.to_csv(self.path)


class JsonLog(Callback):
    """Write the history as JSON after every evaluation; the file is whole at any moment."""

    @checked
    def __init__(self, path: str | Path) -> None:
        self.path = path

    def on_evaluate(self, data: Data, history: History) -> None:
        """Write the file anew."""
        history.to_json(self.path)


class TensorBoardLog(Callback):
    """Write mean, worst 10 % and standard deviation over nodes of every field for TensorBoard.

    A resumed run replaces what was written for rounds that it plays again.

    Raises:
        ImportError: If TensorBoard is not installed (``pip install graphcollab[tensorboard]``).
    """

    @checked
    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError("TensorBoard is not installed: pip install graphcollab[tensorboard]") from error
        self.make = SummaryWriter
        self.folder = str(folder)
        self.writer: Any = None

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Open the folder."""
        self.writer = self.make(self.folder, purge_step=data.round + 1 if data.round else None)

    def on_evaluate(self, data: Data, history: History) -> None:
        """Write the last evaluation."""
        for name in history.values:
            for kind, value in history.summary(name).items():
                if kind in ("mean", "worst10", "std"):
                    self.writer.add_scalar(f"{name}/{kind}", value, data.round)

    def on_end(self, data: Data, history: History) -> None:
        """Flush and close."""
        if self.writer is not None:
            self.writer.close()
