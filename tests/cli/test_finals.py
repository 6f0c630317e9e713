"""Models that commands save: fitted to all rows, calibrated, and for sites that have none."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch

from graphcollab import Tasks, load, run
from graphcollab.analysis.evidence import Choice
from graphcollab.analysis.final import Final
from graphcollab.cli.finals import _misfits, chosen_most
from graphcollab.methods import local

SHORT = ["--seeds", "0", "1", "--rounds", "2", "--hidden", "none", "--lrs", "0.1"]


@pytest.fixture
def compare_words(patients, about):
    return ["compare", patients, *about, "--methods", "local", *SHORT, "--metric", "log_loss", "--out", "report"]


def test_saved_models_are_fitted_to_all_rows_and_say_so(run_command, compare_words, patients, tmp_path):
    done = run_command(*compare_words, "--save")
    words = "fitted to all 90 rows in "
    assert f"Models of local in report/models/local: {words}" in done.stdout
    assert words in (tmp_path / "report" / "results.txt").read_text()
    assert f"<p>Models of local in report/models/local: {words}" in (tmp_path / "report" / "report.html").read_text()
    about = load(tmp_path / "report/models/local").about
    assert about["rows"] == 90
    assert about["setting"] == {"lr": 0.1}
    told = json.loads((tmp_path / "report" / "results.json").read_text())["methods"]["local"]
    assert sum(about["means"]["test"]) / 3 == pytest.approx(told["mean"])
    assert words in run_command("show", "report/models/local").stdout
    assert f"these models were {words}" in run_command("predict", "report", patients, "--out", "told.csv").stderr


def test_new_sites_are_named_once(run_command, compare_words, patients, tmp_path):
    assert run_command(*compare_words, "--save").exit_code == 0
    new = tmp_path / "new.csv"
    new.write_text(patients.read_text().replace("west", "basel").replace("south", "SOUTH"))
    told = run_command("predict", "report", new).stderr
    assert re.search(
        "sites (basel, SOUTH|SOUTH, basel) have no models of their own: the model of all sites together", told
    )
    assert told.count("did you mean") == 1
    assert "SOUTH: did you mean 'south'?" in told


def test_new_sites_are_answered_by_the_model_of_all(run_command, compare_words, patients, tmp_path):
    assert run_command(*compare_words, "--save").exit_code == 0
    new = tmp_path / "new.csv"
    new.write_text(patients.read_text().replace("west", "basel"))
    done = run_command("predict", "report", new, "--proba")
    assert "site basel has no model of its own: the model of all sites together answers" in done.stderr
    rows = [one.split(",") for one in done.stdout.splitlines()[1:]]
    models = load(tmp_path / "report/models/local")
    expected = models.predict_proba(None, {"age": [40.0, 70.0], "sex": ["f", "m"]})
    new.write_text("hospital,age,sex\nbasel,40,f\nbasel,70,m\n")
    shown = run_command("predict", "report", new, "--proba").stdout.splitlines()[1:]
    assert [float(one.split(",")[-1]) for one in shown] == pytest.approx(expected[:, 1].tolist())
    assert {one[1] for one in rows} == {"north", "south", "basel"}


def test_sites_with_means_of_their_own_leave_new_ones_without_an_answer(run_command, compare_words, patients, tmp_path):
    assert run_command(*compare_words, "--save", "--pooled", "per_site").exit_code == 0
    done = run_command("predict", "report", patients, "--site", "basel")
    assert done.exit_code == 2
    assert "there is no site 'basel'" in done.stderr


def test_probabilities_are_scaled_and_a_threshold_is_chosen(run_command, compare_words, patients, tmp_path):
    assert run_command(*compare_words, "--save", "--calibrate", "--threshold", "balanced").exit_code == 0
    scaled = load(tmp_path / "report/models/local")
    read = scaled._answers
    assert f"logits are divided by {read.temperature:.3g}" in scaled.about["made"]
    assert run_command(*compare_words, "--save").exit_code == 0  # the same run, whose models are replaced
    plain = load(tmp_path / "report/models/local")
    rows = {"age": [30.0, 47.0, 52.0, 75.0], "sex": ["f", "m", "f", "m"]}
    outputs = plain.outputs("north", rows)
    shares = (outputs / read.temperature).softmax(1)[:, 1].numpy()
    assert scaled.predict_proba("north", rows)[:, 1] == pytest.approx(shares, abs=1e-6)
    assert scaled.predict("north", rows).tolist() == [("ill", "well")[int(one > read.threshold)] for one in shares]


@pytest.mark.parametrize(
    ("more", "advice"),
    [
        (["--calibrate"], "give --save and --out, too"),
        (["--save", "--calibrate", "age"], "amounts have no probabilities"),
        (["--save", "--threshold", "balanced", "kind"], "a threshold divides two classes"),
        (["--save", "--calibrate", "--val-fraction", "0"], "--val-fraction 0.2"),
        (["--save", "--threshold", "2"], "a threshold between 0 and 1"),
        (["--test-fraction", "0"], "--test-fraction 0.2"),
        (["--val-fraction", "0"], "--val-fraction 0.2"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(run_command, compare_words, patients, more, advice):
    rows = [f"{one},{'abc'[k % 3] if k else 'kind'}" for k, one in enumerate(patients.read_text().splitlines())]
    patients.write_text("\n".join(rows) + "\n")
    target = more.pop() if more[-1] in ("age", "kind") else "disease"
    compare_words[compare_words.index("disease")] = target
    compare_words += ["--loss", "mse"] * (target == "age")
    compare_words[compare_words.index("log_loss")] = "mae" if target == "age" else "log_loss"
    done = run_command(*compare_words, *more)
    assert done.exit_code == 2
    assert advice in done.stderr
    assert not any(one in done.stderr for one in ("fraction=", "hold_out", "from_frame"))


def test_a_table_that_tells_nothing_is_warned_of(run_command, tmp_path):
    lines = ["hospital,age,disease", *(f"{'ab'[k % 2]},{k * 7 % 41},{'ny'[k * k % 7 % 2]}" for k in range(60))]
    (tmp_path / "noise.csv").write_text("\n".join(lines))
    line = ["compare", "noise.csv", "--node", "hospital", "--target", "disease", "--methods", "local", "--seeds", "0"]
    line += ["--metric", "log_loss", "--hidden", "8", "--lrs", "0.5", "--patience", "0", "--rounds", "20"]
    assert run_command(*line, "--out", "d", "--save").exit_code == 0
    words = "warning: on test rows such models were no better in log_loss than the class frequencies"
    assert words in run_command("show", "d/models/local").stdout
    assert words in run_command("predict", "d", "noise.csv").stderr


def test_benefit_saves_what_it_advises(run_command, patients, about, tmp_path):
    line = ["benefit", patients, *about, "--hidden", "none", "--repeats", "3", "--rounds", "3", "--methods", "none"]
    done = run_command(*line, "--lrs", "0.1", "--out", "answer", "--save")
    assert done.exit_code == 0, done.output
    assert "Models of alone in answer/models/alone: fitted to all 90 rows in " in done.stdout
    assert "fitted to all 90 rows" in (tmp_path / "answer" / "report.html").read_text()
    models = load(tmp_path / "answer/models/alone")
    assert models.about["setting"] == {"lr": 0.1}
    told = json.loads((tmp_path / "answer" / "results.json").read_text())
    rounds = sorted(one["rounds"] for one in told["picked"]["alone"])
    assert models.about["rounds"] == rounds[1]
    means = [sum(one) / 3 for one in zip(*told["scores"]["alone"], strict=True)]
    assert models.about["means"]["test"] == pytest.approx(means)
    assert run_command("predict", "answer", patients).exit_code == 0


def test_models_that_know_less_than_a_constant_are_named():
    """Models that say 0 of targets near 5, but at a site where all are near 0."""
    x, y = torch.zeros(10, 1), 0.1 * torch.arange(10.0)[:, None] - 0.45
    tasks = Tasks.from_samples({"a": (x, y + 5), "b": (x, y)}, loss="mse", metric="mse", val_fraction=0)
    model = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(model.bias)
    result = run(local(lr=0.0), tasks, model, rounds=1)
    assert _misfits(result) == ["a"]
    assert (
        "worse than the mean"
        in replace(Final(result, None, "mse", torch.zeros(1, 2)), misfits=["a"], flat="the mean").warning
    )


def test_final_models_have_the_most_frequent_model_and_its_most_frequent_step():
    """Greene's judges: linear on seven splits by three steps, a hidden layer on three by one step."""
    linear = [("linear", {"lr": lr}, rounds) for lr, rounds in ((0.1, 3), (0.1, 5), (0.1, 9), (0.03, 1), (0.03, 2))]
    hidden = [("hidden layer of 64", {"lr": 0.03}, 30)] * 4
    picked = [one and Choice(*one) for one in (*hidden, None, *linear)]
    assert chosen_most(picked) == Choice("linear", {"lr": 0.1}, 5)
    assert chosen_most([None]) is None
