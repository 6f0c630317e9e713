"""`Gain`, and the evidence for gains over training alone, over constants, and over a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from graphcollab.analysis.baseline import OWN
from graphcollab.analysis.metrics.inference import Differences, holm

FLOOR = 0.01  # of a constant's error; errors below it count as equal, since almost nothing is left to predict

Scores: TypeAlias = Mapping[str, Tensor]
Verdict: TypeAlias = Literal["gains", "loses", "no evidence", "not defined"]


@dataclass(frozen=True)
class Choice:
    """What validation data chose for an arm on a split: a model ("" if there is one only), settings, and rounds."""

    model: str
    setting: Mapping[str, Any]
    rounds: int

    def __str__(self) -> str:
        told = [f"{key}={value}" for key, value in self.setting.items() if value is not None]
        return ", ".join(filter(None, (self.model, *told, f"{self.rounds} rounds")))


@dataclass(frozen=True)
class Gain:
    """The gain of a site by collaborating, relative to training alone; positive is better, whatever the metric.

    For errors, it is the relative reduction (`Benefit`).

    Args:
        site: Name of the site, or ``"all sites"``, or ``"all but X"`` for the mean over the others.
        by: What or whom it collaborates by: a method, ``"together"``, or another site's name.
        alone: Mean metric of the site's own training; for errors, here and below, the geometric mean over splits, so
            that the gain is 1 - score / alone.
        score: Mean metric with collaboration.
        constant: Mean metric of a constant predictor (`Benefit`); NaN if there is none.
        gain: Mean gain.
        low: Lower end of its 95 % interval, for this comparison alone; at least -1 for shares.
        high: Upper end; at most 1 for shares.
        p_value: Two-sided, adjusted for all comparisons in its family (Holm).
        detectable: Gain that would be detected with a power of 80 %, adjusted for all comparisons.
        verdict: ``"gains"``, ``"loses"``, ``"no evidence"`` or ``"not defined"``, at the benefit's level.
    """

    site: str
    by: str
    alone: float
    score: float
    constant: float
    gain: float
    low: float
    high: float
    p_value: float
    detectable: float
    verdict: Verdict


class Compared(NamedTuple):
    """A family's scores [..., by, k], "by" at ``axis`` (last for pairs), and the scores to compare with, [..., k]."""

    score: Tensor
    others: Sequence[Tensor]
    axis: int = -2


def others_of(given: Scores) -> list[Tensor]:
    """Return the scores to compare with: training alone, constants, and a baseline per site, NaN if not requested."""
    return [given["alone"], given["constant"], given.get(OWN, torch.full_like(given["alone"], torch.nan))]


def judge(
    alone: Differences, rivals: Sequence[Differences], level: float, unknown: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return p-values of a family of gains, adjusted for multiple testing, and gains detectable with a power of 80 %.

    Gains over training alone must also be gains over the ``rivals``: the largest p-value counts. Only the p-value
    against training alone is used for losses, and if a rival has no value or the gain over it was the same on all
    splits. ``unknown`` gains [...] have no p-value.
    """
    p_value = alone.p_value if unknown is None else alone.p_value.masked_fill(unknown, torch.nan)
    level /= max(int((~p_value.isnan()).sum()), 1)
    bar = alone.detectable(level)
    for rival in rivals:
        known = rival.error > 0
        needed = (alone.mean > 0) & ~rival.mean.isnan() & (known | (rival.mean <= 0))
        beyond = torch.where(rival.mean > 0, rival.p_value, 1.0)
        p_value = torch.where(needed, torch.maximum(p_value, beyond), p_value)
        bar = torch.where(known & (bar > 0), torch.maximum(bar, rival.detectable(level) + alone.mean - rival.mean), bar)
    return holm(p_value), bar


def plain(value: Any) -> Any:
    """Convert a value to types that JSON supports; NaN becomes null."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, Choice):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
