"""Differences to a reference method on the same partitions."""

from __future__ import annotations

import math
from typing import Annotated

from graphcollab.report._text import MISSING, failures, number, text_table
from graphcollab.settings import Real, checked
from graphcollab.train import Comparison
from graphcollab.train.comparison import METRIC_COLUMNS

__all__ = ["paired_table"]


@checked
def paired_table(
    comparison: Comparison,
    reference: str = "local",
    column: str = "mean",
    confidence: Annotated[float, Real(above=0, below=1)] = 0.95,
    markdown: bool = False,
) -> str:
    """Return the mean paired difference of every method to a reference, with its confidence interval.

    Where one of the two failed on a seed, or has no value there, that is said instead: there is no difference then.

    Args:
        comparison: What `compare` returns.
        reference: Name of the method that the others are compared with.
        column: ``"mean"``, ``"worst10"``, ``"worst20"`` or another column of the comparison.
        confidence: Level of the interval.
        markdown: Write the table in Markdown.

    Raises:
        ValueError: If there is no method of the reference's name, or no other method.

    Example:
        >>> from graphcollab.train import Trial
        >>> values = {"local": (0.5, 0.6, 0.7), "l2c": (0.53, 0.65, 0.71)}
        >>> chosen = {m: [Trial(m, s, {}, 0, {"mean": v}) for s, v in enumerate(vs)] for m, vs in values.items()}
        >>> print(paired_table(Comparison([], chosen, True)))
        minus local, points   mean  95 % interval  p-value  better on
        -------------------  -----  -------------  -------  ---------
        l2c                  +3.00  −1.97 … +7.97     0.12     3 of 3
    """
    if reference not in comparison.chosen:
        raise ValueError(f"there is no method {reference!r} to compare with; there are {sorted(comparison.chosen)}")
    others = [name for name in comparison.chosen if name != reference]
    if not others:
        raise ValueError(f"there is only {reference!r}: a difference needs another method")
    points = comparison.share and column in METRIC_COLUMNS  # shares are shown in percentage points
    scale, digits, unit = (100.0, 2, ", points") if points else (1.0, None, "")
    sign = 1 if comparison.better(column) else -1
    rows = []
    for name in others:
        if missing := [f"{one}: {why}" for one in (name, reference) if (why := failures(comparison, one))]:
            rows.append([name, "; ".join(missing).removeprefix(f"{name}: "), MISSING, MISSING, MISSING])
            continue
        if without := comparison.undefined(name, reference, column):
            words = f"not defined on {without} of {len(comparison.chosen[name])} seeds"
            rows.append([name, words, MISSING, MISSING, MISSING])
            continue
        found = comparison.paired(name, reference, column, confidence)
        pairs = zip(comparison.values(name, column), comparison.values(reference, column), strict=True)
        better = sum(sign * (one - other) > 0 for one, other in pairs)
        low, high = (number(scale * end, digits, signed=True) for end in (found.low, found.high))
        interval = MISSING if math.isnan(found.low) else f"{low} … {high}"
        p_value = MISSING if math.isnan(found.p_value) else f"{found.p_value:.2g}"
        mean = number(scale * found.mean, digits, signed=True)
        rows.append([name, mean, interval, p_value, f"{better} of {found.n}"])
    header = [f"minus {reference}{unit}", column, f"{100 * confidence:.4g} % interval", "p-value", "better on"]
    return text_table(header, rows, markdown)
