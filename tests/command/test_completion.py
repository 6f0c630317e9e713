"""What a shell is told when a word is to be completed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from graphcollab import methods
from graphcollab.command.text_values import parse, parse_several
from graphcollab.command.wording import GROUPS
from graphcollab.settings import SettingError
from graphcollab_command.main import main

ROOT = Path(__file__).parents[2]


def words(*line):
    """The words that complete the last one of a line."""
    *before, last = line
    complete = BashComplete(main, {}, "graphcollab", "_GRAPHCOLLAB_COMPLETE")
    return [one.value for one in complete.get_completions(list(before), last)]


def test_methods_and_options_are_completed():
    assert words("comp") == ["compare"]
    fed = [name for name in methods.__all__ if name.startswith("fed")]
    assert words("compare", "x.csv", "--methods", "fed") == fed
    assert words("compare", "x.csv", "--methods", "local", "fed") == fed
    assert words("compare", "x.csv", "--methods", "local", "fedavg", "--poo") == ["--pooled"]
    assert words("compare", "x.csv", "--pooled", "") == ["sums", "per_site"]
    assert words("compare", "heart") == ["heart_disease"]
    assert words("show", "meta") == ["meta_l2c"]


def test_help_and_completion_import_nothing_that_takes_long():
    words = (
        "import sys; from graphcollab_command.main import main; main(['compare', '--help'], standalone_mode=False); "
    )
    words += "print('torch' in sys.modules or 'graphcollab' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "False"
    assert max(map(len, done.stdout.splitlines())) <= 80
    headings = [line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [f"{group}:" for group in GROUPS]


def test_help_says_nothing_of_python():
    said = [one["text"] for line in main.commands.values() for one in line.settings]
    python = re.compile(
        r"graphcollab\.|\w\(|function|callable|\bdict\b|tensor|[a-z][A-Z]|see \w+_\w+|sequence|torch\.set"
    )
    assert [text for text in said if python.search(text)] == []


def test_words_become_values():
    assert parse("patience", int | None, "none") is None
    assert parse("node", str, "7") == "7"
    assert parse("stratify", bool, "false") is False
    assert parse_several("seeds", int, ["0-2,9", "4"]) == (0, 1, 2, 9, 4)
    assert parse_several("metrics", str, ["none"]) == ()
    with pytest.raises(SettingError, match="seeds must be a whole number, got '3-1'"):
        parse_several("seeds", int, ["3-1"])
