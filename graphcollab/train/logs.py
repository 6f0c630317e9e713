"""`HistoryLog`: write the history as a run goes."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from graphcollab.settings import SettingError, checked
from graphcollab.train.callbacks import Callback
from graphcollab.train.history import History

__all__ = ["HistoryLog"]


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
