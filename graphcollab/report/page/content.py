"""What a page holds, before it is written: headings, sentences, tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias

from graphcollab_command.wording import printable

__all__ = ["Cell", "Chart", "Content", "Section", "Table", "Words", "in_print", "worded"]

Words: TypeAlias = Callable[[str], str]
"""What is made of a sentence for who reads it."""


@dataclass(frozen=True)
class Cell:
    """What a table shows, and by which number it sorts there; None: by its text."""

    text: str
    order: float | None = None


@dataclass(frozen=True)
class Table:
    """A table; the first column names its rows.

    Args:
        caption: What it shows.
        header: Titles of columns.
        rows: Their cells.
        foot: Rows of means, which stay below the others.
        notes: What is to be said below it.
        searched: Whether it sorts and can be searched.
        words: Columns of words, which stand at the left.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    foot: Sequence[Sequence[Cell]] = ()
    notes: Sequence[str] = ()
    searched: bool = False
    words: Sequence[int] = ()


@dataclass(frozen=True)
class Chart:
    """A chart.

    Args:
        name: Its place in the page, such as ``"accuracy"``.
        caption: What it shows, in words that do without seeing it.
        spec: What Vega-Lite draws, as JSON.
        table: The numbers behind it, for who does not see it.
        controls: Whether something in it can be chosen or moved.
        square: Whether it is about as high as wide, so that words have room beside it.
    """

    name: str
    caption: str
    spec: Mapping[str, Any] = field(repr=False)
    table: Table
    controls: bool = False
    square: bool = False


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it, in this order.

    Args:
        name: Its anchor.
        title: The heading.
        said: Sentences.
        charts: Charts.
        tables: Tables.
        folded: All settings, which are seen when they are asked for.
        code: Lines to type.
        handled: How what stands there is handled on a screen; below the sentences, and not on paper.
    """

    name: str
    title: str
    said: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    folded: str = ""
    code: str = ""
    handled: str = ""


@dataclass(frozen=True)
class Content:
    """A whole page.

    Args:
        title: Its title.
        asked: What was asked.
        answer: The answer, sentence by sentence.
        sections: What it rests on.
        made: When it was made, and by what.
    """

    title: str
    asked: str
    answer: Sequence[str]
    sections: Sequence[Section]
    made: str = ""


def in_print(content: Any) -> Any:
    """Return a page, or a part of it, in which every text is `printable`."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, Mapping):
        return {in_print(name): in_print(one) for name, one in content.items()}
    if isinstance(content, list | tuple):
        return [in_print(one) for one in content]
    if is_dataclass(content) and not isinstance(content, type):
        return replace(content, **{one.name: in_print(getattr(content, one.name)) for one in fields(content)})
    return content


def worded(content: Content, words: Words) -> Content:
    """Return a page with its sentences in other words; names, numbers, settings and commands stay as they are."""

    def table(one: Table) -> Table:
        return replace(one, caption=words(one.caption), notes=[*map(words, one.notes)])

    def chart(one: Chart) -> Chart:
        return replace(one, caption=words(one.caption), table=table(one.table))

    def section(one: Section) -> Section:
        charts, tables = [*map(chart, one.charts)], [*map(table, one.tables)]
        return replace(one, said=[*map(words, one.said)], charts=charts, tables=tables, handled=words(one.handled))

    sections, answer = [*map(section, content.sections)], [*map(words, content.answer)]
    return replace(content, asked=words(content.asked), answer=answer, sections=sections)
