"""The words below curves over rounds."""

from __future__ import annotations

import torch

from graphcollab import compare, methods
from graphcollab.report._text import number
from graphcollab.report.page.of_comparison import curve_section
from graphcollab.report.tables import results_values
from graphcollab.train import Comparison, Trial
from tests.report.page.found import NAMES, drawn

STOPPED = "; with early stopping the models after the best evaluation are kept, so curves may end elsewhere."


def caption(comparison: Comparison) -> str:
    (section,) = curve_section(comparison)
    return section.charts[0].caption


def in_tables(comparison: Comparison) -> str:
    """What the table of methods says, without deviations."""
    rows, column = results_values(comparison).rows, results_values(comparison).columns[1]
    return "The models that are kept, as in the tables: " + ", ".join(
        f"{name.value} {number(mean.value, column.digits)}" for name, mean, *_ in rows
    )


def made(kept: list[float], curves: list[list[float]], metric: str = "brier") -> Comparison:
    summaries = [dict.fromkeys(("worst10", "worst20", "std", "seconds", "bytes_per_node"), 1.0) for _ in kept]
    trials = [
        Trial("local", seed, {}, 0.0, {**summary, "mean": mean}, (list(range(1, len(curve) + 1)), curve))
        for seed, (mean, summary, curve) in enumerate(zip(kept, summaries, curves, strict=True))
    ]
    return Comparison(trials, {"local": trials}, False, {}, metric)


def test_models_kept_are_told_and_not_where_curves_end() -> None:
    # kept after rounds 2 and 3: 0.1 and 0.2, 0.15 in the mean; the last evaluation of both is 0.3 and 0.2
    stopped = made([0.1, 0.2], [[0.4, 0.1, 0.3], [0.5, 0.3, 0.2, 0.4]])
    assert f"The models that are kept, as in the tables: local 0.15{STOPPED}" in caption(stopped)
    assert in_tables(stopped) in caption(stopped)


def test_curves_that_end_with_the_models_kept_are_not_excused() -> None:
    whole = made([0.3, 0.2], [[0.4, 0.1, 0.3], [0.5, 0.3, 0.2]])
    assert "as in the tables: local 0.25. Bands" in caption(whole)
    assert "early stopping" not in caption(whole)


def test_runs_with_patience_agree_with_their_table() -> None:
    torch.manual_seed(0)
    made = {"local": methods.local, "fedavg": methods.fedavg}
    found = compare(
        made,
        lambda seed: drawn(NAMES, seed),
        lambda: torch.nn.Linear(2, 2),
        range(2),
        grids={"*": {"lr": [0.5], "epochs": [1]}},
        rounds=40,
        budget="rounds",
        evaluate_every=1,
        patience=2,
    )
    assert any(trial.curve[1][-1] != trial.summary["mean"] for trials in found.chosen.values() for trial in trials)
    assert f"{in_tables(found)}{STOPPED}" in caption(found)
