"""`page`: one HTML file that says what was found."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from graphcollab.checks import warn
from graphcollab.distributed import speaks
from graphcollab.files import write_whole
from graphcollab.gains import Benefit
from graphcollab.metrics.scores import AnyMetrics
from graphcollab.report._text import shown
from graphcollab.report.page._libraries import altair, charts_script, tables_script, tables_style
from graphcollab.report.page.colours import styles
from graphcollab.report.page.content import Content, Words, in_print, worded
from graphcollab.report.page.of_benefit import content_of_benefit
from graphcollab.report.page.of_comparison import content_of_comparison
from graphcollab.train import Comparison

__all__ = ["page", "page_in_words"]

LARGEST = 5_000_000  # bytes of a page

Found: TypeAlias = Comparison | Benefit


@shown
def page(
    found: Found,
    path: str | Path,
    reference: str | None = None,
    metrics: AnyMetrics = None,
    title: str = "",
    commands: Sequence[str] = (),
) -> Path:
    """Write what was found as one page of HTML, whole or not at all, and return its path.

    The page opens from disk without a network; of a thousand nodes it is about 3 MB, and a warning says so if it has
    more than 5. It has what was asked, the answer in three sentences with its uncertainty, a table with a row per node
    that sorts and can be searched by name, the graph of who listens to whom with a slider over the rounds that
    `graphcollab.train.RecordGraph` kept, the metric over rounds, whether probabilities mean what they say, bytes,
    settings, versions and the commands. Of a benefit it has the matrix of pairwise gains. Numbers are those of
    `results_table`, `paired_table`, `site_table` and `benefit_table`. Where nodes or rounds are too many to draw, it
    says what it leaves out. It needs ``pip install 'graphcollab[page]'``.

    In a run of several processes all of them call it, and the first writes. Between sites each writes its own, with
    what all have reached; calibration is left out there, as it would take counts of single predictions.

    The page holds names of nodes and what they have reached, so whoever has it knows them; it holds no sample.

    Args:
        found: What `compare` or `graphcollab.benefit` returns.
        path: File to write; one that is there is replaced.
        reference: Name of the method that others are compared with. Default: ``"local"`` where it is among them. A
            benefit is always one over training alone.
        metrics: Metrics of the table of nodes of a comparison. Default: the tasks' own.
        title: Title of the page. Default: one that says which kind of page it is.
        commands: Lines to type that repeat it, as they are to be shown.

    Raises:
        ModuleNotFoundError: If a library is not installed; it says what to install.
        ValueError: If there is no method of the reference's name, or nothing to show.
    """
    return page_in_words(found, path, reference, metrics, title, commands)


def page_in_words(
    found: Found,
    path: str | Path,
    reference: str | None = None,
    metrics: AnyMetrics = None,
    title: str = "",
    commands: Sequence[str] = (),
    words: Words = str,
) -> Path:
    """Write a page as `page` does, with its sentences in other ``words``, such as those of the command line."""
    altair()  # before any work is lost
    if isinstance(found, Benefit):
        content = content_of_benefit(found, title, commands)
    else:
        content = content_of_comparison(found, reference, metrics, title, commands)
    if not speaks():
        return Path(path)
    written = _written(in_print(worded(content, words))).encode()
    if len(written) > LARGEST:
        warn(
            f"the page has {len(written) / 1e6:.1f} MB, more than the {LARGEST / 1e6:.0f} MB that open quickly "
            "everywhere: put fewer methods, or fewer metrics, on one page",
            UserWarning,
        )
    return write_whole(path, written)


def _written(content: Content) -> str:
    """Return the page's text; everything that others have named is escaped."""
    from jinja2 import Environment

    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_beside("template.html"))
    scripts = {"charts_script": charts_script(), "tables_script": tables_script(), "tables_style": tables_style()}
    specs = {chart.name: chart.spec for section in content.sections for chart in section.charts}
    return made.render(page=content, specs=specs, style=_beside("style.css"), colours=styles(), **scripts)


def _beside(name: str) -> str:
    """Return the text of a file beside this one."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
