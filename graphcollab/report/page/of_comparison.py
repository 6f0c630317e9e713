"""What a page says of a comparison of methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab.checks import own_filter
from graphcollab.report._text import MISSING, Cells
from graphcollab.report.page.calibration import calibration_section
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.comparison_answer import answer
from graphcollab.report.page.comparison_asked import asked
from graphcollab.report.page.content import Content, Section, Table
from graphcollab.report.page.graph_words import graph_section
from graphcollab.report.page.over_rounds import curve_section
from graphcollab.report.page.repeating import made, repeating
from graphcollab.report.page.travelled import bytes_section
from graphcollab.report.site_table import SiteScores, site_table
from graphcollab.report.tables import paired_cells, results_cells
from graphcollab.train import Comparison, Result

__all__ = ["content_of_comparison"]

BROAD = 8  # columns of a table of nodes that a desktop's screen has room for


def content_of_comparison(
    comparison: Comparison, reference: str | None, metrics: Any, title: str, commands: Sequence[str]
) -> Content:
    """Return what a page says of a comparison."""
    if reference is None and "local" in comparison.chosen:
        reference = "local"
    last = _last(comparison)
    sites = None
    if last:
        with own_filter("ignore", ".* is not defined for"):  # notes below the table say so
            sites = site_table(comparison, metrics, reference if reference in last else None)
    sections = [
        _methods(comparison, reference),
        *([] if sites is None else [_sites(sites)]),
        *graph_section(last),
        *curve_section(comparison),
        *calibration_section(last),
        *bytes_section(comparison),
        *repeating(_settings(last), commands, [_chosen(comparison)]),
    ]
    return Content(
        title or "Who learns best, and with whom",
        asked(comparison, last, reference),
        answer(comparison, reference, sites),
        sections,
        made(),
    )


def _last(comparison: Comparison) -> dict[str, Result]:
    """Return the results of the last seed, as the table of sites has them; none where samples are not all here."""
    last = next(iter(comparison.chosen.values()))[-1].seed
    kept = {name: result for name, result in comparison.results.items() if result.env.seed == last}
    tested = all(int(result.tasks.sizes("test").sum()) for result in kept.values() if "test" in result.tasks.splits)
    return kept if tested and all("test" in result.tasks.splits for result in kept.values()) else {}


def _methods(comparison: Comparison, reference: str | None) -> Section:
    tables = [table_of("Every method, in the mean over nodes", results_cells(comparison), searched=True)]
    if reference is not None and len(comparison.chosen) > 1:
        tables.append(table_of(f"Differences to {reference}, paired over seeds", paired_cells(comparison, reference)))
    return Section("methods", "Methods", tables=tables)


def _sites(sites: SiteScores) -> Section:
    parts = [part for m in range(len(next(iter(sites.scores.values())).metrics)) for part in _fitting(sites, m)]
    notes, many = [note for note in sites.notes if note], len(parts)
    tables = [
        table_of(caption, cells, 2, searched=True, notes=notes * (n == many), parts=many)
        for n, (caption, cells) in enumerate(parts, 1)
    ]
    handled = "Press a column's title to sort by it; of many nodes, type a name to find one."
    return Section("nodes", "Node by node", tables=tables, handled=handled)


def _fitting(sites: SiteScores, m: int) -> list[tuple[str, Cells]]:
    """Return the table of a metric with its caption; where a screen is too narrow for it, differences, then values."""
    caption, cells = f"Every node, {next(iter(sites.scores.values())).metrics[m].name}", sites.cells([m])
    if len(cells.header) <= BROAD or not sites.differences:
        return [(caption, cells)]
    methods, named = [*sites.scores], 2
    values = range(named, named + len(methods))
    against = [*range(named), values[methods.index(str(sites.reference))], *range(values.stop, len(cells.header))]
    return [
        (f"{caption}: differences to {sites.reference}", _columns(cells, against)),
        (caption, _columns(cells, range(values.stop))),
    ]


def _columns(cells: Cells, which: Sequence[int]) -> Cells:
    return Cells([cells.header[n] for n in which], [[row[n] for n in which] for row in cells.rows], cells.notes)


def _chosen(comparison: Comparison) -> Table:
    """Return which settings were chosen, a row for every method."""
    rows = []
    for name, trials in comparison.chosen.items():
        tried = {repr(dict(trial.setting)) for trial in comparison.trials if trial.method == name}
        often = Counter(", ".join(f"{k}={v}" for k, v in trial.setting.items()) or "defaults" for trial in trials)
        took = "; ".join(f"{setting} ({n})" if len(often) > 1 else setting for setting, n in often.most_common())
        rows.append([name, str(len(tried) or MISSING), took])
    seeds = ", ".join(str(trial.seed) for trial in next(iter(comparison.chosen.values())))
    several = "In brackets on how many seeds." * any("(" in row[2] for row in rows)
    return table_of(
        f"Chosen by validation data on every seed ({seeds})",
        Cells(["method", "settings tried", "chosen"], rows),
        notes=[several],
    )


def _settings(last: Mapping[str, Result]) -> dict[str, str]:
    """Return all settings by method, of the last seed."""
    return {name: repr(result.method) for name, result in last.items()}
