"""`Gain`, and what there is evidence of: gains over training alone, over constants, and over a simple tool."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from graphcollab.analysis.baseline import OWN
from graphcollab.analysis.metrics.inference import Differences, holm

FLOOR = 0.01  # of a constant's error, below which errors count as alike: next to nothing is left to predict

Scores: TypeAlias = Mapping[str, Tensor]
Verdict: TypeAlias = Literal["gains", "loses", "no evidence", "not defined"]


@dataclass(frozen=True)
class Gain:
    """What a site has by collaborating beyond what it has alone; positive is better, whatever the metric.

    Of errors it is the share by which they fall (`Benefit`).

    Args:
        site: Name of the site, or ``"all sites"``, or ``"all but X"`` for the others in the mean.
        by: Whom or what it collaborates by: a method, ``"together"``, or another site's name.
        alone: Mean metric of the site's own training; of errors here and below the geometric mean over splits, so that
            the gain is 1 - score / alone.
        score: Mean metric with others.
        constant: Mean metric of a constant in the place of models (`Benefit`); NaN where there is none.
        gain: Mean gain.
        low: Lower end of its 95 % interval, which is of this comparison alone; of shares not beyond -1.
        high: Upper end; of shares not beyond 1.
        p_value: Two-sided, adjusted for all comparisons of its kind (Holm).
        detectable: The gain that would have been found four times out of five, all comparisons considered.
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
    """A family's scores [..., by, k], "by" at ``axis`` (last for pairs), and what they are compared with, [..., k]."""

    score: Tensor
    others: Sequence[Tensor]
    axis: int = -2


def others_of(given: Scores) -> list[Tensor]:
    """Return what is compared with: training alone, constants, and a simple tool at each site, NaN if not asked for."""
    return [given["alone"], given["constant"], given.get(OWN, torch.full_like(given["alone"], torch.nan))]


def judge(
    alone: Differences, rivals: Sequence[Differences], level: float, unknown: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return p-values of a family of gains, adjusted for all of them, and what would be found four times out of five.

    Gains over training alone must be such over its ``rivals``, too: theirs is the largest p-value of all. That of
    training alone is for losses, and where a rival has no value or a gain over it was the same on all splits.
    ``unknown`` ones [...] have none.
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
    """Return what JSON can hold; NaN as null."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
