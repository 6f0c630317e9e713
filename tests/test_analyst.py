"""What an analyst met at the command line: errors and advice that can be followed as they stand."""

from __future__ import annotations

import html
import random
import re
import shlex
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

from graphcollab import GraphcollabWarning, Tasks, benefit, build_model
from graphcollab._base.naming import AS_OPTIONS, setting
from graphcollab.cli.app import main

QUICK = ("--methods", "none", "--repeats", "3", "--rounds", "1", "--hidden", "none")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run_command(capsys):
    """Call the command with words; return the exit code, what it printed, and what it said of errors."""

    def run(*words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*words])
        return (ended.value.code, *capsys.readouterr())

    return run


def table(columns: str, row) -> None:
    """Write a table of four sites of 15 rows; ``row`` makes values of a generator and a position."""
    draw = random.Random(3)
    rows = [",".join(map(str, (f"s{k % 4}", *row(draw, k)))) for k in range(60)]
    Path("t.csv").write_text("\n".join([f"site,{columns}", *rows]) + "\n")


def test_where_all_step_sizes_diverge_the_target_is_to_be_standardized_first(run_command):
    table("age,price", lambda draw, k: (draw.randint(30, 90), 1e5 * (1 + draw.random())))
    line = ("benefit", "t.csv", "--target", "price", "--methods", "none", "--repeats", "3", "--rounds", "5")
    code, _, said = run_command(
        *line, "--hidden", "64", "--no-standardize-target"
    )  # a linear model stands such targets
    assert code == 1
    assert said.index("--standardize-target") < said.index("smaller step size")
    assert "0.01, 0.03, 0.1; smaller ones are given by --lrs" in said
    assert "on-nonfinite" not in said
    assert "on_nonfinite" not in said
    tasks = partial(Tasks.from_frame, "t.csv", "site", "price")
    assert run_command(*line)[0] == 0
    with pytest.raises(ArithmeticError, match="standardize_target=True; or use a smaller step size") as error:
        benefit(lambda seed: tasks(seed=seed), build_model("mlp", (1,), 1), methods={}, repeats=3, rounds=5)
    assert "--" not in str(error.value)


def test_columns_with_spaces_can_be_pasted(run_command):
    table("Unnamed: 0,a,y", lambda draw, k: (k, draw.gauss(0, 1), draw.choice("uv")))
    line = ("benefit", "t.csv", "--target", "y", *QUICK)
    advice = "--leave-out 'Unnamed: 0'"
    assert advice in run_command(*line)[2]
    assert run_command(*line, *shlex.split(advice))[::2] == (0, "")
    with pytest.warns(GraphcollabWarning, match=r"leave_out=\['Unnamed: 0'\]"):
        Tasks.from_frame("t.csv", target="y")


def test_settings_are_written_for_who_reads_them():
    assert setting(standardize_target=True) == "standardize_target=True"
    assert setting(rounds=...) == "rounds=..."
    token = AS_OPTIONS.set(True)
    try:
        assert setting(standardize_target=True) == "--standardize-target"
        assert setting(rounds=...) == "--rounds"
        assert setting(loss="mse") == "--loss mse"
        assert shlex.split(setting(leave_out=["a b", "c, d"])) == ["--leave-out", "a b", '"c, d"']
    finally:
        AS_OPTIONS.reset(token)


@pytest.mark.parametrize(
    ("columns", "row", "more", "code", "advice"),
    [
        ("a,y", lambda draw, k: (draw.gauss(0, 1), draw.gauss(0, 1)), ["--loss", "cross_entropy"], 2, "--loss mse"),
        ("a,y", lambda draw, k: (draw.gauss(0, 1), k % 7), [], 0, "--loss mse"),
        ("my id,y", lambda draw, k: (f"x{k}z", draw.choice("uv")), [], 2, "--categorical 'my id'"),
        ("a,y", lambda draw, k: (draw.gauss(0, 1), draw.choice("uv")), ["--test-fraction", "0"], 2, ""),
        ("a,y", lambda draw, k: (draw.gauss(0, 1), draw.choice("uv")), ["--metric", "mse"], 2, "--metric mse"),
        ("patient,a,y", lambda draw, k: (f"p{k // 4}", k % 9, draw.choice("uv")), [], 0, ""),
    ],
)
def test_the_command_speaks_of_its_options(run_command, columns, row, more, code, advice):
    table(columns, row)
    ended, _, said = run_command("benefit", "t.csv", "--target", "y", *QUICK, *more)
    assert ended == code
    assert advice in said
    assert not any(f"{name}=" in said for name in ("loss", "metric", "leave_out", "categorical", "group", "node"))
    assert "from_frame" not in said


