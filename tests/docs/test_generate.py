"""Generated pages and exports are those that declarations and docstrings give."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from graphcollab import methods
from graphcollab.piece import Field, Weigher

FILE = Path(__file__).parents[2] / "docs" / "generate.py"


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("docs_generate", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_is_stale(generate):
    stale = generate.main(check=True)
    assert stale == [], f"run make generate: {stale} do not say what the package says"


def test_exports_follow_the_files(generate):
    source = (FILE.parents[1] / "graphcollab" / "methods" / "__init__.py").read_text(encoding="utf-8")
    without = source.replace("from graphcollab.methods.ditto import ditto\n", "").replace('    "ditto",\n', "")
    assert without != source
    assert generate.exports_of_methods(without) == source


def test_every_method_has_a_line_and_a_paper(generate):
    rows = generate.table_of_methods().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == methods.__all__
    assert all(len(row.split(" | ")[1]) > 15 for row in rows)
    assert "https://arxiv.org/abs/1602.05629) (McMahan et al., AISTATS 2017)" in next(
        r for r in rows if "`fedavg`" in r
    )
    assert sum("http" in row for row in rows) > 18


def test_declarations_become_rows(generate):
    @dataclass(frozen=True)
    class Diary(Weigher):
        """Writes down who was met."""

        keeps: ClassVar = (Field("diary", "per_edge", "rounds in which an edge was used", "run", "ends"),)

    assert "| `diary` | `Diary` | per_edge | run | ends | rounds in which an edge was used |" in generate.state([Diary])


def test_marks_must_be_there(generate):
    page = "a\n<!-- generated: methods -->\nold\n<!-- end -->\nb\n"
    assert generate.between(page, "methods", "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="expected the marks"):
        generate.between("a\n", "methods", "new\n")
