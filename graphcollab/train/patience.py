"""`Patience`: the best evaluation of a run so far, and when it is so long ago that the run ends."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from graphcollab.train.callbacks import Callback
from graphcollab.train.history import History

if TYPE_CHECKING:
    from graphcollab.train.session import Session

__all__ = ["Patience", "out_of_patience", "remember_best"]


class Patience(Callback):
    """Ends a run when its mean validation metric has not improved for some evaluations; it returns the best state.

    The best state is kept in the ``Data``, so that a resumed run ends at the same evaluation.
    """

    def __init__(self, session: Session, patience: int) -> None:
        self.session, self.patience = session, patience

    def on_evaluate(self, data: Data, history: History) -> None:
        """Keep the state if it is the best."""
        self.session.data = remember_best(data, history)

    def ends(self, data: Data, history: History) -> bool:
        """Tell whether the best evaluation is long ago."""
        return out_of_patience(data, history, self.patience)

    def on_stop(self, data: Data, history: History) -> None:
        """Go back to the best state."""
        if "best" in data:
            history.returned = data.best["evaluation"]
            self.session.data = Data(**data.best["state"])


def remember_best(data: Data, history: History) -> Data:
    """Keep the state after the best evaluation so far; one without a value (NaN) is neither better nor worse."""
    value = history.mean("val_metric")[-1] * (1 if history.higher_is_better else -1)
    if math.isnan(value) or ("best" in data and value <= data.best["value"]):
        return data
    data = copy.copy(data)
    state = {name: data[name] for name in sorted(data.keys()) if name != "best"}
    data.best = {"value": value, "evaluation": len(history) - 1, "state": state}
    return data


def out_of_patience(data: Data, history: History, patience: int) -> bool:
    """Tell whether the best evaluation is long ago; evaluations without a value do not count."""
    if "best" not in data:
        return False
    since = history.values["val_metric"][data.best["evaluation"] + 1 :]
    return len(since) >= patience and sum(not bool(values.isnan().all()) for values in since) >= patience
