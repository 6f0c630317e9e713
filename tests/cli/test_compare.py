"""`graphcollab compare`, from a table in a file to a folder of results."""

from __future__ import annotations

import csv
import functools
import html
import json
import sys
import tomllib

import pytest

from graphcollab import Tasks, build_model, compare, load_dataset, methods, report
from graphcollab._base.errors import MissingPackageError
from graphcollab.cli import comparing
from graphcollab.cli.comparing import _seeds
from graphcollab.data.partition import shard_tasks

SHORT = ["--rounds", "2", "--hidden", "4"]
NUMBERS = ("mean", "std", "bytes_per_node")


def numbers(path):
    """What is the same in every repetition of a run: all but seconds."""
    told = json.loads(path.read_text())["methods"]
    return {name: [[seed[key] for key in NUMBERS] for seed in one["per_seed"]] for name, one in told.items()}


@pytest.fixture
def compare_words(patients, about):
    return ["compare", patients, *about, "--methods", "local", "fedavg", "--seeds", "0-1", *SHORT]


def test_says_what_python_says(run_command, compare_words, patients, tmp_path):
    done = run_command(*compare_words, "--lrs", "0.05", "--out", "report")
    assert done.exit_code == 0, done.output
    found = compare(
        {"local": methods.local, "fedavg": methods.fedavg},
        lambda seed: Tasks.from_frame(patients, node="hospital", target="disease", seed=seed),
        lambda tasks: build_model("mlp", tasks.input_shape, 2, hidden=4),
        seeds=[0, 1],
        grids={"*": {"lr": [0.05]}},
        rounds=2,
        patience=20,
        baseline="constant",
    )
    told = json.loads((tmp_path / "report" / "results.json").read_text())
    for name in ("local", "fedavg", "constant"):
        by_seed = [one["mean"] for one in told["methods"][name]["per_seed"]]
        assert by_seed == pytest.approx([100 * one for one in found.values(name)], abs=1e-9)
    assert told["settings"] == {"local": [{"lr": 0.05}] * 2, "fedavg": [{"lr": 0.05}] * 2, "constant": [{}] * 2}
    with (tmp_path / "report" / "sites.csv").open() as file:
        assert {row["site"] for row in csv.DictReader(file)} >= {"north", "south", "west"}
    assert done.stdout.startswith("Whether any method is better than local is open: with two seeds ")
    assert "\n\nmethod " in done.stdout
    assert (tmp_path / "report" / "results.txt").read_text() == done.stdout
    assert (tmp_path / "report" / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    wrote = {text.removeprefix("wrote report/") for text in done.stderr.splitlines() if text.startswith("wrote ")}
    assert wrote == {one.name for one in (tmp_path / "report").iterdir()} - {"checkpoints"}


def test_what_a_run_writes_repeats_it(run_command, compare_words, tmp_path):
    assert run_command(*compare_words, "--out", "report", "--set", "fedavg.batch_size=5,20").exit_code == 0
    told = tomllib.loads((tmp_path / "report" / "run.toml").read_text())["compare"]
    assert (told["data"], told["out"]) == (str(tmp_path / "patients.csv"), "report")
    assert told["seeds"] == [0, 1]
    assert told["set"] == ["fedavg.batch_size=5,20"]
    again = run_command("compare", "--config", "report/run.toml", "--out", "again")
    assert again.exit_code == 0, again.output
    assert numbers(tmp_path / "again" / "results.json") == numbers(tmp_path / "report" / "results.json")


def test_the_line_wins_over_the_file(run_command, compare_words, tmp_path):
    (tmp_path / "run.toml").write_text(
        '[compare]\ndata = "patients.csv"\nnode = "hospital"\ntarget = "disease"\nmethods = ["local"]\nrounds = 3\n'
        'seeds = [0]\nhidden = 4\nlrs = [0.1]\nset = ["local.epochs=1", "local.patience=none"]\n'
    )
    done = run_command("compare", "--config", "run.toml", "--rounds", "2", "--out", "report", "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    told = json.loads((tmp_path / "report" / "results.json").read_text())
    assert told["methods"]["local"]["rounds"] == 2
    assert told["settings"]["local"] == [{"lr": 0.1, "epochs": 1, "patience": None}]
    assert [one["seed"] for one in told["methods"]["local"]["per_seed"]] == [0]


def test_goes_on_in_its_folder_and_no_other_run_does(run_command, compare_words, tmp_path):
    assert run_command(*compare_words, "--out", "report").exit_code == 0
    before = (tmp_path / "report" / "results.txt").read_text()
    assert run_command("predict", "report", "patients.csv").exit_code == 2
    assert run_command("show", "report").stdout.startswith(before)
    again = run_command(*compare_words, "--out", "report", "--n-jobs", "1")
    assert (again.exit_code, again.stdout) == (0, before)  # seconds, too: they are those of the checkpoints
    other = run_command(*compare_words, "--out", "report", "--metric", "brier")
    assert other.exit_code == 2
    assert "metric" in other.stderr
    assert (tmp_path / "report" / "results.txt").read_text() == before
    benefit = run_command("benefit", *compare_words[1:6], "--out", "report")
    assert benefit.exit_code == 2
    assert benefit.stderr.startswith("graphcollab: out: report holds something else (")


def test_models_are_saved_and_predict(run_command, compare_words, patients, tmp_path):
    assert run_command(*compare_words, "--out", "report", "--save").exit_code == 0
    rows = list(csv.DictReader(patients.read_text().splitlines()))
    new = tmp_path / "new.csv"
    new.write_text("hospital,age,sex\n" + "".join(f"{one['hospital']},{one['age']},{one['sex']}\n" for one in rows[:7]))
    done = run_command("predict", "report/models/fedavg", new, "--proba", "--out", "told.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "told.csv").open() as file:
        told = list(csv.DictReader(file))
    assert [one["hospital"] for one in told] == [one["hospital"] for one in rows[:7]]
    assert [one["row"] for one in told] == [*map(str, range(7))]
    for one in told:
        ill, well = float(one["disease = ill"]), float(one["disease = well"])
        assert ill + well == pytest.approx(1, abs=1e-6)
        assert one["disease"] == ("ill" if ill > well else "well")
    printed = run_command("predict", "report/models/fedavg", new)
    assert printed.stdout.splitlines()[0] == "row,hospital,disease"
    assert [row.split(",")[2] for row in printed.stdout.splitlines()[1:]] == [one["disease"] for one in told]
    far = run_command("predict", "report/models/fedavgg", new)
    assert far.exit_code == 2
    assert "'fedavg'" in far.stderr
    several = run_command("predict", "report", new)
    assert several.exit_code == 2
    assert "report/models/fedavg or report/models/local" in several.stderr
    shown = run_command("show", "report/models/fedavg")
    assert "sites: north, south, west" in shown.stdout
    strange = run_command("predict", "report/models/fedavg", new, "--site", "nort")
    assert "site nort has no model of its own: the model of all sites together answers" in strange.stderr
    assert "did you mean 'north'?" in strange.stderr
    assert strange.stdout.replace("nort", "").splitlines() == [  # all have one model here
        f"{k},,{one['disease']}" if k >= 0 else "row,hospital,disease" for k, one in enumerate([{}, *told], -1)
    ]


@pytest.mark.parametrize(("given", "meant"), [((5,), [0, 1, 2, 3, 4]), ((0,), [0]), ((1,), [0]), ((3, 7), [3, 7])])
def test_a_single_number_says_how_many_seeds(given, meant):
    assert _seeds(given) == meant
    assert _seeds(tuple(meant)) == meant  # as run.toml has them


def test_the_page_says_how_to_repeat_it(run_command, compare_words, tmp_path):
    done = run_command(*compare_words, "--out", "report")
    assert "wrote report/report.html" in done.stderr
    page = html.unescape((tmp_path / "report" / "report.html").read_text())
    assert "graphcollab compare --config report/run.toml" in page
    assert (tmp_path / "report" / "run.toml").read_text().strip() in page  # whoever has the page can repeat it


def test_without_matplotlib_there_are_no_figures(run_command, compare_words, tmp_path, monkeypatch):
    def draw(*args):
        raise MissingPackageError("matplotlib", "figures need it: pip install 'graphcollab[figures]'")

    monkeypatch.setattr(report, "accuracy_curves", draw)
    done = run_command(*compare_words, "--out", "report")
    assert done.exit_code == 0, done.output
    assert "graphcollab[figures]" in done.stderr
    assert (tmp_path / "report" / "report.html").is_file()
    assert not [*(tmp_path / "report").glob("*.png")]


def test_without_the_libraries_of_pages_all_else_is_written(run_command, compare_words, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "itables", None)
    done = run_command(*compare_words, "--out", "report")
    assert done.exit_code == 0
    assert "report.html" in done.stderr
    assert (tmp_path / "report" / "results.json").is_file()
    assert not (tmp_path / "report" / "report.html").exists()


def test_more_rounds_methods_and_seeds_go_on_in_the_folder(run_command, patients, about, tmp_path):
    line = ["compare", patients, *about, "--hidden", "4", "--out"]
    first = [*line, "report", "--methods", "local", "--rounds", "2", "--seeds", "0"]
    assert run_command(*first).exit_code == 0
    more = ["--methods", "local", "fedavg", "--rounds", "4", "--seeds", "0-1"]
    done = run_command(*line, "report", *more)
    assert done.exit_code == 0, done.output
    assert run_command(*line, "afresh", *more).exit_code == 0
    reports = [numbers(tmp_path / name / "results.json") for name in ("report", "afresh")]
    assert reports[0] == reports[1]
    assert tomllib.loads((tmp_path / "report" / "run.toml").read_text())["compare"]["rounds"] == 4


def test_a_dataset_without_sites_is_dealt_out(run_command, tmp_path):
    line = ["compare", "digits", "--methods", "local", "--seeds", "1", *SHORT, "--sites", "10"]
    assert run_command(*line, "--classes-per-node", "5", "--shard-size", "9", "--out", "digits").exit_code == 0
    told = json.loads((tmp_path / "digits" / "results.json").read_text())
    found = compare(
        {"local": methods.local},
        lambda seed: shard_tasks(load_dataset("digits"), 5, 5, seed, shard_size=9),
        lambda tasks: build_model("mlp", tasks.input_shape, 10, hidden=4),
        seeds=[0],
        rounds=2,
    )
    mean = told["methods"]["local"]["per_seed"][0]["mean"]
    assert mean == pytest.approx(100 * found.values("local")[0], abs=1e-9)
    again = run_command("compare", "--config", "digits/run.toml", "--partition", "groups", "--out", "again")
    assert again.exit_code == 0, again.output


def test_categories_are_given_on_the_line_and_in_a_file(run_command, compare_words, tmp_path):
    assert run_command(*compare_words, "--categories", "sex=f,m,x", "--out", "report", "--save").exit_code == 0
    assert "sex = x" in run_command("show", "report/models/local").stdout
    assert tomllib.loads((tmp_path / "report" / "run.toml").read_text())["compare"]["categories"] == ["sex=f,m,x"]
    assert run_command("compare", "--config", "report/run.toml").exit_code == 0


def test_without_local_training_nothing_is_said_of_collaborating(run_command, patients, about):
    line = ["compare", patients, *about, "--seeds", "0", *SHORT, "--methods", "fedavg", "dpsgd"]
    said = "Add local to --methods to compare with training alone."
    assert run_command(*line).stdout.rstrip().endswith(said)
    assert said not in run_command(*line, "local").stdout


def test_one_site_is_warned_of(run_command, patients, about):
    one = [row for row in patients.read_text().splitlines() if row.startswith(("hospital", "north"))]
    patients.write_text("\n".join(one) + "\n")
    done = run_command("compare", patients, *about, "--methods", "local", "--seeds", "0", *SHORT)
    assert done.exit_code == 0
    assert "warning: node: " in done.stderr


def test_who_may_hear_whom_is_read_from_a_file(run_command, patients, about, tmp_path):
    (tmp_path / "roads.csv").write_text("sender,receiver\nnorth,south\nsouth,north\n")
    line = ["compare", patients, *about, "--methods", "dpsgd", "--seeds", "0", *SHORT]
    assert run_command(*line, "--graphs", "dpsgd=roads.csv", "--out", "report").exit_code == 0
    assert run_command("compare", "--config", "report/run.toml", "--out", "again").exit_code == 0
    (tmp_path / "graphs.toml").write_text('[compare]\ngraphs = ["dpsgd=roads.csv"]\n')
    assert run_command(*line, "--config", "graphs.toml", "--out", "file").exit_code == 0
    assert run_command(*line, "--out", "all").exit_code == 0
    sent = {name: numbers(tmp_path / name / "results.json") for name in ("report", "again", "file", "all")}
    assert sent["report"] == sent["again"] == sent["file"] != sent["all"]
    gone = run_command(*line, "--graphs", "dpsgd=road.csv")
    assert gone.exit_code == 2
    assert gone.stderr.startswith("graphcollab: graphs: ")
    assert "road.csv" in gone.stderr


def test_what_is_in_the_models_is_printed_and_on_the_page(run_command, patients, about, tmp_path, monkeypatch):
    monkeypatch.setattr(comparing.report, "coefficient_table", functools.partial(report.coefficient_table, resamples=2))
    line = ["compare", patients, *about, "--methods", "local", "--seeds", "0", "--rounds", "2", "--lrs", "0.1"]
    linear = [*line, "--hidden", "none", "--leave-out", "sex", "--out", "report"]
    done = run_command(*linear, "--explain", "--by", "sex", "age")
    assert done.exit_code == 0, done.output
    titles = [
        "What the models of local rely on",
        "Coefficients of local",
        "Groups of rows by sex",
        "Groups of rows by age",
    ]
    told, page = done.stdout.splitlines(), (tmp_path / "report" / "report.html").read_text()
    assert [one for one in told if one in titles] == titles
    assert all(f"<caption>{one}</caption>" in page for one in titles)
    assert '<h2 id="models-title">The models</h2>' in page
    again = run_command(*linear, "--by", "sex")  # nothing is trained anew for it
    assert again.exit_code == 0, again.output
    assert "Coefficients of local" not in again.stdout
    assert "no coefficients: the models of" in run_command(*line, "--hidden", "4", "--explain").stdout


def test_what_cannot_be_explained_is_said_before_anything_is_run(run_command, compare_words):
    done = run_command(*compare_words, "--by", "gender")
    assert (done.exit_code, done.stdout, "'gender'" in done.stderr) == (2, "", True)
    done = run_command("compare", "digits", "--methods", "local", "--explain")
    assert (done.exit_code, "not a table" in done.stderr) == (2, True)


def test_saves_models_where_seeds_differ_in_inputs(run_command, tmp_path):
    """A category of two rows is not among the rows to learn from on every seed, and constants are asked of each."""
    rows = [
        f"{'ab'[k % 2]},{k % 7},{'rare' if k in (4, 9) else 'uv'[k % 3 > 0]},{'yes' if k % 3 else 'no'}"
        for k in range(60)
    ]
    (tmp_path / "rare.csv").write_text("\n".join(["site,x,kind,y", *rows]))
    widths = {Tasks.from_frame(tmp_path / "rare.csv", target="y", seed=seed).input_shape for seed in range(12)}
    assert len(widths) > 1
    line = ["compare", "rare.csv", "--target", "y", "--methods", "local", "--rounds", "1", "--seeds", "12"]
    done = run_command(*line, "--out", "kept", "--save")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "kept" / "models" / "local").is_dir()
