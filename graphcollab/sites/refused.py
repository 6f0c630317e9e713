"""What cannot be asked for between sites, and why."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

from graphcollab.errors import InvalidTypeError, UnsupportedError
from graphcollab.methods import fedavg
from graphcollab.settings import unknown_argument
from graphcollab.train.run import BETWEEN_PARTIES, run

__all__ = ["MANY_RUNS", "ONE_RUN", "refuse", "require_of_run"]

OWN = {"owner": "each site has its own samples, and no others", **BETWEEN_PARTIES}

ONE_RUN: Mapping[str, str] = {
    "tasks": "each site has its own samples, which it gives to site(...)",
    "graph": "each site says by listeners= who hears it",
    **OWN,
}
"""Settings of `Site.run` that are refused."""

MANY_RUNS: Mapping[str, str] = {"jobs": "all sites play the same run at a time", **OWN}
"""Settings of `Site.compare` and `Site.benefit` that are refused."""


def refuse(settings: Iterable[str], refused: Mapping[str, str]) -> None:
    """Check that no setting is among those that are refused; else a ValueError names it, and says why."""
    for name in settings:
        if name in refused:
            raise UnsupportedError(name, f"{name} cannot be given between sites: {refused[name]}", public=True)


def require_of_run(settings: Iterable[str]) -> None:
    """Check that settings are those of a run; else a TypeError says which was meant, or which there are."""
    takes = [name for name in inspect.signature(run).parameters if name not in ONE_RUN]
    for name in settings:
        if name in inspect.signature(fedavg).parameters:
            raise InvalidTypeError(
                name, f"run() has no argument {name!r}: it is said of the method, such as fedavg({name}=...)"
            )
        if name not in {*takes, *ONE_RUN}:
            raise InvalidTypeError(name, unknown_argument("run", name, takes))
