"""`graphcollab predict`: which models, and where predictions may be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphcollab import Tasks, build_model, run
from graphcollab.methods import local

SHORT = ["--seeds", "0", "--rounds", "1", "--hidden", "4"]


@pytest.fixture
def models(run_command, patients, about):
    """The models of two methods, in a folder of results."""
    done = run_command("compare", patients, *about, "--methods", "local", "fedavg", *SHORT, "--out", "report", "--save")
    assert done.exit_code == 0, done.output
    return "report/models/fedavg"


def test_predictions_replace_nothing(run_command, models, patients, tmp_path):
    table = patients.read_bytes()
    (tmp_path / "link.csv").symlink_to(patients)
    os.link(patients, tmp_path / "same.csv")
    (tmp_path / "other").symlink_to("report/models")
    (tmp_path / "thesis.tex").write_text("row,hospital,disease of the heart\n0,north,ill\n")
    (tmp_path / "empty.csv").write_text("")
    refused = [
        "patients.csv",
        "./report/../link.csv",
        "same.csv",
        f"{models}/models.safetensors",
        "other/fedavg/new.csv",
    ]
    refused += ["report", "thesis.tex", "/dev/null"]
    for out in refused:
        done = run_command("predict", models, patients, "--out", out)
        assert done.exit_code == 2, out
        assert done.stderr.startswith(f"graphcollab: out: {Path(out)} ")
    assert patients.read_bytes() == table
    for out in ("told.csv", "empty.csv"):
        assert run_command("predict", models, patients, "--out", out).exit_code == 0
        assert (tmp_path / out).read_text().startswith("row,hospital,disease\n0,")
        assert run_command("predict", models, patients, "--proba", "--out", out).exit_code == 2


def test_a_folder_of_results_shows_its_answer_and_names_its_models(run_command, models, tmp_path):
    shown = run_command("show", "report")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith((tmp_path / "report" / "results.txt").read_text())
    assert (tmp_path / "report" / "run.toml").read_text() in shown.stdout
    assert shown.stdout.endswith("  report/models/fedavg\n  report/models/local\n")


def test_models_trained_past_their_best_are_said(run_command, tmp_path):
    """40 rounds at a step size of ten learn the training rows by heart, of a table that tells nothing."""
    lines = ["hospital,age,disease", *(f"{'ab'[k % 2]},{k * 7 % 41},{'ny'[k * k % 7 % 2]}" for k in range(60))]
    (tmp_path / "noise.csv").write_text("\n".join(lines))
    tasks = Tasks.from_frame("noise.csv", node="hospital", target="disease", seed=0)
    model = build_model("mlp", tasks.input_shape, 2, hidden=32)
    for name, rounds in (("long", 40), ("short", 1)):
        run(local(lr=0.5), tasks, model, rounds=rounds).save(name)
    words = "these models were trained past their best: their mean validation loss was "
    assert words in run_command("predict", "long", "noise.csv").stderr
    assert words in run_command("show", "long").stdout
    assert "past their best" not in run_command("show", "short").stdout


def test_saved_models_are_shown_in_words(run_command, models):
    shown = run_command("show", models).stdout
    assert "\nmethod: fedavg\n" in shown
    assert "Method(" not in shown
    assert "versions: graphcollab " in shown


def test_wrong_folders_are_told_from_those_of_models(run_command, models, patients):
    for folder in ("report", "report/models"):
        done = run_command("predict", folder, patients)
        assert done.exit_code == 2
        assert "report/models/fedavg or report/models/local" in done.stderr
    for folder in ("report/checkpoints", "patients.csv"):
        done = run_command("predict", folder, patients)
        assert done.exit_code == 2
        assert f"{folder} holds no saved models" in done.stderr
