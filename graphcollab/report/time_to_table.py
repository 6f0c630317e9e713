"""How soon methods reach a given accuracy."""

from __future__ import annotations

import math

from graphcollab.report._text import MISSING, byte_size, failures, number, text_table
from graphcollab.settings import checked
from graphcollab.train import Comparison

__all__ = ["time_to_table"]


@checked
def time_to_table(comparison: Comparison, target: float, markdown: bool = False) -> str:
    """Return rounds, seconds and bytes until the mean test metric was first as good as a target, for every method.

    Values are means over the seeds on which the target was reached; the last column says how many those are. Nothing is
    interpolated: the first evaluation counts at which the target is reached.

    Args:
        comparison: What `compare` returns.
        target: Value of the metric; a share lies between 0 and 1.
        markdown: Write the table in Markdown.

    Raises:
        ValueError: If the metric is a share and the target is not.

    Example:
        >>> from graphcollab.train import Trial
        >>> values = {"local": [0.4, 0.5], "cobo": [0.6, 0.7]}
        >>> kept = {"seconds": (1.5, 3.0), "sent": (1000, 2000)}
        >>> chosen = {m: [Trial(m, 0, {}, 0, {}, ([10, 20], v), **kept)] for m, v in values.items()}
        >>> print(time_to_table(Comparison([], chosen, True), 0.6))
        mean test accuracy 60 %       rounds  seconds  sent per node  reached on
        -----------------------  -----------  -------  -------------  ----------
        local                    not reached        –              –      0 of 1
        cobo                              10      1.5         1.0 kB      1 of 1
    """
    rows = []
    for name in comparison.chosen:
        found = comparison.reached(name, target)
        ends = [end for end in found if end is not None]
        cells = [failures(comparison, name) or "not reached", MISSING, MISSING]
        if ends:
            rounds, seconds, sent = (sum(column) / len(ends) for column in zip(*ends, strict=True))
            cells = [f"{rounds:.{0 if rounds == round(rounds) else 1}f}", number(seconds, 1)]
            cells.append(MISSING if math.isnan(sent) else byte_size(sent))
        rows.append([name, *cells, f"{len(ends)} of {len(found)}"])
    goal = f"{100 * target:.4g} %" if comparison.share else number(target, None)
    header = [f"mean test {comparison.metric} {goal}", "rounds", "seconds", "sent per node", "reached on"]
    return text_table(header, rows, markdown)
