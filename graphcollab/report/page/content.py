"""What a page holds, before it is rendered: sections of findings, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphcollab.findings import Finding
from graphcollab.report.values import Table


@dataclass(frozen=True)
class Chart:
    """A chart: its place ``name``, a caption for who does not see it, its Vega-Lite ``spec``, and its numbers."""

    name: str
    caption: str
    spec: Mapping[str, Any] = field(repr=False)
    table: Table


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it, in this order; ``name`` is its anchor, ``more`` and ``folded`` unfold."""

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
    """A whole page: the question, the answer, the headline first, and the sections that it rests on."""

    title: str
    asked: str
    answer: Sequence[Finding]
    sections: Sequence[Section]
