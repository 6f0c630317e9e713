"""What the command line says is in its own words, once, and can be pasted."""

from __future__ import annotations

import random
import shlex

import pytest

from graphcollab_command.wording import on_the_line

SHORT = ["--methods", "local", "--rounds", "1", "--hidden", "4"]


@pytest.fixture
def rows():
    drawn = random.Random(0)
    return [{"site": "abc"[k % 3], "age": drawn.gauss(50, 9), "los": drawn.randint(0, 5)} for k in range(120)]


def write(path, rows):
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def said(call, path, *more):
    seeds = [] if "--seeds" in more else ["--seeds", "0"]
    done = call("compare", path, "--target", "los", *SHORT, *seeds, *more)
    assert done.exit_code == 0, done.output
    return [line for line in done.stderr.splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize("name", ["Unnamed: 0", "it's", 'the "best"', "a]b", "$HOME", "age"])
def test_advice_names_columns_as_a_shell_reads_them(name):
    for other in (None, "x y"):
        names = [name] if other is None else [name, other]
        text = on_the_line(f"leave them out by leave_out={names!r} if they say nothing", ["leave_out"])
        words = shlex.split(text.replace("leave them out by ", "").replace(" if they say nothing", ""))
        assert words == ["--leave-out", *names]


def test_an_index_that_was_written_can_be_left_out_as_advised(call, rows, tmp_path):
    path = write(tmp_path / "t.csv", [{"Unnamed: 0": k, **row} for k, row in enumerate(rows)])
    (advised,) = [line for line in said(call, path, "--loss", "mse") if "number the rows" in line]
    assert "--leave-out 'Unnamed: 0'" in advised
    assert said(call, path, "--loss", "mse", "--leave-out", "Unnamed: 0") == []


def test_counts_that_are_taken_for_classes_are_said(call, rows, tmp_path):
    path = write(tmp_path / "t.csv", rows)
    (line,) = said(call, path, "--seeds", "3")
    assert line.startswith("warning: column 'los' has 6 different whole numbers, which are taken for classes: give")
    assert "--loss mse if they are amounts" in line
    assert said(call, path, "--loss", "cross_entropy") == said(call, path, "--loss", "mse") == []
    assert said(call, path, "--categories", "los=0,1,2,3,4,5") == []
    two = write(tmp_path / "two.csv", [{**row, "los": row["los"] % 2} for row in rows])
    assert said(call, two) == []


def test_rows_that_are_there_twice_are_said_once(call, rows, tmp_path):
    path = write(tmp_path / "t.csv", [{**row, "more": row["age"] ** 2} for row in [*rows, *rows]])
    (line,) = said(call, path, "--seeds", "4", "--loss", "cross_entropy")
    assert "240 of 240 rows have the inputs and the target of another one" in line


def test_amounts_are_no_classes(call, rows, tmp_path):
    path = write(tmp_path / "t.csv", [{**row, "los": row["age"] / 7, "age": k} for k, row in enumerate(rows)])
    done = call("compare", path, "--target", "los", *SHORT, "--loss", "cross_entropy")
    assert done.exit_code == 2
    assert "targets in column 'los' are amounts, such as" in done.stderr
    assert "--loss cross_entropy is for classes: leave it out, or give --loss mse" in done.stderr
    assert "Tasks" not in done.stderr
    done = call("compare", path, "--target", "los", *SHORT, "--test-fraction", "0")
    assert done.exit_code == 2
    assert done.stderr.endswith("and no node has any: give --test-fraction above 0\n")


def test_large_targets_are_to_be_standardised_by_an_option(call, rows, tmp_path):
    path = write(tmp_path / "t.csv", [{**row, "los": 1e6 * row["age"]} for row in rows])
    done = call("compare", path, "--target", "los", *SHORT, "--rounds", "9", "--lrs", "1")
    assert done.exit_code == 1
    assert "with --standardise-target" in done.stderr
    assert "from_frame" not in done.stderr
