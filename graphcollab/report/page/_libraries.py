"""The one place where graphcollab imports what pages are made with, when it is first needed."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Any

from graphcollab.extras import import_extra


def altair() -> Any:
    """Return the package ``altair``."""
    return import_extra("altair", "pages", "page")


@cache
def libraries() -> dict[str, str]:
    """Return the scripts that draw charts and sort tables, in base64, in which no tag of HTML can stand, and styles."""
    import_extra("itables", "pages", "page")
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    charts = import_extra("vl_convert", "pages", "page").javascript_bundle(vl_version=version)
    tables = files("itables").joinpath("html")
    scripts = {"charts_script": charts, "tables_script": tables.joinpath("dt_bundle.js").read_text(encoding="utf-8")}
    styles = {"tables_style": tables.joinpath("dt_bundle.css").read_text(encoding="utf-8")}
    return {name: b64encode(script.encode()).decode() for name, script in scripts.items()} | styles
