"""A line below tables that says whose models had been better before the end, which may be all that others gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev

from graphcollab.metrics import paired_difference
from graphcollab.naming import few
from graphcollab.report._text import number, shown_in
from graphcollab.train import Comparison, Trial

__all__ = ["past_best"]


def past_best(comparison: Comparison) -> str:
    """Say whose mean test metric was better at an earlier evaluation than at the end; nothing where nobody's was.

    On each of three seeds or more, the evaluation to hold against the last one is the best in the mean over the other
    seeds. It must be better with evidence (p below 0.01 to that side, as the choice still flatters it: of curves of
    mere noise some in a hundred are found), and by more than one standard deviation over seeds. Methods that stopped
    early returned their best models already.
    """
    said = []
    for name, trials in comparison.chosen.items():
        if len(trials) < 3 or not all(_ended(trial) for trial in trials) or len({trial.rounds for trial in trials}) > 1:
            continue
        sign = 1 if comparison.higher_is_better else -1
        curves = [[sign * value for value in trial.curve[1]] for trial in trials]
        if len({len(curve) for curve in curves}) == 1 and _was_better(curves):
            said.append(_in_words(name, trials, curves, comparison))
    if not said:
        return ""
    return f"trained past the best: {few(said)}; gains over that may be nothing else: stop in time, by patience=20"


def _ended(trial: Trial) -> bool:
    """Tell whether the returned models are the last ones."""
    values = trial.curve[1]
    return bool(values) and all(map(math.isfinite, values)) and math.isclose(values[-1], trial.summary["mean"])


def _was_better(curves: Sequence[Sequence[float]]) -> bool:
    """Tell whether larger values are found before the end, at evaluations chosen on other seeds."""
    ends, earlier = [curve[-1] for curve in curves], []
    for k, curve in enumerate(curves):
        others = [one for j, one in enumerate(curves) if j != k]
        earlier.append(curve[_best(others)])
    found = paired_difference(earlier, ends, confidence=0.98)
    return found.low > 0 and found.mean > stdev(ends)


def _best(curves: Sequence[Sequence[float]]) -> int:
    """Return the evaluation at which the mean over seeds is largest, the last of several."""
    means = [mean(values) for values in zip(*curves, strict=True)]
    return max(range(len(means)), key=lambda t: (means[t], t))


def _in_words(name: str, trials: Sequence[Trial], curves: Sequence[Sequence[float]], comparison: Comparison) -> str:
    best, (rounds, _) = _best(curves), trials[0].curve
    then, now = (mean(trial.curve[1][t] for trial in trials) for t in (best, -1))
    scale, digits, unit = shown_in(comparison.share, 2)
    what = [number(scale * value, digits) for value in (then, now)]
    return f"{name} ({comparison.metric}{unit} {what[0]} after {rounds[best]} rounds, {what[1]} after {rounds[-1]})"