def test_one_warning_comes_once(run_command):
    table("a,y", lambda draw, k: (k % 40, "uv"[k % 40 // 4 % 2]))
    said = run_command("benefit", "t.csv", "--target", "y", *QUICK)[2]
    assert said.count("have the inputs and the target of another one") == 1


def test_where_constants_are_best_there_may_be_nothing_to_learn(run_command, monkeypatch):
    table("a,b,y", lambda draw, k: (draw.gauss(0, 1), draw.gauss(0, 1), draw.gauss(0, 1)))
    playing = sys.modules["graphcollab.analysis.benefit"]
    monkeypatch.setattr(playing, "REPEATS", 3)
    monkeypatch.setattr(playing, "ROUNDS", 1)
    monkeypatch.setattr(
        sys.modules["graphcollab.report.benefit_answer"],
        "no_better",
        lambda *_: dict.fromkeys(("alone", "together"), 1.0),
    )
    text = run_command("benefit", "t.csv", "--target", "y", *QUICK)[1]
    assert "There may be nothing to learn from these columns; or train for longer, --rounds, or by" in text


def test_methods_are_shown_without_markup(run_command):
    shown = run_command("show", "fedavg")[1].partition("Settings, as in")[0]
    assert r"x \leftarrow \sum_{k \in S} \frac{n_k}{\sum_{l \in S} n_l} x_k" in shown
    assert "(McMahan et al., AISTATS 2017) (https://arxiv.org/abs/1602.05629)" in shown
    for markup in (".. math", ":math:", "``", ">`_"):
        assert markup not in shown


def test_a_site_of_one_class_neither_gains_nor_loses(run_command):
    """Finding 1: twelve sites of one law, of which the first has, by chance, no rows of the rarer class."""
    draw = random.Random(5)
    rows = [[f"s{k // 20:02d}", draw.gauss(0, 1), "yes" if draw.random() < 0.12 else "no"] for k in range(240)]
    rows = [[site, a, "no" if site == "s00" else y] for site, a, y in rows]
    Path("same.csv").write_text("\n".join(["site,a,y", *(",".join(map(str, row)) for row in rows)]) + "\n")
    line = ("benefit", "same.csv", "--target", "y", "--metric", "log_loss", "--limit", "2", "--lrs", "0.1")
    text = run_command(*line, *QUICK)[1]
    row = next(one for one in text.splitlines() if one.startswith("s00 "))
    assert "*" not in row
    assert "No star at sites with fewer than 5 samples beside their most frequent class (one class only: s00" in text
    assert "the rarer class on a split (one class only: s00" in text  # 1b: none comes before few


@pytest.mark.parametrize(
    ("columns", "row", "warned"),
    [
        ("a,lab,y", lambda draw, k: (k % 9, (10 if k // 4 % 2 else 3) + draw.uniform(-0.3, 0.3), k // 4 % 2), "'lab'"),
        ("a,y", lambda draw, k: (draw.gauss(0, 1), (0, 1, 0, 1, -9)[k % 5]), "-9 in 12 rows"),
    ],
)
def test_leaks_and_codes_are_warned_of(run_command, columns, row, warned):
    """Findings 5 and 4: a column that a threshold sorts by the target, and a code among classes."""
    table(columns, row)
    assert warned in run_command("benefit", "t.csv", "--target", "y", *QUICK)[2]


def test_the_help_says_which_metric_is_the_default(run_command):
    for command in ("benefit", "compare"):
        assert "Default: accuracy, mae, poisson_deviance or concordance." in " ".join(
            run_command(command, "--help")[1].replace("│", " ").split()
        )


@pytest.mark.slow
def test_a_page_says_who_asked_what_of_which_file(run_command):
    """Findings 12 and 15, and the page's own."""
    table("a,b,y", lambda draw, k: (draw.gauss(0, 1), k % 7, "uv"[k // 4 % 2]))
    assert run_command("benefit", "t.csv", "--target", "y", *QUICK, "--out", "one")[0] == 0
    line = ("compare", "t.csv", "--target", "y", "--methods", "local", "fedavg", "--rounds", "2", "--seeds", "3")
    code, text, _ = run_command(*line, "--hidden", "none", "--baseline", "sklearn", "--out", "two")
    assert code == 0
    pages = [html.unescape(Path(name, "report.html").read_text(encoding="utf-8")) for name in ("one", "two")]
    for page in pages:
        body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL).partition('id="settings"')[0]
        assert (
            "t.csv: 60 rows of 4 sites (column 'site'). A row is one case: models predict its 'y' (u or v) from a, b"
            in body
        )
        assert body.index("Judged by accuracy (the share of rows that are predicted right; larger is better)") > 0
        assert "one model for all sites" in body or "sites replace their models by the average" in body
        assert not re.search(r"\bnodes?\b|Benefit\.|\de[+−-]\d", body)
    assert not re.search(r"\bnodes?\b", text)
    assert "comparisons" not in pages[1].partition("<nav")[0]  # fedavg alone: scikit-learn's rows are no claims


@pytest.mark.slow  # three seconds
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of scikit-learn
def test_saved_models_are_not_overtrained(run_command):
    """Ten sites of 40 rows of one logistic law: beside logistic regressions of each site's rows, on 4,000 new ones."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(4400, 3)).round(3)
    y = draw.random(4400) < 1 / (1 + np.exp(-x @ [1.0, -1.0, 0.5]))
    lines = [
        f"s{k % 10},{a},{b},{c},{'yes' if one else 'no'}" for k, ((a, b, c), one) in enumerate(zip(x, y, strict=True))
    ]
    for name, part in (("old", lines[:400]), ("new", lines[400:])):
        Path(f"{name}.csv").write_text("\n".join(["site,a,b,c,y", *part]) + "\n")
    line = ("compare", "old.csv", "--target", "y", "--methods", "local", "--metric", "log_loss", "--seeds", "1")
    assert run_command(*line, "--out", "d", "--save")[0] == 0
    told = [one.split(",") for one in run_command("predict", "d", "new.csv", "--proba")[1].splitlines()[1:]]
    ours = log_loss(y[400:], np.array([float(one[-1]) for one in told]))
    site, truth = np.arange(4400) % 10, y[400:]
    theirs = np.empty(4000)
    for k in range(10):
        own, new = site[:400] == k, site[400:] == k
        model = LogisticRegressionCV(cv=5, scoring="neg_log_loss").fit(x[:400][own], y[:400][own])
        theirs[new] = model.predict_proba(x[400:][new])[:, 1]
    assert ours < 0.693
    assert ours < log_loss(truth, theirs) + 0.02
