"""What summaries of runs are of, and in what units errors are."""

from __future__ import annotations

from collections.abc import Iterable

from graphcollab.metrics import METRICS
from graphcollab.tasks import Tasks

MISSING = {  # what a summary is of, the best first, and what is missing then
    "test_metric": "",
    "val_metric": (
        "no node has test samples: give `test` to Tasks.from_samples, or take tasks.hold_out(0.2, into='test')"
    ),
    "train_loss": (
        "no node has test or validation samples: give `test` and `val` to Tasks.from_samples, or take "
        "tasks.hold_out(0.2, into='test') and hold_out(0.2) of that"
    ),
}


def in_deviations(tasks: Tasks, metrics: Iterable[str]) -> str:
    """Say that errors are in standard deviations where targets were standardised, and how large one is."""
    told = tasks.preparation
    aim = None if told is None else told.target
    named = [name for name in metrics if name in METRICS and METRICS[name].unit]
    if told is None or aim is None or aim.categories is not None or set(aim.deviation) == {1.0} or not named:
        return ""
    one = f" (one is {aim.deviation[0]:.4g})" if not told.sites else " of every node's own"
    powers = {METRICS[name].unit for name in named}
    squared = "squared " if powers == {2} else ""
    also = ", mse in squared ones" if 2 in powers and not squared else ""
    return (
        f"{' and '.join(named)}: targets were standardised, so errors are in {squared}standard deviations of "
        f"{aim.name!r}{one}{also}"
    )
