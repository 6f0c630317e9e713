from __future__ import annotations

import math

import pytest
import torch

from graphcollab import Tasks, run
from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.methods import dpsgd, local
from graphcollab.models import MLP
from tests.raising import raises


def comparison(higher: bool, **nodes: list[tuple[float, ...]]) -> Comparison:
    chosen = {
        name: [Trial(name, seed, {}, 0.0, {}, per_node=values) for seed, values in enumerate(seeds)]
        for name, seeds in nodes.items()
    }
    return Comparison([], chosen, higher)


def test_improved_share_by_hand() -> None:
    nodes = {
        "local": [(0.5, 0.5, 0.5, 0.5), (0.1, 0.2, 0.3, 0.4)],
        "cobo": [(0.6, 0.5, 0.4, 0.7), (0.2, 0.3, 0.4, 0.5)],
    }
    assert comparison(True, **nodes).improved("cobo") == [0.5, 1.0]
    assert comparison(True, **nodes).improved("local", "cobo") == [0.25, 0.0]
    assert comparison(True, **nodes).improved("local") == [0.0, 0.0]
    assert comparison(False, **nodes).improved("cobo") == [0.25, 0.0]


def test_nodes_without_a_value() -> None:
    nan = math.nan
    found = comparison(True, local=[(0.5, nan, 0.5, nan)], cobo=[(0.6, 0.6, nan, nan)])
    assert found.improved("cobo") == [0.5]  # nodes 0 and 2 are judged; 2 was left behind
    assert math.isnan(comparison(True, local=[(nan,)], cobo=[(0.5,)]).improved("cobo")[0])


def test_improved_refuses() -> None:
    found = comparison(True, local=[(0.5,)], cobo=[(0.6,)], old=[()])
    with raises("unknown", "name", "'fedavg'"):
        found.improved("cobo", "fedavg")
    with raises("unknown", "name", "'fedavg'"):
        found.improved("fedavg")
    with raises("missing", "per_node", "'old'"):
        found.improved("old")


def test_a_trial_holds_what_the_history_does() -> None:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(12, 3, generator=draw), torch.randint(2, (12,), generator=draw)) for _ in range(3)]
    result = run(local(lr=0.1), Tasks.from_samples(samples, test=samples), MLP(3, 4, 2), rounds=4, evaluate_every=2)
    history, kept = result.history, Trial.from_result("local", 7, {"lr": 0.1}, result)
    assert kept.curve == (history.rounds, history.mean("test_metric"))
    assert kept.per_node == tuple(history.last("test_metric").tolist())
    assert sum(kept.per_node) / 3 == pytest.approx(kept.summary["mean"])
    assert kept.test_loss == pytest.approx(float(history.last("test_loss").mean()))
    assert kept.validation == pytest.approx(float(history.last("val_metric").mean()))
    assert kept.seconds == tuple(history.seconds)
    assert kept.sent == tuple(history.mean("bytes_sent"))
    assert kept.messages == tuple(history.table("messages_sent").sum(1).tolist()) == (0.0, 0.0)
    assert len(kept.seconds) == len(kept.sent) == len(kept.messages) == len(kept.curve[0])


def test_messages_that_prepare_tables_are_told_apart() -> None:
    """Three sites, each of which sends a message before the first round."""
    rows = {"site": [*"abc"] * 12, "x": range(36), "y": [0, 0, 0, 1, 1, 1] * 6}
    tasks = Tasks.from_frame(rows, target="y", val_fraction=0)
    kept = Trial.from_result("dpsgd", 0, {}, run(dpsgd(lr=0.1), tasks, MLP(1, 4, 2), rounds=2))
    assert kept.prepared == 3
    assert kept.messages == (3 + 6, 3 + 12)


def test_a_comparison_is_shown_in_a_line() -> None:
    """Means of 0.25 and 0.5, and one that failed."""
    values = {"local": (0.25, 0.75), "l2c": (0.5, 0.125), "cobo": (0.5, math.nan)}
    chosen = {
        name: [
            Trial(name, s, {}, 0.0, {"mean": v}, failure="..." * math.isnan(v))
            for s, v in zip((3, 5), some, strict=True)
        ]
        for name, some in values.items()
    }
    told = "Comparison(mean test accuracy on seeds 3, 5: local=0.5, l2c=0.3125, cobo=failed)"
    assert repr(Comparison([], chosen, True)) == told
