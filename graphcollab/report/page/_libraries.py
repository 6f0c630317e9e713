"""The one place where graphcollab imports what pages are made with, when it is first needed."""

from __future__ import annotations

import importlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["altair", "charts_script", "tables_script", "tables_style"]


def altair() -> Any:
    """Return the package ``altair``; a ModuleNotFoundError says how to get it."""
    return _import("altair")


@cache
def charts_script() -> str:
    """Return the JavaScript that draws charts, in base64, in which no tag of HTML can stand."""
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return b64encode(_import("vl_convert").javascript_bundle(vl_version=version).encode()).decode()


@cache
def tables_script() -> str:
    """Return the JavaScript that makes tables sort and search, in base64."""
    return b64encode(_of_tables("dt_bundle.js").encode()).decode()


@cache
def tables_style() -> str:
    """Return how such tables look, as CSS."""
    return _of_tables("dt_bundle.css")


def _of_tables(name: str) -> str:
    _import("itables")
    return files("itables").joinpath("html", name).read_text(encoding="utf-8")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        text = f"pages need {name}, which is not installed: pip install 'graphcollab[page]'"
        raise ModuleNotFoundError(text, name=name) from error
