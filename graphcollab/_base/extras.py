"""Optional packages, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from graphcollab._base.errors import MissingPackageError


def import_extra(name: str, who: str, extra: str) -> Any:
    """Import the package ``name`` of an ``extra``; a MissingPackageError says ``who`` needs it and how to get it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        text = f"{who} need {name}, which is not installed: pip install 'graphcollab[{extra}]'"
        raise MissingPackageError(name, text) from error
