"""Colours of a page stand out from what is behind them, as WCAG 2.2 asks (1.4.3 and 1.4.11)."""

from __future__ import annotations

import itertools
import math

import pytest

from graphcollab.report.page.colours import DARK, LIGHT, METHODS
from graphcollab.report.page.line_charts import DASHES


def _linear(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue))


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _seen(colour: str) -> tuple[float, float, float]:
    """Return a colour in CIE L*a*b*, in which equal distances look about equal."""
    red, green, blue = _linear(colour)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (x, _luminance(colour), z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out(colours: dict[str, str]) -> None:
    assert all(contrast(colours[ink], colours[on]) >= 4.5 for ink in ("ink", "mark") for on in ("paper", "soft"))
    assert all(contrast(colours[f"method-{n}"], colours["paper"]) >= 3 for n in range(7))
    assert all(contrast(colours[f"gain-{n}"], colours[f"word-{n}"]) >= 4.5 for n in range(9))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_larger_gains_and_losses_stand_out_more(colours: dict[str, str]) -> None:
    far = [contrast(colours[f"gain-{n}"], colours["paper"]) for n in range(9)]
    assert far[:4] == sorted(far[:4], reverse=True)
    assert far[5:] == sorted(far[5:])


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_methods_are_told_apart(colours: dict[str, str]) -> None:
    seen = [_seen(colours[f"method-{n}"]) for n in range(len(METHODS))]
    assert min(math.dist(*two) for two in itertools.combinations(seen, 2)) > 30


def test_dashes_go_on_where_colours_repeat() -> None:
    assert len({*map(tuple, DASHES)}) == len(DASHES) > len(METHODS)
