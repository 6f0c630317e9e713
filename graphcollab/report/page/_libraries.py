"""The one place where graphcollab imports what pages are made with, when it is first needed."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Any

from graphcollab.extras import import_extra

__all__ = ["altair", "charts_script", "tables_script", "tables_style"]


def altair() -> Any:
    """Return the package ``altair``; a ModuleNotFoundError says how to get it."""
    return import_extra("altair", "pages", "page")


@cache
def charts_script() -> str:
    """Return the JavaScript that draws charts, in base64, in which no tag of HTML can stand."""
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return b64encode(
        import_extra("vl_convert", "pages", "page").javascript_bundle(vl_version=version).encode()
    ).decode()


@cache
def tables_script() -> str:
    """Return the JavaScript that makes tables sort and search, in base64."""
    return b64encode(_of_tables("dt_bundle.js").encode()).decode()


@cache
def tables_style() -> str:
    """Return how such tables look, as CSS."""
    return _of_tables("dt_bundle.css")


def _of_tables(name: str) -> str:
    import_extra("itables", "pages", "page")
    return files("itables").joinpath("html", name).read_text(encoding="utf-8")
