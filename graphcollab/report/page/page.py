"""`page`: one HTML file with the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from graphcollab._base.checks import issue
from graphcollab._base.files import write_whole
from graphcollab._base.findings import Finding
from graphcollab._base.ranges import printable
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.metrics.scores import AnyMetrics
from graphcollab.comm import is_main_process
from graphcollab.report.description import Description
from graphcollab.report.page.charts import Content, Section, libraries
from graphcollab.report.page.sections import content_of_benefit, content_of_comparison, content_of_description
from graphcollab.report.tables import versions
from graphcollab.report.values import Cell, Table, shown

LARGEST = 5_000_000  # maximum size of a page in bytes
MOST_CELLS, FEWEST_ROWS = 40_000, 50  # for the tables of a section
MOST_SAID = 12  # maximum number of findings of a section that are not folded

Found: TypeAlias = Comparison | Benefit | Description


@shown
def page(
    found: Found,
    path: str | Path,
    reference: str | None = None,
    metrics: AnyMetrics = None,
    title: str = "",
    commands: Sequence[str] = (),
    source: str = "",
    inside: Sequence[Table] = (),
    models: Sequence[str] = (),
) -> Path:
    """Write the results as one HTML page, atomically, and return its path.

    The page opens from disk without a network. It contains nodes' names and results, but no samples; for a table, the
    findings of `describe_table`, which include names of categories and the minimum and maximum of columns. It needs
    ``pip install 'graphcollab[page]'``.

    In a run with several processes, all of them call it, and the main process writes. With sites, each site writes its
    own page, with the results of all; calibration is omitted there, since it would need counts of single predictions.

    Args:
        found: The output of `compare`, `graphcollab.benefit` or `describe_table`.
        path: File to write; an existing file is replaced.
        reference: Name of the method that others are compared with. Default: ``"local"`` if it is one of the methods. A
            benefit is always relative to training alone.
        metrics: Metrics of a comparison's table of nodes. Default: the tasks' own.
        title: Title of the page. Default: one that states the kind of page.
        commands: Command lines that reproduce the results, as they should be shown.
        source: Name of the data, such as their file.
        inside: Tables about the models, such as the output of `importance_table`.
        models: Statements about saved models.

    Raises:
        ModuleNotFoundError: If a library is not installed; the message says what to install.
        ValueError: If no method has the reference's name, or there is nothing to show.
    """
    libraries()  # fail before any work is lost
    if isinstance(found, Benefit):
        content = content_of_benefit(found, title, source)
    elif isinstance(found, Description):
        content = content_of_description(found, title)
    else:
        content = content_of_comparison(found, reference, metrics, title, source)
    if inside or models:
        more = Section("models", "The models", [*models], tables=inside)
        content = replace(content, sections=[*content.sections[:-1], more, content.sections[-1]])
    if not is_main_process():
        return Path(path)
    written = _written(content, commands).encode()
    if len(written) > LARGEST:
        message = (
            f"the page has {len(written) / 1e6:.1f} MB, more than the {LARGEST / 1e6:.0f} MB that open quickly "
            "everywhere: put fewer methods, or fewer metrics, on one page"
        )
        issue("quality", f"file {path}", message)
    return write_whole(path, written)


def _written(content: Content, commands: Sequence[str]) -> str:
    from jinja2 import Environment

    repeat = Section("repeat", "To repeat it", code="\n".join(commands))
    sections = [*content.sections, *[repeat] * bool(commands)]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_finalized)
    environment.filters |= {"fitted": fitted}
    return environment.from_string(_beside("template.html")).render(
        page=content,
        most=MOST_SAID,
        sections=sections,
        style=_beside("style.css"),
        made=f"Written on {date.today().isoformat()} by {', '.join(map(' '.join, versions().items()))}.",
        **libraries(),
    )


def fitted(table: Table, parts: int = 1) -> Table:
    """Return a table truncated to the rows that fit on a page, with all their cells, shared by ``parts`` tables."""
    width = len(table.columns)
    rows = [[*row, *[Cell()] * (width - len(row))] for row in table.rows]
    body, end = rows[: len(rows) - table.foot], rows[len(rows) - table.foot :]
    most = max(FEWEST_ROWS, MOST_CELLS // (parts * width))
    if len(body) <= most:
        return replace(table, rows=rows)
    said = f"Of {len(body)} rows the first {most} are here; the table that Python prints has all."
    return replace(table, rows=[*body[:most], *end]).noting(Finding("rows", "table", said, {"rows": len(body)}))


def _finalized(value: Any) -> Any:
    """Return text with control characters and direction marks encoded; scripts and styles are unchanged."""
    if isinstance(value, Finding):
        value = str(value)
    return printable(value) if type(value) is str else value


def _beside(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
