"""Generated pages and exports are those that declarations and docstrings give."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from graphcollab import methods
from graphcollab.components import Field, Weigher

DOCS = Path(__file__).parents[2] / "docs"


def load(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate():
    return load("generate")


@pytest.fixture(scope="module")
def pages():
    return load("pages")


def test_nothing_is_stale(generate):
    stale = generate.main(check=True)
    assert stale == [], f"run make generate: {stale} do not say what the package says"


def test_methods_and_pieces_are_exported_and_what_is_gone_goes(generate):
    files = {
        "weigh.kin": "class Kin: ...\ndef near(): ...\n\nclass _Inner: ...\n",
        "weigh.fixed": "class Even: ...\n",
        "weigh._codes": "class Codes: ...\n",
    }
    head = '"""The pieces."""\n\nif TYPE_CHECKING:\n    from graphcollab._base.piece import Piece as Piece\n'
    old = (
        head + "    from graphcollab.components.weigh.gone import Even as Even, Odd as Odd\n\n"
        "__all__ = make_lazy(__name__)\n"
    )
    even, kin = (
        f"    from graphcollab.components.weigh.{file} import {name} as {name}"
        for file, name in (("fixed", "Even"), ("kin", "Kin"))
    )
    new = f"{head}{even}\n{kin}\n\n__all__ = make_lazy(__name__)\n"
    assert generate.exporting(old, "components", files) == new
    asked = new.replace("Kin as Kin", "Kin as Kin, near as near")
    assert generate.exporting(asked, "components", files) == asked
    own = {"kin": files["weigh.kin"], "fixed": files["weigh.fixed"]}
    elsewhere = generate.exporting(old.replace(".components.weigh.", ".models."), "models", own)
    assert "Even as Even" in elsewhere
    assert "Odd" not in elsewhere
    assert "Kin" not in elsewhere  # only slots show all their classes
    decorated = {"kin": "@method(lr=0.1)\ndef kindred(): ...\n\ndef near(): ...\n"}
    shown = generate.exporting(old.replace(".components.weigh.", ".methods."), "methods", decorated)
    assert "    from graphcollab.methods.kin import kindred as kindred\n" in shown
    assert "near" not in shown


def test_nothing_is_written_where_a_page_fails(generate, monkeypatch, tmp_path):
    exports, page = tmp_path / "__init__.py", tmp_path / "page.md"
    exports.write_text("before")

    def texts():
        yield page, "new"
        assert exports.read_text() == "after"  # the package is read as its exports have it
        raise KeyError("epochs")

    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "exports", lambda: iter([(exports, "after")]))
    monkeypatch.setattr(generate.runpy, "run_path", lambda path: {"texts": texts})
    with pytest.raises(KeyError, match="epochs"):
        generate.main()
    assert exports.read_text() == "before"
    assert not page.exists()


def test_every_method_has_a_line_and_a_paper(pages):
    rows = pages.table_of_methods().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == methods.__all__
    assert all(len(row.split(" | ")[1]) > 15 for row in rows)
    assert "https://arxiv.org/abs/1602.05629) (McMahan et al., AISTATS 2017)" in next(
        r for r in rows if "`fedavg`" in r
    )
    assert sum("http" in row for row in rows) > 18


def test_declarations_become_rows(pages):
    @dataclass(frozen=True)
    class Diary(Weigher):
        """Writes down who was met."""

        keeps: ClassVar = (Field("diary", "per_edge", "rounds in which an edge was used", "run", "ends"),)

    assert "| `diary` | `Diary` | per_edge | run | ends | rounds in which an edge was used |" in pages.state([Diary])


def test_marks_must_be_there(pages):
    page = "a\n<!-- generated: methods -->\nold\n<!-- end -->\nb\n"
    assert pages.between(page, "methods", "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="expected the marks"):
        pages.between("a\n", "methods", "new\n")
