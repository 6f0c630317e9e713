"""Lines below tables that say where methods were not compared on the same terms: work, models, settings, the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from statistics import mean

from graphcollab.findings import Finding
from graphcollab.naming import few
from graphcollab.report._past_best import past_best
from graphcollab.report._text import noted, number
from graphcollab.train import Comparison, Trial

EXACT = 1 + 1e-9  # means over nodes are rounded


def unequal_terms(comparison: Comparison) -> list[Finding]:
    """Return whether methods did other work, had other models, more settings, or were trained for too long.

    What trials do not hold, as those that failed, is no difference.
    """
    return [*_work(comparison), *_models(comparison), *_settings(comparison), *past_best(comparison)]


def _work(comparison: Comparison) -> list[Finding]:
    """Say which two methods are furthest apart in local steps, of those that differ by more than half a round of each.

    It is the first seed that decides, as it does where `compare` makes work equal: rounds are the same on others, and
    of other samples they may take a few steps more or less. What is said are the means over seeds, as in tables.
    """
    first = {name: trials[0] for name, trials in comparison.chosen.items() if trials}
    pairs = [pair for pair in combinations(first, 2) if _did_other_work(first[pair[0]], first[pair[1]])]
    if not pairs:
        return []
    steps = {name: _steps_taken(trials) for name, trials in comparison.chosen.items()}
    one, other = max(pairs, key=lambda pair: abs(steps[pair[0]] - steps[pair[1]]))
    done = [number(steps[name], 0 if steps[name].is_integer() else 1) for name in (one, other)]
    early = any(len({trial.rounds for trial in comparison.chosen[name] if not trial.failure}) > 1 for name in first)
    why = ", since runs stopped early" * early
    said = f"not the same work: {one} took {done[0]} local steps a node, {other} {done[1]}{why}"
    return noted("unequal-work", "budget", said, early=early, steps={one: steps[one], other: steps[other]})


def _steps_taken(trials: Sequence[Trial]) -> float:
    """Return how many local steps a node took, in the mean over the seeds of which that is known; else NaN."""
    known = [trial.local_steps for trial in trials if not math.isnan(trial.local_steps)]
    return mean(known) if known else math.nan


def _did_other_work(one: Trial, other: Trial) -> bool:
    """Tell whether local steps differ by more than half a round of each, up to which a budget is kept."""
    allowed = (one.round_steps + other.round_steps) / 2
    return abs(one.local_steps - other.local_steps) > allowed * EXACT


def _models(comparison: Comparison) -> list[Finding]:
    """Say which methods had models of one kind, where there are several."""
    known = {n: trials for n, trials in comparison.chosen.items() if any(trial.architectures for trial in trials)}
    seeds = [of_seed for of_seed in zip(*known.values(), strict=True) if all(t.architectures for t in of_seed)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, *kinds in zip(known, *([t.architectures for t in of_seed] for of_seed in seeds), strict=True):
        groups.setdefault(tuple(kinds), []).append(name)
    said = f"not the same models: {'; '.join(f'those of {few(some)}' for some in groups.values())}"
    return noted("unequal-models", "model", said * (len(groups) > 1), groups=[*groups.values()])


def _settings(comparison: Comparison) -> list[Finding]:
    """Say how many settings every method could choose from on a seed, where these are not equally many."""
    tried = Counter((trial.method, trial.seed) for trial in comparison.trials)
    many: dict[int, list[str]] = {}
    for name in comparison.chosen:
        if most := max((n for (of, _), n in tried.items() if of == name), default=0):
            many.setdefault(most, []).append(name)
    said = f"settings tried: {'; '.join(f'{n} by {few(names)}' for n, names in many.items())}"
    return noted("unequal-settings", "grids", said * (len(many) > 1), tried=many)
