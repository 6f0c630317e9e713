"""The content of a page: sections of findings, tables and charts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from io import BytesIO
from typing import Any

from graphcollab._base.extras import import_extra
from graphcollab._base.findings import Finding
from graphcollab.report.values import Table


@dataclass(frozen=True)
class Chart:
    """A chart: its anchor ``name``, an alternative text ``caption``, its picture as data URL, and its numbers."""

    name: str
    caption: str
    picture: str = field(repr=False)
    table: Table


@dataclass(frozen=True)
class Section:
    """A heading with its content in this order; ``name`` is its anchor, ``more`` and ``folded`` are collapsed."""

    name: str
    title: str
    said: Sequence[Finding | str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    more: Sequence[Table] = ()
    terms: Sequence[tuple[str, str]] = ()
    folded: str = ""
    code: str = ""


@dataclass(frozen=True)
class Content:
    """A whole page: the question, the answer with the headline first, and the sections that support it."""

    title: str
    asked: str
    answer: Sequence[Finding]
    sections: Sequence[Section]


def libraries() -> dict[str, str]:
    """Return the style and the script that sort tables, the latter base64-encoded so that it contains no HTML tags."""
    import_extra("matplotlib", "pages", "page")
    import_extra("itables", "pages", "page")
    tables = files("itables").joinpath("html")
    script = tables.joinpath("dt_bundle.js").read_text(encoding="utf-8")
    style = tables.joinpath("dt_bundle.css").read_text(encoding="utf-8")
    return {"tables_script": b64encode(script.encode()).decode(), "tables_style": style}


def drawn(name: str, caption: str, figure: Any, table: Table) -> Chart:
    """Return a figure as a chart, an SVG of its own in which nothing of the page can be confused."""
    content = BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    return Chart(name, caption, f"data:image/svg+xml;base64,{b64encode(content.getvalue()).decode()}", table)
