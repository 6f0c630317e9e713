"""The words below curves over rounds."""

from __future__ import annotations

import torch

from graphcollab import compare, methods
from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.report.page.drawn import STOPPED, curve_section
from tests.report.page.found import NAMES, two_class_tasks


def caption(comparison: Comparison) -> str:
    (section,) = curve_section(comparison)
    return section.charts[0].caption


def comparison_of(kept: list[float], curves: list[list[float]], metric: str = "brier") -> Comparison:
    summaries = [dict.fromkeys(("worst10", "worst20", "std", "seconds", "bytes_per_node"), 1.0) for _ in kept]
    trials = [
        Trial("local", seed, {}, 0.0, {**summary, "mean": mean}, (list(range(1, len(curve) + 1)), curve))
        for seed, (mean, summary, curve) in enumerate(zip(kept, summaries, curves, strict=True))
    ]
    return Comparison(trials, {"local": trials}, False, {}, metric)


def test_it_is_said_where_curves_do_not_end_with_the_models_kept() -> None:
    # kept after rounds 2 and 3: 0.1 and 0.2; the last evaluation of both is 0.3 and 0.4
    assert STOPPED in caption(comparison_of([0.1, 0.2], [[0.4, 0.1, 0.3], [0.5, 0.3, 0.2, 0.4]]))
    assert STOPPED not in caption(comparison_of([0.3, 0.2], [[0.4, 0.1, 0.3], [0.5, 0.3, 0.2]]))


def test_runs_with_patience_agree_with_their_table() -> None:
    torch.manual_seed(0)
    made = {"local": methods.local, "fedavg": methods.fedavg}
    found = compare(
        made,
        lambda seed: two_class_tasks(NAMES, seed),
        lambda: torch.nn.Linear(2, 2),
        range(2),
        grids={"*": {"lr": [2.0], "epochs": [1]}},
        rounds=40,
        budget="rounds",
        evaluate_every=1,
        patience=2,
    )
    assert any(trial.curve[1][-1] != trial.summary["mean"] for trials in found.chosen.values() for trial in trials)
    assert STOPPED in caption(found)
