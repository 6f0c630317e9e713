"""What a page says of the metric over rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from graphcollab.report._text import Cells, failures, mean_spread, number, shown_in
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.content import Section, Table
from graphcollab.report.page.line_charts import curve_chart
from graphcollab.train import Comparison, Trial

__all__ = ["curve_rows", "curve_section"]

MOST_POINTS = 200  # of a curve
STOPPED = "; with early stopping the models after the best evaluation are kept, so curves may end elsewhere"


def curve_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with the metric of every method over rounds or steps, where anything was evaluated."""
    rows, over = curve_rows(comparison)
    if not rows:
        return
    unit = shown_in(comparison.share, 2)[2]
    what = f"mean test {comparison.metric}{unit}"
    seeds = max(map(len, comparison.chosen.values()))
    band = (
        f" Bands are one standard deviation over {seeds} seeds up and down; of several methods, that of the one chosen."
    )
    caption = f"{what[0].upper()}{what[1:]} over {over}. {_kept(comparison, rows)}.{band * (seeds > 1)}"
    chart = curve_chart(rows, over, what, "accuracy", caption, _table(rows, over, what))
    title = f"Test {comparison.metric} over {'rounds' if over == 'round' else 'local steps'}"
    yield Section("curves", title, charts=[chart])


def _kept(comparison: Comparison, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what the models reach that are kept, as the table of methods does, and whether these are the last ones."""
    (scale, digits, _), told, stopped = shown_in(comparison.share, 2), [], False
    for name in dict.fromkeys(row["method"] for row in rows):
        values = scale * torch.tensor(comparison.values(name), dtype=torch.float64)
        told.append(f"{name} {failures(comparison, name) or number(float(values.mean()), digits)}")
        stopped |= any(_stopped(trial) for trial in comparison.chosen[name] if not trial.failure)
    return f"The models that are kept, as in the tables: {', '.join(told)}{STOPPED * stopped}"


def _stopped(trial: Trial) -> bool:
    """Tell whether the models that are kept are other than the last."""
    ends = [*trial.curve[1][-1:], trial.summary["mean"]]
    return all(map(math.isfinite, ends)) and not math.isclose(ends[0], ends[-1])


def _table(rows: Sequence[Mapping[str, Any]], over: str, what: str) -> Table:
    """Return means and deviations, a row for every evaluation."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    told: dict[int, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: row["x"]):
        told.setdefault(row["x"], {})[row["method"]] = row["text"]
    lines = [[f"{x:,}", *(some.get(name, "") for name in methods)] for x, some in told.items()]
    return table_of(what, Cells([over, *methods], lines))


def curve_rows(comparison: Comparison) -> tuple[list[dict[str, Any]], str]:
    """Return means and spreads over seeds by method and evaluation, and what the horizontal axis counts."""
    every = comparison.chosen.items()
    kept = {name: [t for t in trials if not t.failure and len(t.curve[0])] for name, trials in every}
    kept = {name: trials for name, trials in kept.items() if trials}
    steps = len({t.rounds for ts in kept.values() for t in ts}) > 1
    steps = steps and not any(t.local_steps != t.local_steps for ts in kept.values() for t in ts)
    (scale, digits, _), rows = shown_in(comparison.share, 2), []
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
            ends = {"low": mean - spread, "high": mean + spread, "text": mean_spread(found, digits)}
            rows.append({"method": name, "x": round(each * r), "mean": mean, **ends})
    return rows, "local steps per node" if steps else "round"
