"""Names that terminals and spreadsheets would obey, and output in encodings that lack some signs."""

from __future__ import annotations

import contextlib
import csv
import io
import random
import warnings

import pytest

from graphcollab import Tasks, build_model, compare, report, run
from graphcollab.cli.app import main
from graphcollab.methods import l2c, local
from graphcollab.persistence import LearnedGraph
from graphcollab.train import RecordGraph
from tests.raising import warns

ESCAPE, BIDI, FORMULA, TAB = "Bern\x1b[2J", "Chur\u202egnp.exe", "=cmd|' /C calc'!A0", "@SUM(1,2)"
SITES, TARGET = (ESCAPE, BIDI, FORMULA, TAB), '=HYPERLINK("//evil")'
CLASSES = ("+", "-1+2")
SHORT = ["--seeds", "0", "--rounds", "1", "--hidden", "4"]


@pytest.fixture
def strange(tmp_path):
    """A table whose sites, target and classes have such names."""
    drawn, path = random.Random(0), tmp_path / "strange.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["site", "age", TARGET])
        for k in range(120):
            age = drawn.randint(20, 80)
            lines.writerow([SITES[k % 4], age, CLASSES[(age + drawn.randint(-20, 20)) > 50]])
    return path


@pytest.fixture
def comparison(strange):
    tasks = Tasks.from_frame(strange, target=TARGET)
    model = build_model("mlp", tasks.input_shape, 2, hidden=4)
    return compare({"local": local, "l2c": l2c}, lambda seed: tasks, lambda t: model, rounds=1, seeds=[0])


def obeyed(text):
    return {*text} & {*"\x1b\u202e"}


def formulas(path):
    """Return the cells of a file that a spreadsheet computes."""
    with path.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert f"'{FORMULA}" in cells
    return [one for one in cells if one[:1] in [*"=@+-\t"] and not one.lstrip("+-").replace(".", "").isdigit()]


def test_nothing_that_a_terminal_obeys_is_printed(run_command, strange, comparison):
    comparison.results["local"].save("models")
    compared = run_command("compare", strange, "--target", TARGET, "--methods", "local", "fedavg", *SHORT)
    for done in (compared, run_command("show", "models")):
        assert done.exit_code == 0, done.output
        assert not obeyed(done.output)
        assert r"Bern\x1b[2J" in done.stdout
    refused = run_command("predict", "models", strange, "--site", "Bern\x1b]0;x")
    assert refused.exit_code == 2
    assert not obeyed(refused.output)


def test_no_cell_is_a_formula(run_command, strange, comparison, tmp_path):
    comparison.results["local"].save("models")
    done = run_command("predict", "models", strange, "--proba", "--out", "found.csv")
    assert done.exit_code == 0, done.output
    assert {*formulas(tmp_path / "found.csv")} <= {"+"}  # a lone sign is none
    assert formulas(report.site_table(comparison).to_csv(tmp_path / "sites.csv")) == []


def test_neither_tables_nor_warnings_are_obeyed(comparison):
    assert not obeyed(str(report.site_table(comparison)) + str(report.results_table(comparison)))
    own = {"age": [1, 2] * 20, "y": [0, 1, 1, 0] * 10}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Tasks.from_frame({"\x1b[2JBern": own, "\x1b[2Jbern": own})
    assert told
    assert not obeyed("".join(str(one.message) for one in told))


def test_edges_that_were_written_are_read_again(strange, tmp_path):
    tasks = Tasks.from_frame(strange, target=TARGET)
    model = build_model("mlp", tasks.input_shape, 2, hidden=4)

    def edges_of(graph):
        return run(l2c(), tasks, model, graph=graph, rounds=1, callbacks=[RecordGraph()]).graph()

    learned = edges_of([(FORMULA, TAB), (TAB, ESCAPE)])
    path = learned.to_csv(tmp_path / "edges.csv")
    assert f"'{TAB}" in path.read_text()
    with warns("no-effect", "graph"):
        again = edges_of(LearnedGraph.from_csv(path))
    assert {edge[:2] for edge in again.named_edges()} == {edge[:2] for edge in learned.named_edges()}


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "cp1252"])
def test_answers_in_other_encodings_say_the_same(patients, about, charset, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    patients.write_text(patients.read_text().replace("west", "Łódź"), encoding="utf-8")

    def call(*words):
        streams = [io.TextIOWrapper(io.BytesIO(), charset) for _ in range(2)]
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            with pytest.raises(SystemExit) as ended:
                main(words)
            for stream in streams:
                stream.flush()
        return ended.value.code, streams[0].buffer.getvalue().decode(charset)

    code, told = call("compare", str(patients), *about, "--methods", "local", "fedavg", *SHORT)
    assert code == 0
    assert r"\u0141" in told
    assert " -" in told or "+" in told
    assert call("predict", "→", str(patients))[0] == 2
    assert call("compare", "--help")[0] == 0
