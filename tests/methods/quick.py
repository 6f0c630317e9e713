"""Methods with settings under which two or three small rounds show what they do."""

from __future__ import annotations

import inspect
from typing import Any

from graphcollab import methods
from graphcollab.method import Method
from graphcollab.methods._peers import Training
from graphcollab.phases import Phases

# Each setting is given to the methods that have it.
QUICK = {"epochs": 2, "batch_size": 4, "lr": 0.1, "drop_round": 0, "drop_fraction": 0.5, "fraction": 0.5, "samples": 2}


def settings_of(name: str) -> set[str]:
    """Return the names of a method's settings."""
    known = inspect.signature(methods.get_method(name)).parameters
    passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    return {*known, *Training.__annotations__} if passes_on else {*known}


def quick(name: str, **settings: Any) -> Method | Phases:
    """Make a method with quick settings, and others of those it has."""
    known = settings_of(name)
    given = {key: value for key, value in {**QUICK, **settings}.items() if key in known}
    return methods.get_method(name)(**given)
