"""What a page says of a comparison of methods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.naming import few
from graphcollab.report._terms import unequal_terms
from graphcollab.report._text import column, shown_in
from graphcollab.report.page.calibration import calibration_section
from graphcollab.report.page.charts import curve_chart
from graphcollab.report.page.comparison_answer import answer
from graphcollab.report.page.content import Content, Section
from graphcollab.report.page.graph import graph_section
from graphcollab.report.site_table import site_table
from graphcollab.report.tables import paired_values, results_values
from graphcollab.report.values import Cell, Column, Table, mean_cell
from graphcollab.train import Comparison, Result, Trial

MOST_POINTS = 200  # of a curve
STOPPED = "Curves end elsewhere than the tables where runs return the models of an earlier evaluation."


def content_of_comparison(comparison: Comparison, reference: str | None, metrics: Any, title: str) -> Content:
    """Return what a page says of a comparison."""
    if reference is None and "local" in comparison.chosen:
        reference = "local"
    last, sites = _last(comparison), None
    if last:
        with own_filter("ignore", code="quality", subject="metric"):  # notes below the table say so
            sites = site_table(comparison, metrics, reference if reference in last else None)
    tables = [results_values(comparison)]
    if reference is not None and len(comparison.chosen) > 1:
        tables.append(paired_values(comparison, reference))
    doubts = {str(finding): finding for result in last.values() for finding in result.tasks.findings}
    sections = [
        Section("methods", "Methods", tables=tables),
        *([] if sites is None else [Section("nodes", "Node by node", tables=sites.tables)]),
        *([Section("doubts", "Doubts about the data", [*doubts.values()])] if doubts else []),
        *graph_section(last),
        *curve_section(comparison),
        *calibration_section(last),
        Section(
            "settings",
            "Settings",
            folded="\n\n".join(f"{name}:\n{result.method!r}" for name, result in last.items()),
        ),
    ]
    found = [*answer(comparison, reference, sites), *unequal_terms(comparison)]
    return Content(title or "Who learns best, and with whom", _asked(comparison), found, sections)


def _asked(comparison: Comparison) -> str:
    """Say what was compared."""
    trials = next(iter(comparison.chosen.values()))
    direction = "more" if comparison.higher_is_better else "less"
    return (
        f"Which of {few([*comparison.chosen])} gives nodes the best models of their own? By test {comparison.metric} "
        f"({direction} is better); nodes: {len(trials[0].per_node) or 'not known'}; seeds: {len(trials)}."
    )


def _last(comparison: Comparison) -> dict[str, Result]:
    """Return the results of the last seed, as the table of sites has them; none where samples are not all here."""
    last = next(iter(comparison.chosen.values()))[-1].seed
    kept = {name: result for name, result in comparison.results.items() if result.env.seed == last}
    tested = all("test" in one.tasks.splits and int(one.tasks.sizes("test").sum()) for one in kept.values())
    return kept if tested else {}


def curve_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with the metric of every method over rounds or steps, where anything was evaluated."""
    points, over = _points(comparison)
    if not points:
        return
    scale, digits, unit = shown_in(comparison.share, 2)
    what = f"mean test {comparison.metric}{unit}"
    stopped = any(_stopped(trial) for trials in comparison.chosen.values() for trial in trials if not trial.failure)
    caption = f"{what} over {over}; bands are one standard deviation over seeds up and down. {STOPPED * stopped}"
    rows = [
        [Cell(name), Cell(x), mean_cell(scale * values)]
        for name, curve in points.items()
        for x, values in curve.items()
    ]
    table = Table([Column("method"), Column(over, "count"), Column(what, "number", digits)], rows, caption=what)
    yield Section("curves", f"Test {comparison.metric} over time", charts=[curve_chart("accuracy", caption, table)])


def _stopped(trial: Trial) -> bool:
    """Tell whether the models that are kept are other than the last."""
    ends = [*trial.curve[1][-1:], trial.summary["mean"]]
    return all(map(math.isfinite, ends)) and not math.isclose(ends[0], ends[-1])


def _points(comparison: Comparison) -> tuple[dict[str, dict[int, Tensor]], str]:
    """Return by method and evaluation the values of all seeds [S], and what the horizontal axis counts."""
    every = comparison.chosen.items()
    kept = {name: some for name, trials in every if (some := [t for t in trials if not t.failure and t.curve[0]])}
    trials = [trial for some in kept.values() for trial in some]
    steps = len({t.rounds for t in trials}) > 1 and all(t.local_steps == t.local_steps for t in trials)
    points: dict[str, dict[int, Tensor]] = {}
    for name, some in kept.items():
        values = [dict(zip(*trial.curve, strict=True)) for trial in some]
        rounds = sorted(set.intersection(*map(set, values)))
        stride = max(1, -(-len(rounds) // MOST_POINTS))
        each = some[0].local_steps / some[0].rounds if steps else 1
        for r in sorted({*rounds[::stride], *rounds[-1:]}):
            found = column([seed[r] for seed in values])
            if bool(found.isfinite().all()):
                points.setdefault(name, {})[round(each * r)] = found
    return points, "local steps per node" if steps else "round"
