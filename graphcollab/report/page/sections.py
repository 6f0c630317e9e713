"""The content of the page of a comparison or a benefit: the answer, and the sections that support it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from graphcollab._base.checks import own_filter
from graphcollab._base.naming import few
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.baseline import BASELINES
from graphcollab.analysis.held import asked
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.report.benefit_table import benefit_values, gain_cell, of_metric, scale_of, sites_of_benefit, way_of
from graphcollab.report.comparison_answer import comparison_findings, details_of, doubts_about, last_results
from graphcollab.report.description import Description, columns_described, sites_described, summary
from graphcollab.report.page.charts import Chart, Content, Section, drawn
from graphcollab.report.page.drawn import calibration_section, curve_section, graph_section
from graphcollab.report.site_table import site_table, sites_of_comparison
from graphcollab.report.tables import paired_table, results_table
from graphcollab.report.values import Cell, Table, without_repeats
from graphcollab.report.words import asked_of, metric_in_words, rows_used, terms_of_benefit, terms_of_comparison
from graphcollab.train import Result

ANSWER = ("evidence", "best", "alone-weak", "last-round", "no-better", "no-better-weighted", "doubt", "advice")
TUNED = "Step sizes and rounds were chosen on validation data, those of training alone as those of the others."
MOST_SITES = 60  # maximum for a matrix, for a page of at most 5 MB


def content_of_comparison(
    comparison: Comparison, reference: str | None, metrics: Any, title: str, source: str
) -> Content:
    """Return the content of a comparison's page."""
    if reference is None and "local" in comparison.chosen:
        reference = "local"
    last, sites = last_results(comparison), None
    if last:
        with own_filter("ignore", code="quality", subject="metric"):  # stated in notes below the table
            sites = site_table(comparison, metrics, reference if reference in last else None)
    tables = [results_table(comparison)]
    if reference is not None and len(comparison.chosen) > 1:
        tables.append(paired_table(comparison, reference))
    details = [*details_of(comparison, reference, sites)]
    settings = "\n\n".join(f"{name}:\n{result.method!r}" for name, result in last.items())
    first = [] if sites is None or not sites.others else [sites_of_comparison(sites, str(sites.reference))]
    sections = [
        *([] if sites is None else [Section("sites", "Site by site", tables=first, more=sites.tables)]),
        Section("details", "Details", details, tables=without_repeats(tables, details)),
        *([Section("doubts", "Doubts about the data", doubts)] if (doubts := doubts_about(last)) else []),
        *graph_section(last),
        *curve_section(comparison),
        *calibration_section(last),
        Section("words", "What words mean", terms=terms_of_comparison(comparison)),
        Section("settings", "Settings", folded=settings),
    ]
    asked, answer = _asked(comparison, last, source), comparison_findings(comparison, reference)
    return Content(title or "Who learns best, and with whom", asked, answer, sections)


def _asked(comparison: Comparison, last: Mapping[str, Result], source: str) -> str:
    about = next((asked([result.tasks]) for result in last.values()), {})
    names = [name for name in comparison.chosen if name not in BASELINES]
    by = metric_in_words(comparison.metric, comparison.higher_is_better)
    seeds = len(next(iter(comparison.chosen.values())))
    which = f"Which of {few(names)} gives sites the best models of their own?"
    judged = f"Judged by {by}, on {seeds} random split{'s' * (seeds > 1)}{rows_used(about)}."
    return " ".join(filter(None, [asked_of(about, source), which, judged]))


