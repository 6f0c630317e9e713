"""Help and completion, which start without PyTorch, and the values of words."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from graphcollab import methods
from graphcollab.cli.app import APP
from graphcollab.cli.folder import settings_text
from graphcollab.cli.options import Method
from graphcollab.cli.values import entries, literal
from tests.raising import raises

ROOT = Path(__file__).parents[2]
HELP = """
import sys
from graphcollab.cli.app import main
try:
    main(["compare", "--help"])
finally:
    print("torch" in sys.modules or "numpy" in sys.modules)
"""


def test_help_imports_nothing_that_takes_long():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "False"
    headings = ["Data", "Methods and model", "Training", "Evaluation", "Computing", "Output and more"]
    places = [done.stdout.index(f"─ {heading} ─") for heading in headings]
    assert places == sorted(places)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_options_and_methods(shell):
    script = APP.generate_completion(shell=shell)
    assert all(word in script for word in ("compare", "benefit", "meta_l2c", "per_site", "isolate"))


def test_methods_are_choices():
    assert get_args(Method) == tuple(methods.__all__)


def parsed(*words):
    return APP.parse_args(["compare", "x.csv", *words], exit_on_error=False, print_error=False)[1].arguments


def test_words_become_values():
    found = parsed("--methods", "local,fedavg", "--seeds", "0-2,9", "4", "--patience", "none", "--lrs", "0.1", "-1")
    assert found["methods"] == ("local", "fedavg")
    assert found["seeds"] == (0, 1, 2, 9, 4)
    assert found["patience"] is None
    assert found["lrs"] == (0.1, -1)
    found = parsed("--methods", "local", "--metric", "none", "--node", "7", "--hidden", "none", "--no-stratify")
    assert (found["table"].metric, found["table"].node, found["model"].hidden) == (None, "7", ())
    assert not found["table"].stratify


def test_entries_and_literals():
    assert entries("set", ["a=1, 2", 'b="x, y",z'], "a=1") == {"a": ["1", "2"], "b": ["x, y", "z"]}
    assert [literal(text) for text in ("3", "0.5", "None", "true", "sgd")] == [3, 0.5, None, True, "sgd"]
    with raises("format", "set"):
        entries("set", ["a"], "a=1")


def test_settings_that_are_written_are_read_again(tmp_path):
    given = {
        "data": "a.csv",
        "methods": ("local",),
        "hidden": (),
        "set": ('l2c.part="x"',),
        "seeds": (1, 2),
        "loss": None,
    }
    found = tomllib.loads(settings_text("compare", {**given, "node": "é\x7f", "graphs": ()}))["compare"]
    assert found == {
        "data": "a.csv",
        "methods": ["local"],
        "hidden": "none",
        "set": ['l2c.part="x"'],
        "seeds": [1, 2],
        "node": "é\x7f",
    }
