"""What a page holds, before it is rendered: sections of findings, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