def content_of_benefit(benefit: Benefit, title: str, source: str) -> Content:
    """Return the content of a benefit's page."""
    asked, *found = benefit_findings(benefit, source)
    every = [benefit, *benefit.also.values()]
    charts = [chart for k, one in enumerate(every) for chart in _matrix(one, k)]
    drawn = [chart for k, one in enumerate(every) for chart in _gains(one, k)]
    tables = benefit_values(benefit)
    simple = [tables.pop(name) for name in [*tables] if name.startswith("reference")]
    sections = [
        Section("sites", "Site by site", [], drawn, [sites_of_benefit(benefit)], [*tables.values()]),
        Section("details", "Details", [*(one for one in found if one.code not in ANSWER), TUNED], tables=simple),
        *([Section("pairs", "Who gains by whom", charts=charts)] if charts else []),
        Section("words", "What words mean", terms=terms_of_benefit(benefit)),
        Section("settings", "Settings", folded=_settings(benefit)),
    ]
    answer = [one for one in found if one.code in ANSWER]
    return Content(title or "What collaborating brings", str(asked), answer, sections)


def _gains(benefit: Benefit, place: int) -> Iterator[Chart]:
    unit = scale_of(benefit)[2]
    names = [*benefit.names[:MOST_SITES], "all sites"]
    every = [gain for gain in (*benefit.gains, *benefit.overall) if gain.site in names and gain.by in benefit.arms]
    every = [gain for gain in every if not (benefit.untold(gain.by) or math.isnan(gain.gain))]
    rows = [[Cell(gain.site), Cell(way_of(gain.by)), gain_cell(benefit, gain)] for gain in every]
    what = f"gain{unit if benefit.relative else f', {of_metric(benefit)}'}"
    caption = (
        f"What each of {len(names) - 1} sites of {len(benefit.names)} gains over training alone ({what}), with 95 % "
        "intervals of one comparison alone; a filled mark is evidence after correction for all. What lies beyond the "
        "axis is drawn at its end."
    )
    if rows:
        from graphcollab.report.figures.bars import gain_bars

        gains = {way.text: {site.text: gain for site, by, gain in rows if by == way} for _, way, _ in rows}
        table = Table(["site", "by", what], rows, caption=what)
        yield drawn(f"gains-{place}", caption, gain_bars(gains, what), table)


def _matrix(benefit: Benefit, place: int) -> Iterator[Chart]:
    unit = scale_of(benefit)[2]
    names = benefit.names[:MOST_SITES]
    gains = [g for g in benefit.pair_gains if {g.site, g.by} <= {*names} and not math.isnan(g.gain)]
    gains.sort(key=lambda gain: -abs(gain.gain))
    rows = [[Cell(gain.site), Cell(gain.by), gain_cell(benefit, gain)] for gain in gains]
    what = f"gain{unit if benefit.relative else f', {of_metric(benefit)}'}"
    caption = (
        f"What each site gains by each other when the two collaborate alone ({what}), of {len(names)} of "
        f"{len(benefit.names)} sites. Purple is a gain, orange a loss; pairs that were not tried are empty."
    )
    table = Table(["who", "by whom", what], rows, caption=what)
    if rows and not benefit.by_constants("pairs"):  # constants say nothing about single pairs
        from graphcollab.report.figures.bars import gain_matrix

        scale = scale_of(benefit)[0]
        found = scale * benefit.matrix[: len(names), : len(names)]
        yield drawn(f"matrix-{place}", caption, gain_matrix(found, names, what), table)


def _settings(benefit: Benefit) -> str:
    chosen = [
        f"chosen for {arm}: {', '.join(str(one or benefit.flat) for one in some)}"
        for arm, some in benefit.picked.items()
    ]
    return "\n".join([f"work: {benefit.work}", f"level: {benefit.level:g}", *chosen])


def content_of_description(description: Description, title: str) -> Content:
    """Return the content of the page of a table before any run."""
    sections = [
        Section("sites", "Site by site", tables=[sites_described(description)]),
        Section("columns", "Columns", tables=[columns_described(description)]),
        Section("doubts", "Doubts about the data", [*description.findings] or ["None were found."]),
    ]
    asked = f"What is in {description.source or 'the table'}, and is it fit for a run?"
    return Content(title or "What the table holds", asked, summary(description), sections)
