"""`graphcollab benefit`, `site`, `datasets`, `methods` and `show`."""

from __future__ import annotations

import inspect
import json
import warnings
from dataclasses import fields

from graphcollab import Tasks, benefit, compare, load, methods, run, site
from graphcollab.analysis.baseline import SKLEARN
from graphcollab.cli import commands
from graphcollab.cli.app import APP, call as call_here
from graphcollab.cli.data import methods_for
from graphcollab.cli.options import Columns, Computing, Table, Training
from graphcollab.data.datasets.catalog import DATASETS, TABLES
from graphcollab.data.partition import grouped_tasks, shard_tasks
from graphcollab.sites import connected
from graphcollab.sites.hall import Hall
from graphcollab.train import Compute


def test_benefit(run_command, patients, about, tmp_path):
    line = ["benefit", patients, *about, "--methods", "l2c", "--repeats", "3", "--rounds", "1", "--lrs", "0.1"]
    sklearn = ["--baseline", "sklearn"]
    done = run_command(
        *line, "--hidden", "4", "--set", "l2c.mixer_lr=0.2", "--metrics", "brier", "--out", "answer", *sklearn
    )
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "answer" / "results.json").read_text())
    assert told["names"] == ["north", "south", "west"]
    assert set(told["also"]) == {"brier"}
    assert "gain by l2c" in done.stdout
    assert "sklearn pooled with site" in done.stdout
    assert [one["by"] for one in told["by_baseline"]] == [*told["baseline"]] == [*SKLEARN]
    assert "sklearn pooled with site" in (tmp_path / "answer" / "report.html").read_text()
    assert (tmp_path / "answer" / "results.txt").read_text() == done.stdout
    assert [one.name for one in (tmp_path / "answer").glob("*.png")] == []
    assert "wrote answer/run.toml" in done.stderr
    assert run_command("predict", "answer", patients).exit_code == 2


def test_methods_of_a_benefit():
    own = ["partial_pooling.lam=none,30", "partial_pooling.shrink=0,10", "partial_pooling.warmup=0,10"]

    def of(data, named, words, event=None):
        return methods_for({"data": data, "methods": named, "set": words, "event": event, "rounds": 30})

    assert of("own.csv", None, ["*.part=all"]) == (["meta_l2c", "partial_pooling"], ["*.part=all", *own])
    given = ["partial_pooling.lam=3", "partial_pooling.shrink=3", "partial_pooling.warmup=0"]
    assert of("heart_disease", None, given) == (["meta_l2c", "partial_pooling"], given)
    assert of("digits", None, ()) == (["meta_l2c"], [])
    assert of("own.csv", (), ()) == ([], [])
    assert of("own.csv", None, (), event="died") == (["meta_l2c"], [])  # risks have no intercept to share


def test_rehearsal_of_a_site(run_command, patients, tmp_path):
    line = ["site", "Bern", patients, "--target", "disease", "--leave-out", "hospital", "--method", "fedavg"]
    done = run_command(
        *line, "--rounds", "1", "--hidden", "4", "--dry-run", "--others", "Genf", "Basel", "--out", "bern"
    )
    assert done.exit_code == 0, done.output
    assert all(name in done.stdout for name in ("Bern", "fedavg", "3 sites"))
    assert not (tmp_path / "bern").exists()
    alone = run_command(*line)
    assert alone.exit_code == 1
    assert alone.stderr.startswith("graphcollab: dry_run: Bern ")


def test_sites_that_meet_in_a_job(run_command, tmp_path, patients):
    rows = patients.read_text().splitlines()
    for name in ("north", "south"):
        own = [rows[0], *(row for row in rows if row.startswith(name))]
        (tmp_path / f"{name}.csv").write_text("\n".join(own) + "\n")
        (tmp_path / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.csv"\ntarget = "disease"\nleave_out = ["hospital"]\n'
            f'method = "fedavg"\nrounds = 2\nhidden = 4\nout = "{name}"\n'
        )

    def act(connection):
        with connected(connection):
            call_here(["site", "--config", str(tmp_path / f"{connection.name}.toml")])

    with warnings.catch_warnings():  # sites are threads here, which share filters, and processes in a job
        Hall(["north", "south"], poll=0.2).play(act)
    for name in ("north", "south"):
        assert load(tmp_path / name / "models").names == (name,)
        assert json.loads((tmp_path / name / "history.json").read_text())["rounds"] == [1, 2]
        assert (tmp_path / name / "run.toml").is_file()
        assert f"sites: {name}" in run_command("show", name).stdout


