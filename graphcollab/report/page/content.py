"""What a page holds, before it is rendered, and the libraries it is made with, imported when they are first needed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from graphcollab.extras import import_extra
from graphcollab.findings import Finding
from graphcollab.report.values import Table


@dataclass(frozen=True)
class Chart:
    """A chart.

    Args:
        name: Its place in the page, such as ``"accuracy"``.
        caption: What it shows, for readers who do not see it.
        spec: The Vega-Lite specification, as JSON.
        table: The numbers behind it.
    """

    name: str
    caption: str
    spec: Mapping[str, Any] = field(repr=False)
    table: Table


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it, in this order.

    Args:
        name: Its anchor.
        title: The heading.
        said: Sentences.
        charts: Charts.
        tables: Tables.
        folded: Settings, which unfold.
        code: Lines to type.
    """

    name: str
    title: str
    said: Sequence[Finding | str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    folded: str = ""
    code: str = ""


@dataclass(frozen=True)
class Content:
    """A whole page.

    Args:
        title: Its title.
        asked: The question.
        answer: The answer, the headline first.
        sections: What it rests on.
    """

    title: str
    asked: str
    answer: Sequence[Finding]
    sections: Sequence[Section]


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
