from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.methods import local
from graphcollab.report import paired_table, results_table
from tests.raising import raises, warns


def test_difference_and_interval_by_hand(comparison: Comparison) -> None:
    header, _, row, *_ = str(paired_table(comparison)).splitlines()
    assert header.split()[:3] == ["minus", "local,", "points"]
    # differences .125 and .0625: mean .09375, standard error .03125; t(1, .975) = 12.7062 reaches .39707
    assert row.split() == ["l2c", "+9.38", "−30.33", "…", "+49.08", "0.2", "2", "of", "2"]


def test_another_column_and_confidence(comparison: Comparison) -> None:
    header, _, row = str(paired_table(comparison, column="worst10", confidence=0.5)).splitlines()[:3]
    assert "worst10" in header
    assert "50 % interval" in header
    # differences +.25 and -.125
    assert row.split()[1] == "+6.25"
    assert row.endswith("1 of 2")


def test_intervals_end_where_differences_of_shares_do(comparison: Comparison) -> None:
    """Differences +.25 and -.125: mean .0625, standard error .1875; t(1, .975) = 12.7062 would reach 2.4."""
    assert "+6.25  −100.00 … +100.00" in str(paired_table(comparison, column="worst10"))
    assert "−2.32 … +2.445" in str(paired_table(replace(comparison, metric="mse"), column="worst10"))


def test_smaller_is_better_where_the_metric_says_so(comparison: Comparison) -> None:
    assert str(paired_table(replace(comparison, higher_is_better=False))).splitlines()[2].endswith("0 of 2")


def test_one_seed_has_no_interval(comparison: Comparison) -> None:
    one = replace(comparison, chosen={name: trials[:1] for name, trials in comparison.chosen.items()})
    assert str(paired_table(one)).splitlines()[2].split() == ["l2c", "+12.50", "–", "–", "1", "of", "1"]


def test_bad_reference(comparison: Comparison) -> None:
    with raises("unknown", "reference", "'fedavg'", "'l2c'", "'local'"):
        paired_table(comparison, "fedavg")
    with raises("too-few", "reference", "'local'"):
        paired_table(replace(comparison, chosen={"local": comparison.chosen["local"]}))


def test_bytes_are_not_points_and_fewer_are_better(comparison):
    header, _, row = str(paired_table(comparison, column="bytes_per_node")).splitlines()[:3]
    assert "points" not in header
    mine, theirs = (comparison.values(name, "bytes_per_node") for name in ("l2c", "local"))
    wins = sum(a < b for a, b in zip(mine, theirs, strict=True))
    assert row.endswith(f"{wins} of {len(mine)}")


def test_few_seeds_and_nodes_with_few_samples_are_said_below(comparison: Comparison) -> None:
    text = str(paired_table(comparison))
    assert text.endswith("\n\nwith two seeds interval and p-value mean next to nothing: take five seeds or more")
    tested = {"Cove": 2, "Hill": 5, "Bay": 4, "Ford": 100}
    chosen = {name: [replace(t, tested=tested) for t in trials] for name, trials in comparison.chosen.items()}
    told = (
        "2 of 4 sites (Cove, Bay) have fewer than 5 test samples on some seed, and as much weight in means as any other"
    )
    for table in (paired_table, results_table):
        assert told in str(table(replace(comparison, chosen=chosen)))
    three = {name: [*trials, trials[0]] for name, trials in comparison.chosen.items()}
    assert len(str(paired_table(replace(comparison, chosen=three))).splitlines()) == 3


def test_a_run_says_how_many_test_samples_its_means_are_of() -> None:
    x, y = torch.tensor([[1.0], [-1.0]] * 6), torch.tensor([1.0, 0.0] * 6)
    train = dict.fromkeys(("two", "one class", "many", "none"), (x, y))
    test = {"two": (x[:2], y[:2]), "one class": (x[::2], y[::2]), "many": (x, y), "none": (x[:0], y[:0])}
    tasks = Tasks.from_samples(train, test=test, loss="bce", metric="auc")
    with warns("quality", "metric 'auc'", "1", "4", "2"):
        result = run(local(), tasks, nn.Linear(1, 1), rounds=1)
    trials = [Trial.from_result("local", 0, {}, result)]
    found = Comparison(trials, {"local": trials}, True, metric="auc")
    assert found.chosen["local"][0].tested == {"two": 2, "many": 12}
    assert "1 of 2 sites (two) has fewer than 5 test samples" in str(results_table(found))


def test_the_same_difference_on_all_seeds_is_no_evidence() -> None:
    values = {"local": (0.5, 0.75), "l2c": (0.625, 0.875), "dac": (0.5, 0.75)}
    chosen = {m: [Trial(m, s, {}, 0, {"mean": v}) for s, v in enumerate(vs)] for m, vs in values.items()}
    _, _, l2c, dac, _, *notes = str(paired_table(Comparison([], chosen, True))).splitlines()
    assert l2c.split() == ["l2c", "+12.50", "–", "–", "2", "of", "2"]
    assert dac.split() == ["dac", "+0.00", "+0.00", "…", "+0.00", "1", "0", "of", "2"]
    assert notes[0] == "no interval for l2c: the same difference on all seeds says nothing of how differences vary"


def test_it_is_said_where_less_is_better(comparison: Comparison) -> None:
    errors = replace(comparison, metric="mae", higher_is_better=False)
    assert "of mae less is better, so − is an improvement on local" in str(paired_table(errors))
    assert "of bytes_per_node less is better" in str(paired_table(comparison, column="bytes_per_node"))
    assert "less is better" not in str(paired_table(comparison)) + str(results_table(comparison))
    assert "of mae less is better" in str(results_table(errors))
