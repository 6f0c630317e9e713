"""What a page says, read without a browser."""

from __future__ import annotations

import html
import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from graphcollab import report
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.report.benefit_table import benefit_values
from graphcollab.report.page.charts import gain_chart
from graphcollab.report.tables import paired_table, results_table
from graphcollab.report.values import Cell, Table, number_cell
from tests.raising import raises, warns
from tests.report.page.found import HOSTILE, compared

LIMIT = 5_000_000
LOADED = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}


class Read(HTMLParser):
    """Tables as lists of rows of text, addresses that a browser would load, and scripts by their id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.words: dict[str, str] = {}
        self.specs, self._cell, self._in_specs = "", False, False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.addresses += [str(value) for key, value in attrs if key in LOADED]
        self._in_specs = given.get("id") == "specs"
        self._cell = tag in ("td", "th")
        if given.get("class") == "chart":
            self.words[str(given["id"]).removeprefix("chart-")] = str(given["aria-label"])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if self._cell:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._in_specs = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.tables[-1][-1][-1] += data
        if self._in_specs:
            self.specs += data


def in_text(table: Table) -> list[list[str]]:
    """Header and cells of a table, as text has them."""
    return [[*table.columns], *([cell.text for cell in row] for row in table.rows)]


@pytest.fixture(scope="module")
def read(written: Path) -> Read:
    return Read(written.read_text(encoding="utf-8"))


def test_numbers_are_those_of_the_tables(read: Read, comparison: Comparison) -> None:
    assert read.tables[1] == in_text(report.site_table(comparison, reference="local").tables[0])
    assert read.tables[2] == in_text(results_table(comparison))
    assert read.tables[3] == in_text(paired_table(comparison, "local"))


def test_sites_have_the_method_that_is_best_there(read: Read, comparison: Comparison) -> None:
    header, *rows = read.tables[0]
    assert header == ["site", "test rows", "local, accuracy (%)", "did best", "difference to local, points"]
    found = {name: trials[-1].per_node for name, trials in comparison.chosen.items()}
    for k, (site, _, local, best, more) in enumerate(rows):
        assert site == comparison.results["local"].tasks.names[k]
        assert float(local) == pytest.approx(100 * found["local"][k], abs=0.06)
        assert found[best][k] == max(values[k] for values in found.values())
        gain = 100 * (found[best][k] - found["local"][k])
        assert (more == "–") == (best == "local") == (gain == 0)
        assert best == "local" or float(more.partition(" ")[0]) == pytest.approx(gain, abs=0.06)


def test_curves_are_means_over_seeds(read: Read, comparison: Comparison) -> None:
    rows = _with_field(json.loads(read.specs)["accuracy"], "mean")
    assert {row["x"] for row in rows} == {2, 4, 6}
    for row in rows:
        one, other = (t.curve[1][t.curve[0].index(row["x"])] for t in comparison.chosen[row["method"]])
        assert row["mean"] == pytest.approx(50 * (one + other))
        assert row["high"] - row["mean"] == pytest.approx(100 * abs(one - other) / 2**0.5)


def test_the_graph_is_that_of_the_history(read: Read, comparison: Comparison) -> None:
    history = comparison.results["l2c"].history
    names = list(history.names)
    lines = _lines(json.loads(read.specs)["graph-0"])
    assert {*history.graphs} == {1, 2, 3, 4, 5, 6}
    for round_, (edges, weights) in history.graphs.items():
        told = {(j, i): w for (j, i), w in zip(edges.T.tolist(), weights.tolist(), strict=True) if j != i and w > 5e-4}
        shown = {(int(j), int(i)): w for first, until, i, j, w in lines if first <= round_ < until}
        assert shown == pytest.approx(told, abs=5e-4)
    axes = json.loads(read.specs)["graph-0"]["layer"][0]["encoding"]
    assert axes["x"]["scale"]["domain"] == axes["y"]["scale"]["domain"] == names


def _lines(spec: object) -> list[list[float]]:
    """Cells of a graph: rounds from which and before which they hold, receiver, sender, weight."""
    text = next(one for one in _texts(spec) if one.startswith("r,u,i,j,value\n"))
    return [[float(value) for value in line.split(",")] for line in text.splitlines()[1:]]


def _texts(spec: object) -> list[str]:
    inside = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else []
    return [spec] if isinstance(spec, str) else [text for one in inside for text in _texts(one)]


def test_behind_every_chart_is_a_table_of_its_numbers(read: Read, comparison: Comparison) -> None:
    told = {tuple(table[0]): table[1:] for table in read.tables}
    ends = in_text(results_table(comparison))[1:]
    curve = told["method", "round", "mean test accuracy (%)"]
    assert [row[1] for row in curve] == 3 * ["2", "4", "6"]
    assert [row[::2] for row in curve[2::3]] == [row[:2] for row in ends]  # the last is of the models that are kept
    sizes = dict.fromkeys(comparison.chosen, 0.0)
    for method, samples, *_ in told["method", "samples", "predicted probability (%)", "share that was right (%)"]:
        sizes[method] += float(samples)
    assert {*sizes.values()} == {60.0}  # test samples of five nodes
    edges, weights = comparison.results["l2c"].history.graphs[6]
    names = comparison.results["l2c"].history.names
    for node, _, heard in told["site", "listeners", "listens to"]:
        of_node = {
            f"{names[s]} {w:.3f}"
            for s, t, w in zip(*edges.tolist(), weights.tolist(), strict=True)
            if names[t] == node and s != t and w > 5e-4
        }
        assert {*heard.split(", ")} == (of_node or {"nobody"})


def _with_field(spec: object, field: str) -> list[dict]:
    """Rows of the data of a chart that have a field."""
    if isinstance(spec, list) and spec and isinstance(spec[0], dict) and field in spec[0] and "encoding" not in spec[0]:
        return spec
    inside = list(spec.values()) if isinstance(spec, dict) else spec if isinstance(spec, list) else []
    return max((_with_field(one, field) for one in inside), key=len, default=[])


def test_names_are_never_read_as_html(written: Path, read: Read) -> None:
    text = written.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert HOSTILE in [row[0] for row in read.tables[0]]
    assert read.tags.count("script") == 4
    assert "graphcollab compare &lt;rows&gt;.csv" in text


def test_nothing_is_loaded_from_elsewhere(written: Path, read: Read) -> None:
    assert read.addresses
    assert [one for one in read.addresses if not one.startswith(("#", "data:"))] == []
    assert re.findall(r"(?:url\(|@import)\s*['\"]?(?!['\"]?data:)[^)\s]+", _styles(written)) == []
    assert written.stat().st_size < LIMIT


def _styles(path: Path) -> str:
    return "".join(re.findall(r"<style>(.*?)</style>", path.read_text(encoding="utf-8"), re.DOTALL))


def test_charts_have_words(read: Read) -> None:
    specs = json.loads(read.specs)
    assert {*specs} == {"graph-0", "accuracy", "calibration"}
    assert {*read.words} == {*specs}
    assert all(len(said) > 20 for said in read.words.values())


def test_a_benefit_has_gains_with_intervals(found_benefit: Benefit, tmp_path: Path) -> None:
    read = Read(report.page(found_benefit, tmp_path / "benefit.html").read_text(encoding="utf-8"))
    marks = _with_field(json.loads(read.specs)["gains-0"], "low")
    gains = [*found_benefit.gains, *found_benefit.overall]
    by = {(one.site, "all together"): one for one in gains if one.by == "together"}
    assert {(one["site"], one["by"]) for one in marks} == {*by}
    for one in marks:
        gain = by[one["site"], one["by"]]
        ends = [one[name] / 100 for name in ("low", "value", "high")]
        assert ends == pytest.approx([gain.low, gain.gain, gain.high])
        assert one["sure"] == (gain.verdict in ("gains", "loses"))
    assert read.tables[0][0] == ["site", "by", "gain (%)"]
    assert len(read.tables[0]) == 6


def test_gains_without_an_interval_are_marks_alone() -> None:
    gains = [number_cell(1.0, 1, (math.nan, math.nan)), number_cell(2.0, 1, (1.0, 3.0), star=True)]
    table = Table(["site", "by", "gain"], [[Cell("a"), Cell("b"), gain] for gain in gains])
    marks = _with_field(dict(gain_chart("gains", "", table).spec), "low")
    assert [(one["low"], one["high"], one["sure"]) for one in marks] == [(1.0, 1.0, False), (1.0, 3.0, True)]


def test_a_benefit_has_its_matrix(found_benefit: Benefit, tmp_path: Path) -> None:
    read = Read(report.page(found_benefit, tmp_path / "benefit.html").read_text(encoding="utf-8"))
    assert read.tables[2] == in_text(benefit_values(found_benefit)["mse"])
    assert read.tables[1][0] == ["site", "rows", "alone, mse", "gain by all together (%)"]
    for name, rows, _, gain in read.tables[1][1:5]:
        together = f"{100 * found_benefit.of(name)['together'].gain:+.1f}".replace("-", "−")
        assert (rows, gain.partition(" ")[0]) == ("20", together)
    cells = _with_field(json.loads(read.specs)["matrix-0"], "value")
    names = found_benefit.names
    shown = {(cell["to"], cell["by"]): cell["value"] for cell in cells}
    assert len(shown) == 12
    for (site, by), gain in shown.items():
        assert gain == pytest.approx(100 * float(found_benefit.matrix[names.index(site), names.index(by)]), abs=1e-4)
    told = next(table[1:] for table in read.tables if table[0] == ["who", "by whom", "gain (%)"])
    assert {(site, by): text.split(" ")[0] for site, by, text in told} == {
        pair: f"{gain:+.1f}".replace("-", "−") for pair, gain in shown.items()
    }
    text = html.unescape((tmp_path / "benefit.html").read_text(encoding="utf-8"))
    assert all(line in text for line in report.benefit_answer(found_benefit).splitlines())


def test_a_comparison_without_results_has_its_methods_and_curves(tmp_path: Path) -> None:
    summary = {"mean": 0.5, "worst10": 0.5, "worst20": 0.5, "std": 0.0, "bytes_per_node": 10.0, "seconds": 1.0}
    chosen = {name: [Trial(name, 0, {}, 0.5, summary, ([1, 2], [0.25, 0.5]))] for name in ("local", "l2c")}
    read = Read(report.page(Comparison([], chosen, True), tmp_path / "p.html").read_text(encoding="utf-8"))
    assert {*json.loads(read.specs)} == {"accuracy"}


@pytest.mark.slow
def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    names = [f"clinic {k}" for k in range(1000)]
    found = compared(names, rounds=2, seeds=1)
    path = report.page(found, tmp_path / "many.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < LIMIT
    assert "Shown are 60 of 1000 sites, those with the largest weights" in text
    assert len(Read(text).tables[1]) == 1003  # a header, all nodes, two means


def test_what_to_install_is_said(comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with raises("missing-package", "altair", "'graphcollab[page]'", kind=ModuleNotFoundError):
        report.page(comparison, tmp_path / "page.html")
    assert not any(tmp_path.iterdir())


def test_a_page_that_is_too_large_says_so(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["graphcollab.report.page.page"], "LARGEST", 1_000_000)
    with warns("quality", f"file {tmp_path / 'page.html'}", "1 MB"):
        assert report.page(comparison, tmp_path / "page.html").is_file()


def test_control_characters_and_turns_of_direction_are_codes(tmp_path: Path) -> None:
    """Names that turn what follows them in a page, or clear the screen of who reads it in a terminal."""
    found = compared(("Bern\x1b[2J", "Chur\u202egnp.exe", "Zug"), rounds=2, seeds=1)
    text = report.page(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert not {*"\x1b\u202e"} & {*text}
    page = Read(text)
    named = {row[0] for table in page.tables for row in table}
    assert {r"Bern\x1b[2J", r"Chur\u202egnp.exe"} <= named
    assert not {*"\x1b\u202e"} & {*json.dumps(json.loads(page.specs), ensure_ascii=False)}
