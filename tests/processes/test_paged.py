"""A page of what several processes have compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphcollab import report
from tests.forked import launch
from tests.report.page.found import compared


@pytest.mark.slow
def test_the_first_process_writes_what_one_alone_would(tmp_path: Path) -> None:
    done = launch(2, Path(__file__).with_name("paged.py"), tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [path.name for path in tmp_path.iterdir()] == ["0.html"]
    report.page(compared(), tmp_path / "alone.html")
    together, alone = (_tables((tmp_path / name).read_text(encoding="utf-8")) for name in ("0.html", "alone.html"))
    assert together == alone


def _tables(text: str) -> list[list[list[str]]]:
    """Cells of a page's tables, and the words of its charts; but what took how long, and what was sent."""
    found = re.findall(r"<table.*?</table>|<figcaption>.*?</figcaption>", text, re.DOTALL)
    assert any("predicted probability (%)" in one for one in found)
    return [_cells(one) for one in found]


def _cells(table: str) -> list[list[str]]:
    rows = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    if not rows:
        return [[table]]
    kept = [k for k, head in enumerate(rows[0]) if "seconds" not in head and "sent" not in head]
    return [[row[k] for k in kept] for row in rows]
