"""How gains are written, wherever they are."""

from __future__ import annotations

import math

from graphcollab.gains import Benefit, Gain
from graphcollab.naming import numbered
from graphcollab.report._text import gain_text, shown_in
from graphcollab.report.values import Cell
from graphcollab.train.trial import SHARES

CLAIMED = ("gains", "loses")
CONSTANT = "†"  # marks gains of constants that stand for models


def mark(benefit: Benefit, arm: str) -> str:
    """Mark what constants, and no models, lose on half of the splits or more."""
    return CONSTANT * benefit.by_constants(arm)


def scale_of(benefit: Benefit) -> tuple[float, int | None, str]:
    """Return by what gains are multiplied, their decimals, and a unit: shares are shown in percent."""
    return shown_in(benefit.relative or benefit.metric in SHARES, 1)


def of_metric(benefit: Benefit) -> str:
    """Say what gains are of."""
    return benefit.metric + shown_in(benefit.metric in SHARES, 1)[2]


def by_whom(name: str) -> str:
    """Format the source of a gain."""
    return "by all together" if name == "together" else f"by {name}"


def site_of(benefit: Benefit, name: str) -> str:
    """Name a site so that it does not look like a number."""
    return f"site {name}" if numbered(benefit.names) else name


def gain_cell(gain: Gain, scale: float, subject: str = "") -> Cell:
    """Return a gain with its interval as a cell; a star where there is evidence."""
    if math.isnan(gain.gain):
        return Cell(subject=subject)
    ends = (scale * gain.low, scale * gain.high)
    return Cell(scale * gain.gain, interval=ends, star=gain.verdict in CLAIMED, subject=subject)


def bounded(gain: float, scale: float, digits: int | None) -> str:
    """Write a gain."""
    return gain_text(scale * gain, digits)
