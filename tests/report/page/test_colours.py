"""Colours of a page stand out from what is behind them, as WCAG 2.2 asks (1.4.3 and 1.4.11)."""

from __future__ import annotations

import pytest

from graphcollab.report.page.colours import DARK, LIGHT


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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
