"""Notes below tables: the meaning of numbers, and methods with different work, models or settings, or overtraining."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import mean, stdev
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab.analysis import Benefit, Comparison, Gain
from graphcollab.analysis.metrics import paired_difference
from graphcollab.analysis.metrics.statistics import PairedDifference
from graphcollab.analysis.metrics.weight_spread import AGREE
from graphcollab.analysis.shared_samples import Over
from graphcollab.analysis.trial import Trial
from graphcollab.data.tasks import Tasks
from graphcollab.report.values import number, shown_in

EXACT = 1 + 1e-9  # tolerance for rounding of means over nodes
FEW = 5  # test samples, below which a node's result is reported as based on few


def best_way(benefit: Benefit) -> Gain | None:
    """Return the mean gain over sites with evidence, or else the largest; None if there is none.

    A way that constants replaced comes last.
    """
    told = [gain for gain in benefit.overall if not benefit.untold(gain.by) and not math.isnan(gain.gain)]
    order = [(gain.verdict == "gains", not benefit.by_constants(gain.by), gain.gain) for gain in told]
    return told[order.index(max(order))] if told else None


def best_group(benefit: Benefit) -> Gain | None:
    """Return the largest gain of all sites but one, if these do better without that site with trained models."""
    better = dict(zip(benefit.names, benefit.spared.mean.tolist(), strict=True))
    gains = [gain for gain in benefit.group_gains if better[gain.site.removeprefix("all but ")] > 0]
    return None if benefit.by_constants("without") else max(gains, key=lambda gain: gain.gain, default=None)


def unequal_terms(comparison: Comparison) -> list[Finding]:
    """Report methods with different work, different models, more settings or too much training, as far as known."""
    return [*_work(comparison), *_models(comparison), *_settings(comparison), *past_best(comparison)]


def _work(comparison: Comparison) -> list[Finding]:
    """Report the two methods that differ most in local steps, if by more than half a round of each.

    The first seed decides, for which `compare` equalizes the work: the other seeds use the same number of rounds, and
    steps may differ slightly. The reported numbers are means over seeds, as in tables.
    """
    first = {name: trials[0] for name, trials in comparison.chosen.items() if trials}
    pairs = [pair for pair in combinations(first, 2) if _did_other_work(first[pair[0]], first[pair[1]])]
    if not pairs:
        return []
    taken = {name: [trial.local_steps for trial in trials] for name, trials in comparison.chosen.items()}
    steps = {name: float(torch.tensor(many, dtype=torch.float64).nanmean()) for name, many in taken.items()}
    one, other = max(pairs, key=lambda pair: abs(steps[pair[0]] - steps[pair[1]]))
    done = [number(steps[name], 0 if steps[name].is_integer() else 1) for name in (one, other)]
    early = any(len({trial.rounds for trial in comparison.chosen[name] if not trial.failure}) > 1 for name in first)
    why = ", since runs stopped early" * early
    said = f"not the same work: {one} took {done[0]} local steps a site, {other} {done[1]}{why}"
    return noted("unequal-work", "budget", said, early=early, steps={one: steps[one], other: steps[other]})


def _did_other_work(one: Trial, other: Trial) -> bool:
    """Return whether local steps differ by more than half a round of each, the tolerance of a budget."""
    allowed = (one.round_steps + other.round_steps) / 2
    return abs(one.local_steps - other.local_steps) > allowed * EXACT


def _models(comparison: Comparison) -> list[Finding]:
    known = {n: trials for n, trials in comparison.chosen.items() if any(trial.architectures for trial in trials)}
    seeds = [of_seed for of_seed in zip(*known.values(), strict=True) if all(t.architectures for t in of_seed)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, *kinds in zip(known, *([t.architectures for t in of_seed] for of_seed in seeds), strict=True):
        groups.setdefault(tuple(kinds), []).append(name)
    said = f"not the same models: {'; '.join(f'those of {few(some)}' for some in groups.values())}"
    return noted("unequal-models", "model", said * (len(groups) > 1), groups=[*groups.values()])


def _settings(comparison: Comparison) -> list[Finding]:
    tried = Counter((trial.method, trial.seed) for trial in comparison.trials)
    many: dict[int, list[str]] = {}
    for name in comparison.chosen:
        if most := max((n for (of, _), n in tried.items() if of == name), default=0):
            many.setdefault(most, []).append(name)
    said = f"settings tried: {'; '.join(f'{n} by {few(names)}' for n, names in many.items())}"
    return noted("unequal-settings", "grids", said * (len(many) > 1), tried=many)


class Stopped(NamedTuple):
    """A method's results if stopped at its best evaluation, after ``rounds``, with the mean ``then``.

    ``values`` has one value per seed, at the evaluation with the best mean over the other seeds.
    """

    rounds: int
    then: float
    values: list[float]


def past_best(comparison: Comparison) -> list[Finding]:
    """Report methods whose mean test metric was better at an earlier evaluation than at the end, if any.

    The difference must exceed one standard deviation over seeds, and be significant at p < 0.01, one-sided, since the
    choice of the evaluation still introduces a bias: for pure noise, a few curves in a hundred are reported.
    """
    stopped = {name: stopped_in_time(comparison, name) for name in comparison.chosen}
    found = {name: one for name, one in stopped.items() if one is not None and _was_better(one, comparison, name)}
    scale, digits, unit = shown_in(comparison.share, 2)
    which = [
        f"{name} ({comparison.metric}{unit} {number(scale * one.then, digits)} after {one.rounds} rounds, "
        f"{number(scale * mean(comparison.values(name)), digits)} at the end)"
        for name, one in found.items()
    ]
    stop, rounds = setting(patience=20), {name: one.rounds for name, one in found.items()}
    said = f"trained past the best: {few(which)}; gains over that may be nothing else: stop in time, by {stop}"
    return noted("past-best", "patience", said * bool(found), rounds=rounds)


def stopped_in_time(comparison: Comparison, name: str) -> Stopped | None:
    """Return a method's results at its best evaluation, chosen for each seed on the other seeds.

    None if the last evaluation was best, if the method already returned its best models, or with fewer than three
    seeds.
    """
    trials, sign = comparison.chosen[name], 1 if comparison.higher_is_better else -1
    if len(trials) < 3 or not all(_ended(trial) for trial in trials) or len({trial.rounds for trial in trials}) > 1:
        return None
    curves = [[sign * value for value in trial.curve[1]] for trial in trials]
    if len({len(curve) for curve in curves}) > 1 or (best := _best(curves)) == len(curves[0]) - 1:
        return None
    others = [[one for j, one in enumerate(curves) if j != k] for k in range(len(curves))]
    values = [sign * curve[_best(rest)] for curve, rest in zip(curves, others, strict=True)]
    return Stopped(trials[0].curve[0][best], mean(trial.curve[1][best] for trial in trials), values)


def sure_p_value(comparison: Comparison, name: str, reference: str, over: Over = None) -> float:
    """Return the p-value for a method being better or worse than a reference.

    A gain over an overtrained reference may be an artifact, and so may the loss of an overtrained method. Therefore,
    the worse of the two must also be worse at its best evaluation: the larger of the two p-values counts, which needs
    no correction, and it is 1 if the worse one is better at its best evaluation.
    """
    found, safe = _in_time(comparison, name, reference, over)
    return max(found.p_value, safe.p_value) if found.mean * safe.mean > 0 else 1.0


def better_at_the_end_only(
    comparison: Comparison, reference: str, others: Sequence[str], level: float, over: Over = None
) -> list[Finding]:
    """Report methods that beat a reference at the end, at a level, but not the reference stopped at its best."""
    sign, said = 1 if comparison.higher_is_better else -1, {}
    if (stopped := stopped_in_time(comparison, reference)) is None:
        return []
    scale, digits, unit = shown_in(comparison.share, 2)
    for name in others:
        found, safe = _in_time(comparison, name, reference, over)
        if sign * found.mean > 0 and found.p_value <= level < sure_p_value(comparison, name, reference, over):
            gain, low, high = (number(scale * end, digits, signed=True) for end in (safe.mean, safe.low, safe.high))
            said[name] = f"{name} ({gain}: {low} … {high})"
    then = number(scale * mean(stopped.values), digits)
    line = (
        f"{reference} was better earlier: compared with it as it was after {stopped.rounds} rounds ({comparison.metric}"
        f"{unit} {then}, rounds chosen on the other seeds), there is no evidence of a gain: {few([*said.values()])}"
    )
    return noted("better-at-end-only", reference, line * bool(said), rounds=stopped.rounds, methods=[*said])


def _in_time(comparison: Comparison, name: str, reference: str, over: Over) -> tuple[PairedDifference, ...]:
    """Return the difference to a reference at the end, and with the worse one stopped at its best evaluation."""
    found = comparison.paired(name, reference, over=over)
    gains = (found.mean > 0) == comparison.higher_is_better
    if (stopped := stopped_in_time(comparison, reference if gains else name)) is None:
        return found, found
    both = (comparison.values(name), stopped.values) if gains else (stopped.values, comparison.values(reference))
    return found, paired_difference(*both, ratio=comparison.correction(over)[0])


def _ended(trial: Trial) -> bool:
    values = trial.curve[1]
    return bool(values) and all(map(math.isfinite, values)) and math.isclose(values[-1], trial.summary["mean"])


def _was_better(stopped: Stopped, comparison: Comparison, name: str) -> bool:
    ends = comparison.values(name)
    found, sign = paired_difference(stopped.values, ends, 0.98), 1 if comparison.higher_is_better else -1
    least = found.low if sign > 0 else -found.high
    return least > 0 and sign * found.mean > stdev(ends)


def _best(curves: Sequence[Sequence[float]]) -> int:
    """Return the evaluation with the largest mean over seeds, the last one of ties."""
    means = [mean(values) for values in zip(*curves, strict=True)]
    return max(range(len(means)), key=lambda t: (means[t], t))


def agreement(name: str, r: float, of: str) -> Finding:
    """Report whether weights learned several times agree, by their mean correlation."""
    which = "agree" if r >= AGREE else "differ: do not read them as who helps whom"
    said = f"On different {of} the weights that {name} learned {which} (mean correlation {number(r, 2)})."
    return Finding("weights-alike", name, said, {"r": r})


def noted(code: str, subject: str, message: str, **numbers: Any) -> list[Finding]:
    """Return a list with a finding, empty if there is no message."""
    return [Finding(code, subject, message, numbers)] if message else []


def weighted(tasks: Tasks) -> list[Finding]:
    """Report that metrics are weighted means if samples have weights."""
    some = any(pool.weight is not None for pool in tasks.pools.values())
    return noted("weighted", "samples", "samples have weights: metrics are weighted means at each site" * some)


def with_few(held: Iterable[tuple[str, float]], nothing: str = "one class only") -> str:
    """Describe the sites with fewer than `FEW` of something, those with ``nothing`` first; "" if there are none."""
    held = list(held)
    none = [name for name, many in held if many == 0]
    some = [f"{name}: {round(many, 1):g}" for name, many in held if 0 < many < FEW]
    return "; ".join([f"{nothing}: {few(none)}"] * bool(none) + [few(some)] * bool(some))


def failures(comparison: Comparison, name: str) -> str:
    """Describe on how many seeds a method failed; empty if on none."""
    failed, many = len(comparison.failed(name)), len(comparison.chosen[name])
    if not failed:
        return ""
    return "failed" if failed == many else f"failed on {failed} of {many} seeds"


ByMethod: TypeAlias = Mapping[str, Sequence[tuple[Sequence[int], Sequence[Any]]]]
"""One pair (rounds, values) per seed for every method."""


def curves_of(comparison: Comparison) -> tuple[ByMethod, str]:
    """Return the curves of seeds that did not fail, and their x-axis: rounds, or local steps if rounds differ."""
    chosen = comparison.chosen.items()
    kept = {name: some for name, trials in chosen if (some := [t for t in trials if not t.failure and t.curve[0]])}
    every = [trial for trials in kept.values() for trial in trials]
    steps = len({t.curve[0][-1] for t in every}) > 1 and not any(math.isnan(t.local_steps) for t in every)
    each = {name: some[0].local_steps / some[0].curve[0][-1] if steps else 1 for name, some in kept.items()}
    curves = {name: [([round(each[name] * r) for r in t.curve[0]], t.curve[1]) for t in kept[name]] for name in kept}
    return curves, "local steps per site" if steps else "round"


def in_common(seeds: Sequence[tuple[Sequence[int], Sequence[Any]]]) -> tuple[list[int], Tensor]:
    """Return the rounds that all curves have, and their values there, [S, T]."""
    found = [dict(zip(*seed, strict=True)) for seed in seeds]
    rounds = sorted(set.intersection(*map(set, found)))
    return rounds, torch.tensor([[seed[r] for r in rounds] for seed in found], dtype=torch.float64)
