"""What runs between sites cannot be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphcollab.errors import UnsupportedError
from graphcollab.train.run import BETWEEN_PARTIES

_OF_ALL = {"owner": "each site has its own samples, and no others", **BETWEEN_PARTIES}

ONE_RUN: Mapping[str, str] = {
    "tasks": "each site has its own samples, which it gives to site(...)",
    "graph": "each site says by listeners= who hears it",
    **_OF_ALL,
}
"""Settings of `Site.run` that are refused."""

MANY_RUNS: Mapping[str, str] = {"jobs": "all sites play the same run at a time", **_OF_ALL}
"""Settings of `Site.compare` and `Site.benefit` that are refused."""


def refuse(settings: Iterable[str], refused: Mapping[str, str]) -> None:
    """Check that no setting is among those that are refused; else a ValueError names it, and says why."""
    for name in settings:
        if name in refused:
            raise UnsupportedError(name, f"{name} cannot be given between sites: {refused[name]}")
