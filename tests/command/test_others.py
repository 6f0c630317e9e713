"""`graphcollab benefit`, `site`, `datasets`, `methods` and `show`."""

from __future__ import annotations

import json
import warnings

import click

from graphcollab import load, methods, report
from graphcollab.datasets import DATASETS, TABLES
from graphcollab.sites import connected
from graphcollab.sites.hall import Hall
from graphcollab_command.main import main


def test_benefit(call, patients, about, tmp_path, monkeypatch):
    line = ["benefit", patients, *about, "--methods", "l2c", "--repeats", "3", "--rounds", "1", "--lrs", "0.1"]
    done = call(*line, "--hidden", "4", "--set", "l2c.mixer_lr=0.2", "--metrics", "brier", "--out", "answer")
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "answer" / "results.json").read_text())
    assert told["names"] == ["north", "south", "west"]
    assert set(told["also"]) == {"brier"}
    assert "gain by l2c" in done.stdout
    assert (tmp_path / "answer" / "results.txt").read_text() == done.stdout
    assert (tmp_path / "answer" / "benefit.png").is_file()
    assert "wrote answer/run.toml" in done.stderr
    said = call("predict", "answer", patients).stderr
    assert "answer has no saved models: graphcollab benefit keeps none, graphcollab compare with --save does" in said
    monkeypatch.setattr(report, "benefit_answer", lambda _: "try more, repeats=..., or metrics='log_loss'")
    assert call(*line).stdout.startswith("try more, --repeats, or --metrics log_loss\n")
    several = call(*line, "--set", "l2c.mixer_lr=0.2,0.3")
    assert several.exit_code == 2
    assert "l2c.mixer_lr must have one value here" in several.stderr


def test_rehearsal_of_a_site(call, patients, tmp_path):
    line = ["site", "Bern", patients, "--target", "disease", "--leave-out", "hospital", "--method", "fedavg"]
    done = call(*line, "--rounds", "1", "--hidden", "4", "--dry-run", "--others", "Genf", "Basel", "--out", "bern")
    assert done.exit_code == 0, done.output
    assert "What would leave Bern in 1 rounds of fedavg among 3 sites" in done.stdout
    assert "(not with --pooled per_site)" in done.stdout
    assert "graphcollab.tasks" not in done.stdout
    assert not (tmp_path / "bern").exists()
    alone = call(*line)
    assert alone.exit_code == 2
    assert "Bern is not connected to other sites: rehearse it by --dry-run" in alone.stderr


def test_sites_that_meet_in_a_job(call, tmp_path, patients):
    rows = patients.read_text().splitlines()
    for name in ("north", "south"):
        own = [rows[0], *(row for row in rows if row.startswith(name))]
        (tmp_path / f"{name}.csv").write_text("\n".join(own) + "\n")
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\ndata = "{name}.csv"\ntarget = "disease"\nleave_out = ["hospital"]\nmethod = "fedavg"\n'
            f'rounds = 2\nhidden = 4\nout = "{name}"\n'
        )

    def act(connection):
        with connected(connection):
            main(["site", "--config", str(tmp_path / f"{connection.name}.toml")], standalone_mode=False)

    with warnings.catch_warnings():  # sites are threads here, which share filters, and processes in a job
        Hall(["north", "south"], poll=0.2).play(act)
    for name in ("north", "south"):
        assert load(tmp_path / name / "models").names == (name,)
        assert json.loads((tmp_path / name / "history.json").read_text())["rounds"] == [1, 2]
        assert (tmp_path / name / "run.toml").is_file()
        assert f"sites: {name}" in call("show", name).stdout


def test_lists(call):
    named = [line.split()[0] for line in call("methods").stdout.splitlines()]
    assert named == list(methods.__all__)
    listed = call("datasets").stdout
    assert all(f"\n{name} " in listed for name in (*TABLES, *DATASETS))
    shown = call("show", "cobo").stdout
    assert "rho = 0.05    (a positive finite number)" in shown
    assert "the strength of the pull" in shown
    assert "the patients of four hospitals" in call("show", "heart_disease").stdout


def test_every_command_has_help_for_every_option(call):
    for name in ("compare", "benefit", "predict", "site"):
        done = call(name, "--help")
        assert done.exit_code == 0
        assert "--config" in done.stdout
    for command in main.commands.values():
        options = [one for one in command.params if isinstance(one, click.Option)]
        assert [one.name for one in options if not one.help] == [], command.name


def test_methods_and_datasets_are_shown_in_words_of_the_line(call):
    shown = call("show", "ditto").stdout
    assert "steps = none    (a whole number of at least 1 or none)" in shown
    assert "optimizer = sgd    ('sgd', 'adam' or 'adamw')" in shown
    assert "part = all    (text)" in shown
    assert "decoupled = true    (true or false)" in call("show", "l2c").stdout
    for name in methods.__all__:
        settings = [line for line in call("show", name).stdout.splitlines() if line.startswith("  ") and " = " in line]
        assert not [line for line in settings if "None" in line or "RowOptimizer" in line or "True" in line], name
    listed = call("datasets").stdout
    assert "root" not in listed
    assert "Files are looked for in the folder that the environment variable GRAPHCOLLAB_DATA names." in listed
    assert "GRAPHCOLLAB_DATA/cifar10.npz" in call("show", "cifar10").stdout
