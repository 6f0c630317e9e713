"""What a comparison asked: of whom, on what, and how methods were tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from graphcollab.naming import few
from graphcollab.report._terms import steps_taken, unequal_terms
from graphcollab.report._text import number
from graphcollab.train import Comparison, Result

__all__ = ["asked"]


def asked(comparison: Comparison, last: Mapping[str, Result], reference: str | None) -> str:
    """Say what was compared, on what, after how much work, and which settings the reference had to choose from."""
    trials = next(iter(comparison.chosen.values()))
    nodes = len(trials[0].per_node)
    who = f"{nodes} nodes" if nodes else "the nodes"
    seeds = f"{len(trials)} seeds" if len(trials) > 1 else "one seed"
    direction = "more" if comparison.higher_is_better else "less"
    question = (
        f"Which of {few(list(comparison.chosen))} gives {who} the best models of their own, by test "
        f"{comparison.metric} ({direction} is better), on {seeds}?"
    )
    unequal = "; ".join(map(str, unequal_terms(comparison)))
    said = [question, _samples(last), _tuned(comparison, reference), f"Not on equal terms: {unequal}." * bool(unequal)]
    return " ".join(one for one in said if one)


def _samples(last: Mapping[str, Result]) -> str:
    """Say how many samples nodes learn from."""
    result = next(iter(last.values()), None)
    if result is None or "train" not in result.tasks.splits:
        return ""
    least, most = (int(end) for end in result.tasks.sizes("train").aminmax())
    return f"Each learns from {f'{least} to {most}' if least < most else least} samples."


def _tuned(comparison: Comparison, reference: str | None) -> str:
    """Say how much work the reference, or else the first method, has done, and how its settings were chosen."""
    name = reference if reference is not None else next(iter(comparison.chosen))
    trials = comparison.chosen[name]
    tried = {repr(dict(trial.setting)) for trial in comparison.trials if trial.method == name}
    steps = steps_taken(trials)
    work = f"{name} took {number(steps, 0)} local steps per node" if steps == steps else ""
    if len(tried) > 1:
        often = Counter(", ".join(f"{key}={value}" for key, value in t.setting.items()) for t in trials)
        best = ", ".join(f"{one} on {n} of {len(trials)} seeds" for one, n in often.most_common())
        how = f"chose from {len(tried)} settings by validation data ({best})"
    else:
        how = "had one setting, and nothing to choose from" if tried else ""
    told = " and ".join(one for one in (work, how if work or not how else f"{name} {how}") if one)
    return f"{told[0].upper()}{told[1:]}." if told else ""
