"""Methods with settings under which two or three small rounds show what they do."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from graphcollab import Method, Phases, methods
from graphcollab.engine import AddNoise

# Each setting is given to the methods that have it.
QUICK = {"epochs": 2, "batch_size": 4, "lr": 0.1, "drop_round": 0, "drop_fraction": 0.5, "fraction": 0.5, "samples": 2}
QUICK["augment"] = AddNoise(0.1)  # drawn from the same streams as the default's crops, which take twice a round's time
# With these, all phases of a method are reached in the second round.
EARLY = {"chosen": 1, "neighbors": 2, "every": 1, "warmup": 1, "explore_rounds": 1, "learn_rounds": 1}


@functools.cache
def settings_of(name: str) -> frozenset[str]:
    """Return the names of a method's settings."""
    return frozenset(inspect.signature(methods.get_method(name)).parameters)


def quick(name: str, **settings: Any) -> Method | Phases:
    """Make a method with quick settings, and others of those it has."""
    known = settings_of(name)
    given = {key: value for key, value in {**QUICK, **settings}.items() if key in known}
    return methods.get_method(name)(**given)


def early(name: str, **settings: Any) -> Method | Phases:
    """Make a method with quick settings, under which every phase is played in two rounds."""
    return quick(name, **{**EARLY, **settings})
