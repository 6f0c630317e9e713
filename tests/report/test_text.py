from __future__ import annotations

import math

import pytest

from graphcollab.report._text import MISSING, byte_size, number, text_table


def test_plain_table_has_no_trailing_spaces() -> None:
    assert text_table(["name"], [["x"]]).splitlines() == ["name", "----", "x"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999.4, "999 B"), (999.6, "1.0 kB"), (1500, "1.5 kB"), (38_075_960, "38.1 MB"), (2e19, "20000.0 PB")],
)
def test_byte_size(count: float, text: str) -> None:
    assert byte_size(count) == text


def test_number() -> None:
    assert number(-0.5, 1, signed=True) == "−0.5"
    assert number(0.5, 1, signed=True) == "+0.5"
    assert number(0.000123456, None) == "0.0001235"
    assert number(math.nan, 2) == MISSING
