"""What a page says of a comparison of methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from graphcollab.checks import own_filter
from graphcollab.naming import few
from graphcollab.report._text import byte_size, shown_in
from graphcollab.report.page.calibration import calibration_rows
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.charts import bar_chart, calibration_chart, curve_chart
from graphcollab.report.page.comparison_answer import answer, asked
from graphcollab.report.page.content import Chart, Content, Section
from graphcollab.report.page.graph import listening
from graphcollab.report.page.graph_chart import graph_chart
from graphcollab.report.page.repeating import repeating
from graphcollab.report.site_table import SiteScores, site_table
from graphcollab.report.tables import paired_cells, results_cells
from graphcollab.train import Comparison, Result

__all__ = ["content_of_comparison"]

MOST_POINTS = 200  # of a curve


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
        *_graphs(last),
        *_curves(comparison),
        *_calibration(last),
        *_bytes(comparison),
        *repeating(_settings(comparison, last), commands),
    ]
    said = answer(comparison, reference, sites)
    return Content(title or "Who learns best, and with whom", asked(comparison), said, sections)


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
    every = range(len(next(iter(sites.scores.values())).metrics))
    tables = [
        table_of(
            f"Every node, {next(iter(sites.scores.values())).metrics[m].name}",
            sites.cells([m]),
            foot=2,
            searched=True,
            notes=[note for note in sites.notes if note] * (m == every[-1]),
        )
        for m in every
    ]
    said = ["Press a column's title to sort by it; of many nodes, type a name to find one."]
    return Section("nodes", "Node by node", said, tables=tables)


def _graphs(last: Mapping[str, Result]) -> Iterator[Section]:
    many = len(last)
    found = {name: one for name, result in last.items() if (one := listening(result, max(many, 1))) is not None}
    if not found:
        return
    said = [
        "A line goes from a node that is listened to (sender) to the one that listens (receiver, at the arrow's head); "
        "the thicker, the larger the weight. Colours are groups whose nodes listen to each other more than to others, "
        "in the last round drawn."
    ]
    charts: list[Chart] = []
    for name, one in found.items():
        groups: dict[str, list[str]] = {}
        for node in one.nodes:
            groups.setdefault(node["group"], []).append(node["node"])
        told = "; ".join(f"{group}: {few(groups[group])}" for group in sorted(groups, key=lambda g: int(g.split()[1])))
        when = f"rounds {one.rounds[0]} to {one.rounds[-1]}" if len(one.rounds) > 1 else f"round {one.rounds[0]}"
        most = f"The thickest line is a weight of {max(edge['w'] for edge in one.edges):.3g}."
        caption = " ".join([f"{name}: who listens to whom, {when}. {told}.", most, *one.left_out])
        charts.append(graph_chart(one, f"graph-{len(charts)}", caption))
    yield Section("graph", "Who listens to whom", said, charts)


def curve_rows(comparison: Comparison) -> tuple[list[dict[str, Any]], str]:
    """Return means and spreads over seeds by method and evaluation, and what the horizontal axis counts."""
    every = comparison.chosen.items()
    kept = {name: [t for t in trials if not t.failure and len(t.curve[0])] for name, trials in every}
    kept = {name: trials for name, trials in kept.items() if trials}
    steps = len({t.rounds for ts in kept.values() for t in ts}) > 1
    steps = steps and not any(t.local_steps != t.local_steps for ts in kept.values() for t in ts)
    scale, rows = shown_in(comparison.share, 2)[0], []
    for name, trials in kept.items():
        values = [dict(zip(*trial.curve, strict=True)) for trial in trials]
        rounds = sorted(set.intersection(*map(set, values)))
        stride = max(1, -(-len(rounds) // MOST_POINTS))
        each = trials[0].local_steps / trials[0].rounds if steps else 1
        for r in sorted({*rounds[::stride], *rounds[-1:]}):
            found = scale * torch.tensor([seed[r] for seed in values], dtype=torch.float64)
            if not bool(found.isfinite().all()):
                continue
            mean, spread = float(found.mean()), float(found.std()) if len(found) > 1 else 0.0
            low, high = mean - spread, mean + spread
            rows.append({"method": name, "x": round(each * r), "mean": mean, "low": low, "high": high})
    return rows, "local steps per node" if steps else "round"


def _curves(comparison: Comparison) -> Iterator[Section]:
    rows, over = curve_rows(comparison)
    if not rows:
        return
    what = f"mean test {comparison.metric}{shown_in(comparison.share, 2)[2]}"
    ends = {row["method"]: row["mean"] for row in rows}
    seeds = max(map(len, comparison.chosen.values()))
    band = f" Bands are one standard deviation over {seeds} seeds up and down." if seeds > 1 else ""
    caption = f"{what} over {over}. At the end: {', '.join(f'{name} {end:.4g}' for name, end in ends.items())}.{band}"
    chart = curve_chart(rows, over, what, "accuracy", caption)
    yield Section("curves", f"How {comparison.metric} came about", charts=[chart])


def _calibration(last: Mapping[str, Result]) -> Iterator[Section]:
    rows = calibration_rows(last)
    if not rows:
        return
    caption = (
        "How often predictions on test samples of all nodes were right, by the probability that was predicted, "
        "on the last seed. On the dotted line probabilities mean what they say; below it models are too sure."
    )
    chart = calibration_chart(rows, "calibration", caption)
    yield Section("calibration", "Do probabilities mean what they say?", charts=[chart])


def _bytes(comparison: Comparison) -> Iterator[Section]:
    sent = {name: row["bytes_per_node"] for name, row in comparison.rows().items()}
    rows = [{"method": name, "value": size, "text": byte_size(size)} for name, size in sent.items() if size == size]
    if not rows:
        return
    told = ", ".join(f"{row['method']} {row['text']}" for row in rows)
    caption = f"What a node sent, mean over nodes and seeds: {told}."
    yield Section("bytes", "What travelled", charts=[bar_chart(rows, "bytes sent per node", "bytes", caption)])


def _settings(comparison: Comparison, last: Mapping[str, Result]) -> dict[str, str]:
    """Return what was set, by method."""
    told = {}
    for name, trials in comparison.chosen.items():
        tried = " or ".join(dict.fromkeys(", ".join(f"{k}={v}" for k, v in t.setting.items()) for t in trials))
        of = [tried and f"chosen on validation data: {tried}", repr(last[name].method) if name in last else ""]
        told[name] = "\n".join(one for one in of if one) or "nothing was chosen"
    told["seeds"] = ", ".join(str(trial.seed) for trial in next(iter(comparison.chosen.values())))
    return told