def test_lists(run_command):
    named = [line.split()[0] for line in run_command("methods").stdout.splitlines()]
    assert named == list(methods.__all__)
    listed = run_command("datasets").stdout
    assert all(f"\n{name} " in listed for name in (*TABLES, *DATASETS))
    shown = run_command("show", "cobo").stdout
    assert "rho = 0.05    (a finite number above 0)" in shown
    assert "the patients of four hospitals" in run_command("show", "heart_disease").stdout


def test_every_option_has_help_and_the_default_of_its_function():
    functions = (Tasks.from_frame, compare, run, Compute, benefit, site, grouped_tasks, shard_tasks)
    usual = {(of, name): one.default for of in functions for name, one in inspect.signature(of).parameters.items()}
    groups = {Columns: Tasks.from_frame, Table: Tasks.from_frame, Training: run, Computing: Compute}
    for kind, function in groups.items():
        for field in fields(kind):
            of_function = usual[function, field.name]
            assert field.default in (of_function, of_function or (), of_function or None), field.name
    for command, function in ((commands.compare, compare), (commands.benefit, benefit), (commands.site, run)):
        for name, one in inspect.signature(command).parameters.items():
            if (function, name) in usual and name not in ("methods", "graphs", "data", "model"):  # of tables
                assert one.default == usual[function, name], name
    for name in ("compare", "benefit", "predict", "site", "show"):
        options = APP[name].assemble_argument_collection(parse_docstring=True)
        assert [one.name for one in options if one.show and not one.parameter.help] == [], name


def test_a_table_is_shown_with_its_findings(run_command, tmp_path):
    rows = [f"{'ab'[k % 2]},{k % 7},{30 + k % 40},{k // 2 % 2},{['no', 'yes'][k // 2 % 2]}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(['place,"x, y",age,copy,ill', *rows]) + "\n")
    words = ("show", "t.csv", "--node", "place", "--target", "ill")
    shown = run_command(*words)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("t.csv has 60 rows, each a sample, from 2 sites (column 'place') of 30 rows each.")
    assert "To predict: ill, one of 2 classes: no in 30 rows (50.0 %), yes in 30 rows (50.0 %)." in shown.stdout
    assert "findings:\n  column 'copy' tells the target 'ill' of all rows exactly" in shown.stdout
    less = run_command(*words, "--leave-out", '"x, y",copy').stdout
    assert less.endswith("findings: none\n")
    assert "copy" not in less
    assert run_command("show", "t.csv", "--target", "ill").exit_code == 2


def test_what_is_shown_of_a_table_is_written(run_command, patients, tmp_path):
    line = ["show", patients, "--node", "hospital", "--target", "disease", "--out", "seen"]
    shown = run_command(*line)
    assert shown.exit_code == 0, shown.output
    assert {path.name for path in (tmp_path / "seen").iterdir()} == {"results.txt", "report.html", "run.toml"}
    assert (tmp_path / "seen" / "results.txt").read_text() == shown.stdout
    again = run_command("show", "--config", "seen/run.toml", "--quiet")
    assert (again.stdout, again.stderr) == (shown.stdout, "")
    assert run_command("show", "seen").stdout.startswith(shown.stdout.rstrip())
    assert run_command("show", "ditto", "--out", "other").exit_code == 2
    assert not (tmp_path / "other").exists()


def test_rows_and_sites_are_left_out(run_command, patients):
    lacking = patients.read_text() + "south,50,f,\ntiny,40,m,ill\n"
    patients.write_text(lacking)
    words = (patients, "--node", "hospital", "--target", "disease")
    refused = run_command("show", *words)
    assert refused.exit_code == 0
    assert "As it is, no run can begin: row 90 (site 'south') has no target" in refused.stdout
    shown = run_command("show", *words, "--drop-missing-target", "--min-rows", "3")
    assert "no run can begin" not in shown.stdout
    assert "  1 of 92 rows are left out: 1 without a target" in shown.stdout
    run = ("--methods", "fedavg", "--seeds", "1", "--rounds", "1", "--drop-missing-target", "--min-rows", "3")
    played = run_command("compare", *words, *run)
    assert played.exit_code == 0, played.output
    assert "warning: min_rows: 1 of 4 sites are left out, which have fewer than 3 rows: 'tiny' 1" in played.stderr


def test_methods_and_datasets_are_shown(run_command):
    shown = run_command("show", "ditto").stdout
    assert "steps = None    (a whole number of at least 1 or None)" in shown
    assert "optimizer = sgd    (" in shown
    assert "cifar-10-batches-py" in run_command("show", "cifar10").stdout
