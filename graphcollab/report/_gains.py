"""How gains are written, wherever they are."""

from __future__ import annotations

import math

from graphcollab.gains import Benefit, Gain
from graphcollab.naming import numbered
from graphcollab.report._text import MISSING, number, shown_in
from graphcollab.train.trial import SHARES

__all__ = [
    "CLAIMED",
    "CONSTANT",
    "bounded",
    "by_whom",
    "claim",
    "mark",
    "mean_of",
    "models",
    "of_metric",
    "scale_of",
    "site_of",
    "told",
]

CLAIMED = ("gains", "loses")
CONSTANT = "†"  # marks gains of constants that stand for models
THOUSAND = 1000.0


def mark(benefit: Benefit, arm: str) -> str:
    """Mark what constants, and no models, lose on half of the splits or more."""
    return CONSTANT * benefit.by_constants(arm)


def models(arm: str) -> str:
    """Say which models."""
    return {"alone": "alone", "pairs": "of pairs", "without": "of all but one"}.get(arm, by_whom(arm))


def scale_of(benefit: Benefit) -> tuple[float, int | None, str]:
    """Return by what gains are multiplied, their decimals, and a unit: shares are shown in percent."""
    return shown_in(benefit.relative or benefit.metric in SHARES, 1)


def mean_of(benefit: Benefit, mean: float) -> str:
    """Write a mean of scores."""
    scale, digits, _ = shown_in(benefit.metric in SHARES, 1)
    return number(scale * mean, digits)


def of_metric(benefit: Benefit) -> str:
    """Say what gains are of."""
    return benefit.metric + shown_in(benefit.metric in SHARES, 1)[2]


def by_whom(name: str) -> str:
    """Say by whom or what."""
    return "by all together" if name == "together" else f"by {name}"


def told(gain: Gain, scale: float, digits: int | None) -> str:
    """Write a gain and its interval; a star where there is evidence."""
    if math.isnan(gain.gain):
        return MISSING
    mean, low, high = (bounded(value, scale, digits) for value in (gain.gain, gain.low, gain.high))
    return f"{mean} ({low} … {high}){'*' if gain.verdict in CLAIMED else ''}"


def bounded(gain: float, scale: float, digits: int | None) -> str:
    """Write a gain; of thousands no decimals."""
    value = scale * gain
    return number(value, 0 if digits is not None and abs(value) >= THOUSAND else digits, signed=True)


def claim(benefit: Benefit, gain: Gain) -> str:
    """Write what there is evidence of at a single site, as a sentence."""
    scale, digits, _ = scale_of(benefit)
    by = by_whom(gain.by) if gain.by in benefit.arms else by_whom(site_of(benefit, gain.by))
    line = f"{site_of(benefit, gain.site)} {gain.verdict} {by}: {told(gain, scale, digits)}."
    return line[0].upper() + line[1:] if line.startswith("site ") else line


def site_of(benefit: Benefit, name: str) -> str:
    """Name a site so that it does not look like a number."""
    return f"site {name}" if numbered(benefit.names) else name
