"""`compare`: methods on the same tasks, each tuned alike on validation data, with paired statistics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from graphcollab.method import Method, Phases
from graphcollab.metrics import PairedDifference, paired_difference
from graphcollab.tasks import Tasks
from graphcollab.train.result import Result
from graphcollab.train.run import run
from graphcollab.train.start import Graph, Model

__all__ = ["Comparison", "Trial", "compare"]

Grid = Mapping[str, Sequence[Any]]
COLUMNS = ("mean", "worst10", "worst20", "std", "bytes_per_node", "seconds")


@dataclass(frozen=True)
class Trial:
    """One method with one setting on one seed.

    Args:
        method: Name of the method.
        seed: Seed of tasks and run.
        setting: What was chosen from the grid.
        validation: Mean validation metric at the end.
        summary: Test metric over nodes, bytes and seconds.
        curve: Rounds and mean test metric at every evaluation.
    """

    method: str
    seed: int
    setting: Mapping[str, Any]
    validation: float
    summary: Mapping[str, float]
    curve: tuple[list[int], list[float]] = field(repr=False, default=((), ()))  # type: ignore[assignment]


@dataclass(frozen=True)
class Comparison:
    """All trials, and of every method those with the setting chosen on validation data.

    Args:
        trials: Every trial that was run.
        chosen: For every method its trials with the chosen setting, one per seed.
        higher_is_better: Whether a larger metric is better.
        results: The last seed's result of every method with its chosen setting.
    """

    trials: Sequence[Trial]
    chosen: Mapping[str, Sequence[Trial]]
    higher_is_better: bool
    results: Mapping[str, Result] = field(repr=False, default_factory=dict)

    def values(self, method: str, column: str = "mean") -> list[float]:
        """Return a column of a method's chosen trials, one value per seed."""
        return [trial.summary[column] for trial in self.chosen[method]]

    def paired(self, method: str, reference: str, column: str = "mean", confidence: float = 0.95) -> PairedDifference:
        """Return the paired difference of two methods over seeds, with its confidence interval."""
        return paired_difference(self.values(method, column), self.values(reference, column), confidence)

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return for every method the mean over seeds of every column, its spread, the setting and the values."""
        out: dict[str, dict[str, Any]] = {}
        for name, trials in self.chosen.items():
            row: dict[str, Any] = {c: sum(self.values(name, c)) / len(trials) for c in COLUMNS}
            spread = torch.tensor(self.values(name), dtype=torch.float64)
            row["mean_std_over_seeds"] = float(spread.std()) if len(trials) > 1 else math.nan
            row["settings"] = [dict(trial.setting) for trial in trials]
            row["per_seed"] = [{"seed": t.seed, "validation": t.validation, **t.summary} for t in trials]
            out[name] = row
        return out


def compare(
    methods: Mapping[str, Callable[..., Method | Phases]],
    tasks: Callable[[int], Tasks],
    model: Model,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    grids: Mapping[str, Grid] | None = None,
    *,
    graphs: Mapping[str, Graph] | None = None,
    select: str = "pooled",
    on_trial: Callable[[Trial, Result, int, int], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Run every method with every setting of its grid on every seed, and choose settings on validation data alike.

    Test data play no part in the choice. On every seed all methods see the same tasks and initial models, so
    differences are paired.

    Args:
        methods: Functions that make a method from keyword settings, by name, such as ``graphcollab.methods.l2c``.
        tasks: Function from a seed to tasks.
        model: See `run`; a function is initialised anew from every seed.
        seeds: Seeds of partition and training.
        grids: For every method the values to try of every setting; the grid ``"*"`` is added to all of them.
        graphs: Allowed edges per method. Default: all pairs.
        select: ``"pooled"``: the setting with the best mean validation metric over all seeds; ``"each"``: the best on
            each seed by itself.
        on_trial: Called after every trial with it, its result, its number and how many there are.
        settings: Passed to `run`.

    Raises:
        ValueError: If a grid names no method, or ``select`` is unknown.
    """
    grids = dict(grids or {})
    unknown = set(grids) - set(methods) - {"*"}
    if unknown:
        raise ValueError(f"grids for {sorted(unknown)}, but the methods are {sorted(methods)}")
    if select not in ("pooled", "each"):
        raise ValueError(f"select must be 'pooled' or 'each', got {select!r}")
    points = {name: _points({**grids.get("*", {}), **grids.get(name, {})}) for name in methods}
    total = len(seeds) * sum(map(len, points.values()))
    trials: list[Trial] = []
    kept: dict[tuple[str, int], Result] = {}
    higher = True
    for seed in seeds:
        drawn = tasks(seed)
        for name, make in methods.items():
            for p, point in enumerate(points[name]):
                result = run(make(**point), drawn, model, (graphs or {}).get(name), seed=seed, **settings)
                higher = result.history.higher_is_better
                has_val = "val_metric" in result.history.values
                validation = result.history.mean("val_metric")[-1] if has_val else math.nan
                curve = (list(result.history.rounds), result.history.mean("test_metric"))
                trials.append(Trial(name, seed, point, validation, result.summary(), curve))
                kept[name, p] = result
                if on_trial is not None:
                    on_trial(trials[-1], result, len(trials), total)
    chosen = {name: _choose([t for t in trials if t.method == name], points[name], select, higher) for name in methods}
    results = {name: kept[name, points[name].index(dict(chosen[name][-1].setting))] for name in methods}
    return Comparison(trials, chosen, higher, results)


def _points(grid: Grid) -> list[dict[str, Any]]:
    """List all combinations of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _choose(trials: list[Trial], points: list[dict[str, Any]], select: str, higher: bool) -> list[Trial]:
    """Return one trial per seed: the setting that is best on validation data."""
    sign = 1 if higher else -1
    if len(points) == 1:
        return trials

    def score(point: Mapping[str, Any], seeds: set[int]) -> float:
        values = [sign * t.validation for t in trials if t.setting == point and t.seed in seeds]
        return sum(values) / len(values)

    every = {t.seed for t in trials}
    out = []
    for seed in sorted(every):
        judged = every if select == "pooled" else {seed}
        best = max(points, key=lambda point: score(point, judged))
        out.append(next(t for t in trials if t.seed == seed and t.setting == best))
    return out
