"""How gains are written, wherever they are."""

from __future__ import annotations

import math

from graphcollab.gains import Benefit, Gain
from graphcollab.naming import numbered
from graphcollab.report._text import cell_text, gain_text, number, shown_in
from graphcollab.report.values import Cell, Column
from graphcollab.train.trial import SHARES

CLAIMED = ("gains", "loses")
CONSTANT = "†"  # marks gains of constants that stand for models


def mark(benefit: Benefit, arm: str) -> str:
    """Mark what constants, and no models, lose on half of the splits or more."""
    return CONSTANT * benefit.by_constants(arm)


def models(arm: str) -> str:
    """Say which models."""
    return {"alone": "alone", "pairs": "of pairs", "without": "of all but one"}.get(arm, by_whom(arm))


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


def told(benefit: Benefit, gain: Gain) -> str:
    """Write a gain and its interval."""
    scale, digits, _ = scale_of(benefit)
    return cell_text(gain_cell(gain, scale), Column("", "gain", digits))


def bounded(gain: float, scale: float, digits: int | None) -> str:
    """Write a gain."""
    return gain_text(scale * gain, digits)


def means(benefit: Benefit, gain: Gain) -> str:
    """Say whether a gain is evidence, and what could have been detected."""
    scale, digits, _ = scale_of(benefit)
    if gain.verdict in CLAIMED:
        return f"There is evidence of that (p = {gain.p_value:.2g})."
    if gain.detectable == 0:
        return "All models did the same, so this says nothing: train for longer."
    if math.isnan(gain.detectable):
        return "The gain was the same on all splits, so how it varies is not known: try more of them, repeats=..."
    if scale > 1 and gain.detectable >= 1:  # of shares
        return "That is no evidence, and with so few samples no gain would have been found four times out of five."
    unit = " %" if benefit.relative else " points" if scale > 1 else ""
    least = f"{number(scale * gain.detectable, digits)}{unit}"
    return f"That is no evidence; a gain of {least} would have been found four times out of five."
