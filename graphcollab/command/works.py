"""All that commands do, by name, and what they take as a text that is read before anything of it is imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphcollab._version import __version__
from graphcollab.command.comparing import BENEFIT, COMPARE
from graphcollab.command.listing import DATASETS, METHODS, SHOW
from graphcollab.command.predicting import PREDICT
from graphcollab.command.rehearsing import SITE
from graphcollab.command.work import Work

__all__ = ["WORKS", "declared", "play"]

WORKS: Mapping[str, Work] = {one.name: one for one in (COMPARE, BENEFIT, PREDICT, SITE, METHODS, DATASETS, SHOW)}


def play(name: str, config: Path | None, quiet: bool, given: Mapping[str, Any]) -> None:
    """Do what a command was asked for."""
    WORKS[name].start(config, quiet, given)


def declared() -> str:
    """Return what all commands take, as the text of graphcollab_command/declared.json."""
    told = {"version": __version__, "commands": {name: one.declared() for name, one in WORKS.items()}}
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"
