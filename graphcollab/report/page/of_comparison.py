"""What a page says of a comparison of methods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from graphcollab.checks import own_filter
from graphcollab.report._text import byte_size, failures, number, shown_in
from graphcollab.report.page.calibration import calibration_section
from graphcollab.report.page.charts import bar_chart, curve_chart
from graphcollab.report.page.comparison_answer import answer
from graphcollab.report.page.comparison_asked import asked
from graphcollab.report.page.content import Content, Section
from graphcollab.report.page.graph import graph_section
from graphcollab.report.site_scores import SiteScores
from graphcollab.report.site_table import site_table
from graphcollab.report.tables import paired_values, results_values
from graphcollab.report.values import Cell, Column, Table, mean_cell
from graphcollab.train import Comparison, Result, Trial

__all__ = ["content_of_comparison"]

BROAD = 8  # columns of a table of nodes that a desktop's screen has room for
MOST_POINTS = 200  # of a curve
STOPPED = "; with early stopping the models after the best evaluation are kept, so curves may end elsewhere"


def content_of_comparison(comparison: Comparison, reference: str | None, metrics: Any, title: str) -> Content:
    """Return what a page says of a comparison."""
    if reference is None and "local" in comparison.chosen:
        reference = "local"
    last = _last(comparison)
    sites = None
    if last:
        with own_filter("ignore", code="quality", subject="metric"):  # notes below the table say so
            sites = site_table(comparison, metrics, reference if reference in last else None)
    tables = [replace(results_values(comparison), caption="Every method, in the mean over nodes")]
    if reference is not None and len(comparison.chosen) > 1:
        paired = paired_values(comparison, reference)
        tables.append(replace(paired, caption=f"Differences to {reference}, paired over seeds"))
    told = "\n\n".join(f"{name}:\n{result.method!r}" for name, result in last.items())
    sections = [
        Section("methods", "Methods", tables=tables),
        *([] if sites is None else [Section("nodes", "Node by node", tables=site_tables(sites))]),
        *graph_section(last),
        *curve_section(comparison),
        *calibration_section(last),
        *_bytes_section(comparison),
        Section("settings", "Settings", tables=[_chosen(comparison)], folded=told),
    ]
    found = [[one] for one in answer(comparison, reference, sites)]
    return Content(title or "Who learns best, and with whom", asked(comparison, last, reference), found, sections)


def _last(comparison: Comparison) -> dict[str, Result]:
    """Return the results of the last seed, as the table of sites has them; none where samples are not all here."""
    last = next(iter(comparison.chosen.values()))[-1].seed
    kept = {name: result for name, result in comparison.results.items() if result.env.seed == last}
    tested = all(int(result.tasks.sizes("test").sum()) for result in kept.values() if "test" in result.tasks.splits)
    return kept if tested and all("test" in result.tasks.splits for result in kept.values()) else {}


def site_tables(sites: SiteScores) -> list[Table]:
    """Return a table for every metric; where a screen is too narrow for it, one of differences and one of values."""
    tables = []
    for m, metric in enumerate(next(iter(sites.scores.values())).metrics):
        caption = f"Every node, {metric.name}"
        whole = replace(sites.table([m]), caption=caption)
        if len(whole.columns) <= BROAD or not sites.differences:
            tables.append(whole)
            continue
        against = sites.table([m], [str(sites.reference)])
        tables.append(replace(against, caption=f"{caption}: differences to {sites.reference}"))
        tables.append(replace(sites.table([m], differences=False), caption=caption))
    return [*tables[:-1], tables[-1].noting(*sites.notes)]


def _chosen(comparison: Comparison) -> Table:
    """Return which settings were chosen, a row for every method."""
    rows = []
    for name, trials in comparison.chosen.items():
        tried = {repr(dict(trial.setting)) for trial in comparison.trials if trial.method == name}
        often = Counter(", ".join(f"{k}={v}" for k, v in trial.setting.items()) or "defaults" for trial in trials)
        took = "; ".join(
            f"{setting} (on {n} seeds)" if len(often) > 1 else setting for setting, n in often.most_common()
        )
        rows.append([Cell(name), Cell(len(tried) or None), Cell(took)])
    seeds = ", ".join(str(trial.seed) for trial in next(iter(comparison.chosen.values())))
    columns = [Column("method"), Column("settings tried", "count"), Column("chosen")]
    return Table(columns, rows, caption=f"Chosen by validation data on every seed ({seeds})")


def _bytes_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with a bar for every method, where what was sent is known."""
    sent = {name: row["bytes_per_node"] for name, row in comparison.rows().items()}
    rows = [{"method": name, "value": size, "text": byte_size(size)} for name, size in sent.items() if size == size]
    if not rows:
        return
    told = ", ".join(f"{row['method']} {row['text']}" for row in rows)
    caption = f"What a node sent, mean over nodes and seeds: {told}."
    cells = [[Cell(row["method"]), Cell(row["value"])] for row in rows]
    table = Table([Column("method"), Column("sent", "bytes")], cells, caption="Sent per node")
    yield Section("bytes", "What travelled", charts=[bar_chart(rows, "bytes sent per node", "bytes", caption, table)])


