"""What a page says, read without a browser."""

from __future__ import annotations

import html
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from graphcollab import report
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.report.benefit_table import benefit_values, gain_cell
from graphcollab.report.figures.bars import gain_bars, gain_matrix
from graphcollab.report.tables import paired_table, results_table
from graphcollab.report.values import Table, number_cell
from tests.raising import raises, warns
from tests.report.page.found import HOSTILE, compared

LIMIT = 5_000_000
LOADED = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}


class Read(HTMLParser):
    """Tables as lists of rows of text, addresses that a browser would load, and the words of charts by their name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.words: dict[str, str] = {}
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.addresses += [str(value) for key, value in attrs if key in LOADED]
        self._cell = tag in ("td", "th")
        if given.get("class") == "chart":
            self.words[str(given["id"]).removeprefix("chart-")] = str(given["alt"])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if self._cell:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.tables[-1][-1][-1] += data


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
    told = {tuple(table[0]): table[1:] for table in read.tables}
    for method, round_, text in told["method", "round", "mean test accuracy (%)"]:
        one, other = (t.curve[1][t.curve[0].index(int(round_))] for t in comparison.chosen[method])
        mean, _, spread = text.partition(" ± ")
        assert float(mean) == pytest.approx(50 * (one + other), abs=0.005)
        assert float(spread) == pytest.approx(100 * abs(one - other) / 2**0.5, abs=0.005)


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


def test_names_are_never_read_as_html(written: Path, read: Read) -> None:
    text = written.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert HOSTILE in [row[0] for row in read.tables[0]]
    assert read.tags.count("script") == 1
    assert "graphcollab compare &lt;rows&gt;.csv" in text


def test_nothing_is_loaded_from_elsewhere(written: Path, read: Read) -> None:
    assert read.addresses
    assert [one for one in read.addresses if not one.startswith(("#", "data:"))] == []
    assert re.findall(r"(?:url\(|@import)\s*['\"]?(?!['\"]?data:)[^)\s]+", _styles(written)) == []
    assert written.stat().st_size < LIMIT


def _styles(path: Path) -> str:
    return "".join(re.findall(r"<style>(.*?)</style>", path.read_text(encoding="utf-8"), re.DOTALL))


def test_charts_have_words(read: Read) -> None:
    assert {*read.words} == {"graph-2", "accuracy", "calibration"}
    assert all(len(said) > 20 for said in read.words.values())


def test_a_benefit_has_gains_with_intervals(found_benefit: Benefit, tmp_path: Path) -> None:
    read = Read(report.page(found_benefit, tmp_path / "benefit.html").read_text(encoding="utf-8"))
    gains = [*found_benefit.gains, *found_benefit.overall]
    by = {(one.site, "all together"): gain_cell(found_benefit, one).text for one in gains if one.by == "together"}
    assert read.tables[0][0] == ["site", "by", "gain (%)"]
    assert {(site, way): text for site, way, text in read.tables[0][1:]} == by
    assert len(read.tables[0]) == 6


def test_gains_are_drawn_with_their_intervals() -> None:
    """The first has none; the second has evidence, so its mark is filled."""
    gains = {"a": number_cell(1.0, 1, (math.nan, math.nan)), "b": number_cell(2.0, 1, (1.0, 3.0), star=True)}
    lines = gain_bars({"all together": gains}, "gain").axes[0].lines
    assert [[*map(float, line.get_xdata())] for line in lines[:4]] == [[1, 1], [1], [1, 3], [2]]
    assert (lines[1].get_markerfacecolor(), lines[3].get_markerfacecolor()) == ("white", lines[3].get_color())


def test_gains_of_pairs_are_drawn_where_they_are() -> None:
    gains = torch.tensor([[math.nan, 1.0], [-2.0, math.nan]])
    panel = gain_matrix(gains, ["a", "b"], "gain").axes[0]
    assert panel.images[0].get_array().tolist() == [[None, 1.0], [-2.0, None]]
    assert [(text.get_text(), text.get_position()) for text in panel.texts] == [("+1", (1, 0)), ("−2", (0, 1))]


def test_a_benefit_has_its_matrix(found_benefit: Benefit, tmp_path: Path) -> None:
    read = Read(report.page(found_benefit, tmp_path / "benefit.html").read_text(encoding="utf-8"))
    assert read.tables[2] == in_text(benefit_values(found_benefit)["mse"])
    assert read.tables[1][0] == ["site", "rows", "alone, mse", "gain by all together (%)"]
    for name, rows, _, gain in read.tables[1][1:5]:
        together = f"{100 * found_benefit.of(name)['together'].gain:+.1f}".replace("-", "−")
        assert (rows, gain.partition(" ")[0]) == ("20", together)
    names = found_benefit.names
    told = next(table[1:] for table in read.tables if table[0] == ["who", "by whom", "gain (%)"])
    assert len(told) == 12
    for site, by, gain in told:
        expected = 100 * float(found_benefit.matrix[names.index(site), names.index(by)])
        assert gain.split(" ")[0] == f"{expected:+,.1f}".replace("-", "−")
    text = html.unescape((tmp_path / "benefit.html").read_text(encoding="utf-8"))
    assert all(line in text for line in report.benefit_answer(found_benefit).splitlines())


def test_a_comparison_without_results_has_its_methods_and_curves(tmp_path: Path) -> None:
    summary = {"mean": 0.5, "worst10": 0.5, "worst20": 0.5, "std": 0.0, "bytes_per_node": 10.0, "seconds": 1.0}
    chosen = {name: [Trial(name, 0, {}, 0.5, summary, ([1, 2], [0.25, 0.5]))] for name in ("local", "l2c")}
    read = Read(report.page(Comparison([], chosen, True), tmp_path / "p.html").read_text(encoding="utf-8"))
    assert {*read.words} == {"accuracy"}


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
    monkeypatch.setitem(sys.modules, "itables", None)
    with raises("missing-package", "itables", "'graphcollab[page]'", kind=ModuleNotFoundError):
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
