"""How to repeat what a page tells of: settings, versions, commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from graphcollab._version import __version__
from graphcollab.report._text import Cells
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.content import Section, Table
from graphcollab.report.results_json import versions

__all__ = ["made", "repeating"]


def repeating(settings: Mapping[str, str], commands: Sequence[str], tables: Sequence[Table] = ()) -> Iterator[Section]:
    """Yield the last sections of a page."""
    told = "\n\n".join(f"{name}:\n{text}" for name, text in settings.items())
    yield Section("settings", "Settings", tables=tables, folded=told)
    cells = Cells(["package", "version"], [[name, version] for name, version in versions().items()])
    yield Section("versions", "Versions", tables=[table_of("What numbers depend on", cells)])
    none = "The page was made from Python, and no commands were given to it: page(..., commands=[...])."
    yield Section("repeat", "To repeat it", [none] * (not commands), code="\n".join(commands))


def made() -> str:
    """Say when a page was written, and by what."""
    return f"Written on {date.today().isoformat()} by graphcollab {__version__}."
