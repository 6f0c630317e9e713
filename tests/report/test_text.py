from __future__ import annotations

import math

import pytest

from graphcollab.report.values import MISSING, byte_size, decimals, number, p_text, text_table


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
    assert number(1234567.891, 1) == "1,234,567.9"
    assert number(-123456.7, None) == "−123,457"
    assert number(1.5e-7, None) == "0.00000015"
    assert (p_text(2.5e-14), p_text(0.0123)) == ("p < 0.001", "p = 0.012")
    assert [decimals(values) for values in ([0.1173, 0.068], [31.4, 29.0], [8000.0], [math.nan, 0.0])] == [3, 1, 0, 0]
