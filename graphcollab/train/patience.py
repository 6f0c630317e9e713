"""The best evaluation of a run so far, and when it is so long ago that the run stops."""

from __future__ import annotations

import copy
import math

from torch_geometric.data import Data

from graphcollab.train.history import History

__all__ = ["forget_evaluation", "out_of_patience", "remember_best"]


def forget_evaluation(history: History, round_: int) -> None:
    """Take a round's evaluation out of the history, if it is the last one there."""
    if history.rounds and history.rounds[-1] == round_:
        history.rounds.pop()
        history.seconds.pop()
        for values in history.values.values():
            values.pop()


def remember_best(data: Data, history: History) -> Data:
    """Keep the state after the best evaluation so far; one without a value (NaN) is neither better nor worse."""
    value = history.mean("val_metric")[-1] * (1 if history.higher_is_better else -1)
    if math.isnan(value) or ("best" in data and value <= data.best["value"]):
        return data
    data = copy.copy(data)
    state = {name: data[name] for name in sorted(data.keys()) if name != "best"}
    data.best = {"value": value, "evaluation": len(history) - 1, "state": state}
    return data


def out_of_patience(data: Data, history: History, patience: int | None) -> bool:
    """Tell whether the best evaluation is long ago; read off the state, so that a resumed run stops there too.

    Evaluations without a value do not count.
    """
    if patience is None or "best" not in data:
        return False
    since = history.values["val_metric"][data.best["evaluation"] + 1 :]
    return len(since) >= patience and sum(not bool(values.isnan().all()) for values in since) >= patience
