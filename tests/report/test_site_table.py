"""A row per site, with what its few samples leave open."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import Tasks, compare, run
from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.methods import local
from graphcollab.report import results_table, site_table
from graphcollab.train import Result
from tests.raising import raises, warns

LABELS = {"north": [1, 0, 1, 0], "south": [1, 1, 0, 0, 1], "east": [1], "west": [1, 1]}
INPUTS = {"north": [2.0, -2.0, 1.0, -1.0], "south": [1.0, -1.0, -3.0, 3.0, 2.0], "east": [1.0], "west": [1.0, -1.0]}


SCORES = Result.scores


def sites(**settings) -> Tasks:
    """Four sites whose one input is the logit itself."""
    nodes = [(torch.tensor(INPUTS[name])[:, None], torch.tensor(LABELS[name]).float()) for name in LABELS]
    return Tasks.from_samples(nodes, nodes, nodes, names=LABELS, **{"loss": "bce", "metric": "accuracy", **settings})


def scaled(factor: float) -> nn.Module:
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, factor)
    nn.init.zeros_(model.bias)
    return model


def scaled_result(factor: float, **settings):
    return run(local(lr=0, weight_decay=0), sites(**settings), scaled(factor), rounds=1)


@pytest.fixture(scope="module")
def table():
    with warns("quality", "metric 'auc'", "2", "4"):
        return site_table(
            {"as it is": scaled_result(1.0), "turned": scaled_result(-1.0)}, ["accuracy", "auc"], reference="as it is"
        )


def test_numbers_by_hand(table) -> None:
    rows = table.frame.to_dict("records")
    told = {(row["site"], row["metric"], row["method"]): row for row in rows}
    assert len(told) == len(rows) == 4 * 2 * 2
    north = told["north", "accuracy", "as it is"]
    assert (north["samples"], north["value"]) == (4, 1.0)
    assert math.isnan(north["low"]), "all are right, and so are all resamples, which does not say that others would be"
    south = told["south", "accuracy", "as it is"]
    assert south["value"] == pytest.approx(0.6)  # 1, -3 and 2 are right
    # of 5 draws, each right with chance .6: none is with chance .01, one with .077, all with .078
    assert (south["low"], south["high"]) == pytest.approx((0.2, 1.0))
    turned = told["south", "accuracy", "turned"]
    assert (turned["value"], turned["difference"]) == pytest.approx((0.4, -0.2))
    # of the same draws the turned model is right where the other is wrong, so the difference is 1 - 2 * the accuracy
    assert (turned["difference_low"], turned["difference_high"]) == pytest.approx((-1.0, 0.6))
    assert math.isnan(south["difference"])
    assert math.isnan(told["west", "auc", "turned"]["difference"])


def test_a_node_with_one_sample_has_a_value_and_no_interval(table) -> None:
    east = next(row for row in table.frame.to_dict("records") if row["site"] == "east" and row["metric"] == "accuracy")
    assert (east["samples"], east["value"]) == (1, 1.0)
    assert math.isnan(east["low"])
    assert math.isnan(east["high"])


def test_as_text(table) -> None:
    lines = [line.split("  ") for line in str(table).splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[0] == [
        *("site", "samples", "as it is accuracy (%)", "turned accuracy (%)", "turned − as it is, points"),
    ]
    assert cells[8] == []
    assert cells[9] == ["site", "samples", "as it is auc (%)", "turned auc (%)", "turned − as it is, points"]
    assert cells[3][:4] == ["south", "5", "60.0 (20.0 … 100.0)", "40.0 (0.0 … 80.0)"]
    assert cells[4][2:5] == ["100.0", "0.0", "−100.0"]
    assert cells[13][2] == "–"
    # accuracies 1, .6, 1 and .5, over all samples 9 of 12
    assert cells[6][1:4] == ["77.5", "22.5", "−55.0"]
    assert cells[7][:3] == ["mean, by samples", "12", "75.0"]
    assert cells[15][2].endswith("(2 of 4 sites)")
    assert "95 % intervals of 1000 bootstrap resamples of each site's test samples; seed 0 of the run" in str(table)


def test_as_a_file(table, tmp_path) -> None:
    with table.to_csv(tmp_path / "sites.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert rows[0] == {
        "site": "north",
        "samples": "4",
        "metric": "accuracy",
        "method": "as it is",
        "value": "1.0",
        "low": "",
        "high": "",
        "difference": "",
        "difference_low": "",
        "difference_high": "",
    }


def test_of_one_result_and_of_errors() -> None:
    text = str(site_table(scaled_result(1.0), "brier", resamples=20))
    assert text.splitlines()[0].split() == ["site", "samples", "brier"]
    assert "%" not in text.splitlines()[2]


def test_of_a_comparison() -> None:
    methods = {"local": lambda: local(lr=0), "other": lambda: local(lr=0)}
    found = compare(methods, lambda seed: sites(), lambda: scaled(1.0), [3, 5], rounds=1)
    text = str(site_table(found, reference="local", resamples=10))
    assert (
        "each site's test samples; seed 5 alone, the last of 2: differences paired over seeds are of all of them"
        in text
    )
    assert "other − local, points" in text


def test_what_cannot_be_shown() -> None:
    one = scaled_result(1.0)
    with raises("unknown", "reference", "'l2c'", "'local'"):
        site_table(one, reference="l2c")
    other = run(local(lr=0), sites().select([1, 0, 2, 3]), scaled(1.0), rounds=1)
    with raises("mismatch", "results", "'a'", "'b'"):
        site_table({"a": one, "b": other})
    with raises("empty", "results"):
        site_table({})


def test_means_say_whose_samples_count() -> None:
    """AUCs 1 and 0.5 of 4 and 5 samples, of the turned models 0 and 0.5; the other two sites have none."""
    with warns("quality", "metric 'auc'", "2", "4"):
        found = site_table({"as it is": scaled_result(1.0), "turned": scaled_result(-1.0)}, "auc", reference="as it is")
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in str(found).splitlines()]
    few = " (2 of 4 sites)"
    assert lines[6] == ["mean", f"75.0{few}", f"25.0{few}", f"−50.0{few}"]
    assert lines[7] == ["mean, by samples", "9", f"72.2{few}", f"27.8{few}", f"−44.4{few}"]


def test_there_is_no_mean_where_a_model_has_diverged(monkeypatch) -> None:
    turned = scaled_result(-1.0)
    with warns("quality", "metric 'auc'"):
        of_turned = turned.scores(["accuracy", "auc"], "test")
    lost = replace(of_turned, loss=of_turned.loss.clone().index_fill(0, torch.tensor([1]), math.inf))
    monkeypatch.setattr(type(turned), "scores", lambda one, *given: lost if one is turned else SCORES(one, *given))
    with warns("quality", "metric 'auc'"):
        found = site_table(
            {"as it is": scaled_result(1.0), "turned": turned}, ["accuracy", "auc"], reference="as it is"
        )
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in str(found).splitlines()]
    assert lines[6] == ["mean", "77.5", "–", "–"]  # of accuracy, and below of AUC
    assert lines[15] == ["mean", "75.0 (2 of 4 sites)", "– (2 of 4 sites)", "– (2 of 4 sites)"]


def test_what_few_samples_leave_open_is_said_below() -> None:
    with warns("quality", "metric 'auc'") as told:
        found = site_table({"as it is": scaled_result(1.0), "turned": scaled_result(-1.0)}, ["accuracy", "auc"])
    assert len(told) == 1  # not once for every method
    lines = str(found).splitlines()
    assert "with fewer than 20 samples intervals are too narrow: north (4), south (5), west (2)" in lines
    assert "no interval, from one sample, resamples all alike or no value: north, east, west" in lines


def test_errors_in_standard_deviations_are_called_so() -> None:
    """Targets 10 and 30 in turns: mean 20, standard deviation 10."""
    table = {
        "site": [*"aabb"] * 6,
        "x": [0.5, 1.5] * 12,
        "y": [10.5, 30.5] * 12,
        "part": ["train"] * 12 + ["test"] * 12,
    }
    settings = {"split": "part", "val_fraction": 0, "loss": "mse", "metric": "mae"}
    for standardize in (True, False):
        tasks = Tasks.from_frame(table, standardize_target=standardize, **settings)
        result = run(local(), tasks, lambda: nn.Linear(1, 1), rounds=1)
        said = "mae and rmse: targets were standardized, so errors are in standard deviations of 'y' (one is 10)"
        assert (said in str(site_table(result, ["mae", "rmse", "r2"]))) == standardize
        trials = [Trial.from_result("local", 0, {}, result)]
        found = Comparison(trials, {"local": trials}, False, {"local": result}, "mae")
        assert ("(one is 10)" in str(results_table(found))) == standardize


def test_few_samples_of_the_rarer_class_are_said() -> None:
    """North has two of each class, south two of class 0, east and west one class alone."""
    text = str(site_table(scaled_result(1.0), "brier", resamples=20))
    assert "few samples of the rarer class, be wary: one class only: east, west; north: 2, south: 2" in text


def test_it_is_said_where_less_is_better(table) -> None:
    assert "less is better" not in str(table)
    two = {"as it is": scaled_result(1.0), "turned": scaled_result(-1.0)}
    assert "of brier less is better\n" in f"{site_table(two, 'brier', resamples=2)}\n"
    told = str(site_table(two, ["brier", "log_loss"], reference="turned", resamples=2))
    assert "of brier and log_loss less is better, so − is an improvement on turned\n" in f"{told}\n"


def test_every_metric_has_a_table() -> None:
    two = str(
        site_table({"as it is": scaled_result(1.0), "turned": scaled_result(-1.0)}, ["accuracy", "brier"], "turned")
    )
    first, second = two.split("\n\n")[:2]
    assert "accuracy" in first.splitlines()[0]
    assert "brier" not in first
    assert second.splitlines()[0].split()[:2] == ["site", "samples"]


def test_samples_of_one_group_are_drawn_together() -> None:
    """Half of eight rows are right, those of one of two persons: 0, a half or all of a resample."""
    x, y = torch.ones(8, 1), torch.tensor([1.0] * 4 + [0.0] * 4)
    person, words = torch.arange(8) // 4, ["test"] * 8 + ["train", "val"]
    whole, targets = torch.cat([x, x[:2]]), torch.cat([y, y[:2]])
    groups = torch.cat([person, torch.tensor([2, 3])])
    tasks = Tasks.from_arrays(whole, targets, ["a"] * 10, split=words, group=groups, loss="bce", metric="accuracy")
    table = site_table(run(local(lr=0, weight_decay=0), tasks, scaled(1.0), rounds=1))
    (row,) = table.frame.to_dict("records")
    assert [row[name] for name in ("value", "low", "high")] == [0.5, 0.0, 1.0]
    assert "samples, whole groups" in str(table)
