"""Event targets: counts of events, and possibly censored times to an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graphcollab._base.errors import InvalidValueError
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab.data._sites import Sites
from graphcollab.data._values import is_missing
from graphcollab.data.losses import LOSSES, predicted_by

FEW = 5  # events at a site; with fewer, little can be learned or evaluated


def refuse_impossible(target: str, numbers: np.ndarray, at: Callable[[int], str], loss: Any) -> None:
    """Reject targets [N] that are not valid counts or times; the message names the first, formatted by ``at``."""
    predicted = predicted_by(loss)
    if predicted not in ("counts", "times"):
        return
    odd = (numbers < 0) | ((numbers != np.round(numbers)) & (predicted == "counts"))
    if odd.any():
        row = int(odd.argmax())
        raise InvalidValueError(
            f"column {target!r}",
            f"{at(row)} has {numbers[row]:g} in column {target!r}, and {setting(loss=loss)} needs {LOSSES[loss].needs}",
        )


def read_events(name: str, values: np.ndarray, sites: Sites) -> np.ndarray:
    """Return the values of the event column, [N], as 0, 1 and 2."""
    odd = np.array([one not in (0, 1, 2) for one in values.tolist()])
    if odd.any():
        row = int(odd.argmax())
        one = values.tolist()[row]
        drop = f", or leave such rows out by {setting(drop_missing_target=True)}" * is_missing(one)
        raise InvalidValueError(
            f"column {name!r}",
            f"{sites.at(row)} has {one!r} in column {name!r} of events: write 1 and 0, 2 and 1, true and false{drop}",
        )
    return values.astype(np.float64)


def coded(name: str | None, events: np.ndarray, every: Iterable[float]) -> tuple[np.ndarray, list[Finding]]:
    """Return events as 0 and 1, given the values used at all sites, with a finding if they were coded 1 and 2."""
    numbers = {*every}
    if 2 not in numbers:
        return events, []
    if 0 in numbers:
        raise InvalidValueError(
            f"column {name!r}", f"column {name!r} of events has 0 and 2: write 1 where the event was seen, otherwise 0"
        )
    message = f"column {name!r} has 1 and 2: 2 is taken for rows in which the event was seen, 1 for others"
    return events - 1, [Finding("event-coding", f"column {name!r}", message)]


def of_few_events(name: str, sites: Sequence[str], owner: np.ndarray, events: np.ndarray) -> list[Finding]:
    """Return the finding that some sites have few events."""
    counts = np.bincount(owner, events, len(sites)).astype(int).tolist()
    low = {site: count for site, count in zip(sites, counts, strict=True) if count < FEW}
    which = few([f"{site!r} {count}" for site, count in low.items()])
    message = (
        f"by column {name!r} fewer than {FEW} events were seen at some sites ({which}), of which little can be learned "
        "and less be told: merge such sites, or leave them out"
    )
    return [Finding("few-events", f"column {name!r}", message, {"sites": [*low]})] * bool(low)