def curve_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with the metric of every method over rounds or steps, where anything was evaluated."""
    points, over = _points(comparison)
    if not points:
        return
    (scale, digits, unit), seeds = shown_in(comparison.share, 2), max(map(len, comparison.chosen.values()))
    what = f"mean test {comparison.metric}{unit}"
    band = f" Bands are one standard deviation over {seeds} seeds up and down." * (seeds > 1)
    caption = f"{what[0].upper()}{what[1:]} over {over}. {_kept(comparison, [*points])}.{band}"
    rows = [
        {"method": name, "x": x, **_ends(scale * values)}
        for name, curve in points.items()
        for x, values in curve.items()
    ]
    every = sorted({x for curve in points.values() for x in curve})
    cells = [
        [Cell(x), *(mean_cell(scale * curve[x]) if x in curve else Cell("") for curve in points.values())]
        for x in every
    ]
    columns = [Column(over, "count"), *(Column(name, "number", digits) for name in points)]
    chart = curve_chart(rows, over, what, "accuracy", caption, Table(columns, cells, caption=what))
    title = f"Test {comparison.metric} over {'rounds' if over == 'round' else 'local steps'}"
    yield Section("curves", title, charts=[chart])


def _ends(values: torch.Tensor) -> dict[str, float]:
    """Return the mean of values [S], and what is a standard deviation below and above it."""
    mean, spread = float(values.mean()), float(values.std()) if len(values) > 1 else 0.0
    return {"mean": mean, "low": mean - spread, "high": mean + spread}


def _kept(comparison: Comparison, names: Sequence[str]) -> str:
    """Say what the models reach that are kept, as the table of methods does, and whether these are the last ones."""
    (scale, digits, _), told = shown_in(comparison.share, 2), []
    for name in names:
        values = scale * torch.tensor(comparison.values(name), dtype=torch.float64)
        told.append(f"{name} {failures(comparison, name) or number(float(values.mean()), digits)}")
    stopped = any(_stopped(trial) for name in names for trial in comparison.chosen[name] if not trial.failure)
    return f"The models that are kept, as in the tables: {', '.join(told)}{STOPPED * stopped}"


def _stopped(trial: Trial) -> bool:
    """Tell whether the models that are kept are other than the last."""
    ends = [*trial.curve[1][-1:], trial.summary["mean"]]
    return all(map(math.isfinite, ends)) and not math.isclose(ends[0], ends[-1])


def _points(comparison: Comparison) -> tuple[dict[str, dict[int, torch.Tensor]], str]:
    """Return by method and evaluation the values of all seeds [S], and what the horizontal axis counts."""
    every = comparison.chosen.items()
    kept = {name: [t for t in trials if not t.failure and len(t.curve[0])] for name, trials in every}
    kept = {name: trials for name, trials in kept.items() if trials}
    steps = len({t.rounds for ts in kept.values() for t in ts}) > 1
    steps = steps and not any(t.local_steps != t.local_steps for ts in kept.values() for t in ts)
    points: dict[str, dict[int, torch.Tensor]] = {}
    for name, trials in kept.items():
        values = [dict(zip(*trial.curve, strict=True)) for trial in trials]
        rounds = sorted(set.intersection(*map(set, values)))
        stride = max(1, -(-len(rounds) // MOST_POINTS))
        each = trials[0].local_steps / trials[0].rounds if steps else 1
        for r in sorted({*rounds[::stride], *rounds[-1:]}):
            found = torch.tensor([seed[r] for seed in values], dtype=torch.float64)
            if bool(found.isfinite().all()):
                points.setdefault(name, {})[round(each * r)] = found
    return points, "local steps per node" if steps else "round"
