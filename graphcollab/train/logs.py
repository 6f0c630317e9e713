"""Callbacks that write what evaluations find, as a run goes: whole histories, lines of JSON, TensorBoard's files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab.errors import FormatError, InvalidTypeError, MissingPackageError
from graphcollab.files import write_whole
from graphcollab.settings import SettingError, checked
from graphcollab.train.callbacks import Callback
from graphcollab.train.history import History

__all__ = ["HistoryLog", "JsonLinesLog", "TensorBoardLog"]

KINDS = "mean", "worst10", "std"  # what is told of the nodes' values


class HistoryLog(Callback):
    """Write the history after every evaluation and at the end, as its name ends (``.csv``, ``.json``).

    The file is whole at any moment.
    """

    everywhere = False

    @checked
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in (".csv", ".json"):
            raise SettingError("path", "the name of a file that ends in .csv or .json", path)

    def on_evaluate(self, data: Data, history: History) -> None:
        write = history.to_csv if self.path.suffix == ".csv" else history.to_json
        write(self.path)

    def on_stop(self, data: Data, history: History) -> None:
        self.on_evaluate(data, history)  # with what was found at the end


class TensorBoardLog(Callback):
    """Write mean, worst 10 % and standard deviation over nodes of every field for TensorBoard.

    A resumed run replaces what was written for rounds that it plays again. TensorBoard must have been installed
    (``pip install graphcollab[tensorboard]``).
    """

    everywhere = False

    @checked
    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingPackageError(
                "tensorboard", "TensorBoard is not installed: pip install graphcollab[tensorboard]", public=True
            ) from error
        self.make, self.folder = SummaryWriter, str(folder)
        self.writer: Any = None

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        self.writer = self.make(self.folder, purge_step=data.round + 1 if data.round else None)

    def on_evaluate(self, data: Data, history: History) -> None:
        for name in history.values:
            summary = history.summary(name)
            for kind in KINDS:
                self.writer.add_scalar(f"{name}/{kind}", summary[kind], data.round)

    def on_end(self, data: Data, history: History) -> None:
        if self.writer is not None:
            self.writer.close()


class JsonLinesLog(Callback):
    """Write mean, worst 10 % and standard deviation over nodes of every field, a line of JSON for each evaluation.

    A line is whole as soon as it is there, so others can follow the file (``tail -f``) while the run goes on::

        {"run": 0, "round": 5, "seconds": 1.7, "test_metric": {"mean": 0.91, "worst10": 0.8, "std": 0.05}, ...}

    ``seconds`` are those since the start, and values that are not finite are null. Every run that begins at its first
    round takes the next number ``run``, and nothing is lost of those before; one that is resumed goes on with the last
    number, and replaces the lines of rounds that it plays again.

    Args:
        path: The file.

    Raises:
        ValueError: At the start of a run, if the file holds anything else.
    """

    everywhere = False

    @checked
    def __init__(self, path: str | Path) -> None:
        self.path, self.run = Path(path), 0

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        lines, whole = self._lines()
        last = max((line["run"] for line in lines), default=-1)
        self.run = max(last, 0) if data.round else last + 1
        evaluated = history.rounds[-1] if history.rounds else 0
        kept = [line for line in lines if line["run"] < self.run or line["round"] <= evaluated]
        if len(kept) < len(lines) or not whole:
            write_whole(self.path, "".join(map(_line, kept)).encode())

    def on_evaluate(self, data: Data, history: History) -> None:
        told: dict[str, Any] = {"run": self.run, "round": data.round, "seconds": history.seconds[-1]}
        for name in history.values:
            summary = history.summary(name)
            told[name] = {kind: value if math.isfinite(value := summary[kind]) else None for kind in KINDS}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(_line(told).encode())

    def _lines(self) -> tuple[list[dict[str, Any]], bool]:
        """Return the lines that are there, and whether the last one is whole."""
        if not self.path.exists():
            return [], True
        *lines, rest = self.path.read_bytes().split(b"\n")
        try:
            found = [json.loads(line) for line in lines]
            if not all(isinstance(line["run"], int) and isinstance(line["round"], int) for line in found):
                raise InvalidTypeError(f"file {self.path}", "run and round must be numbers")
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f"file {self.path}", f"{self.path} holds something else than lines of this log: give another name"
            ) from error
        return found, not rest


def _line(told: dict[str, Any]) -> str:
    return json.dumps(told) + "\n"
