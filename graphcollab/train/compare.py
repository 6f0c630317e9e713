"""`compare`: methods on the same tasks, each tuned alike on validation data, with paired statistics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphcollab.method import Method, NonFiniteLossError
from graphcollab.metrics import PairedDifference, paired_difference
from graphcollab.phases import Phases
from graphcollab.tasks import Tasks
from graphcollab.train.result import Result
from graphcollab.train.run import run
from graphcollab.train.start import Graph, Model
from graphcollab.train.trial import Reached, Trial

__all__ = ["Comparison", "compare"]

Grid = Mapping[str, Sequence[Any]]
SHARES = ("accuracy", "auc")
METRIC_COLUMNS = ("mean", "worst10", "worst20", "std")
COLUMNS = ("mean", "worst10", "worst20", "std", "bytes_per_node", "seconds")


@dataclass(frozen=True)
class Comparison:
    """All trials, and of every method those with the setting chosen on validation data.

    Args:
        trials: Every trial that was run.
        chosen: For every method its trials with the chosen setting, one per seed.
        higher_is_better: Whether a larger metric is better.
        results: The last seed's result of every method with its chosen setting.
        metric: Name of the metric.
    """

    trials: Sequence[Trial]
    chosen: Mapping[str, Sequence[Trial]]
    higher_is_better: bool
    results: Mapping[str, Result] = field(repr=False, default_factory=dict)
    metric: str = "accuracy"

    @classmethod
    def pool(cls, parts: Sequence[Comparison]) -> Comparison:
        """Join comparisons of the same methods on different seeds, say when a setting depends on the seed.

        Raises:
            ValueError: If there are none, their methods differ, or a seed occurs twice.
        """
        if not parts or len({tuple(part.chosen) for part in parts}) > 1:
            raise ValueError(f"comparisons to pool must have the same methods, got {[list(p.chosen) for p in parts]}")
        chosen = {name: [trial for part in parts for trial in part.chosen[name]] for name in parts[0].chosen}
        seeds = [trial.seed for trial in next(iter(chosen.values()))]
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"comparisons to pool must be on different seeds, got {seeds}")
        trials = [trial for part in parts for trial in part.trials]
        return cls(trials, chosen, parts[0].higher_is_better, parts[-1].results, parts[0].metric)

    @classmethod
    def from_results(cls, results: Mapping[str, Sequence[Result]]) -> Comparison:
        """Put runs made by `run` side by side, so that tables and figures of comparisons can be made of them.

        Args:
            results: For every method its results, one for each seed, in the same order for all methods.

        Raises:
            ValueError: If there is no result, or methods were not run on the same seeds.
        """
        seeds = [[result.env.seed for result in many] for many in results.values()]
        if not seeds or not seeds[0] or any(other != seeds[0] for other in seeds):
            named = dict(zip(results, seeds, strict=True))
            raise ValueError(f"runs to compare must be on the same seeds, at least one, in the same order, got {named}")
        chosen = {
            name: [Trial.from_result(name, result.env.seed, {}, result) for result in many]
            for name, many in results.items()
        }
        last = {name: many[-1] for name, many in results.items()}
        history = next(iter(last.values())).history
        trials = [trial for many in chosen.values() for trial in many]
        return cls(trials, chosen, history.higher_is_better, last, history.metric)

    @property
    def share(self) -> bool:
        """Whether the metric is a share, which tables show in percent."""
        return self.metric in SHARES

    def better(self, column: str) -> bool:
        """Tell whether a larger value of a column is a better one."""
        return self.higher_is_better and column in METRIC_COLUMNS and column != "std"

    def values(self, method: str, column: str = "mean") -> list[float]:
        """Return a column of a method's chosen trials, one value per seed."""
        return [trial.summary[column] for trial in self.chosen[method]]

    def paired(self, method: str, reference: str, column: str = "mean", confidence: float = 0.95) -> PairedDifference:
        """Return the paired difference of two methods over seeds, with its confidence interval."""
        return paired_difference(self.values(method, column), self.values(reference, column), confidence)

    def improved(self, method: str, reference: str = "local") -> list[float]:
        """Return which share of the nodes a method does better for than a reference on the same seed, one per seed.

        A node is improved if the test metric of its model is strictly better; a node that was left behind is not. Nodes
        for which the reference has no metric are left out.

        Raises:
            ValueError: If there is no such method, or it was not kept how its nodes did.
        """
        for name in (method, reference):
            if name not in self.chosen:
                raise ValueError(f"there is no method {name!r} to compare with; there are {sorted(self.chosen)}")
            if not all(trial.per_node for trial in self.chosen[name]):
                raise ValueError(f"the trials of {name!r} do not hold each node's metric: give them `per_node`")
        sign, out = 1 if self.higher_is_better else -1, []
        for one, other in zip(self.chosen[method], self.chosen[reference], strict=True):
            gains = torch.tensor([one.per_node, other.per_node], dtype=torch.float64)  # [2, K]
            better = (sign * (gains[0] - gains[1]) > 0)[~gains[1].isnan()]
            out.append(float(better.double().mean()))
        return out

    def reached(self, method: str, target: float) -> list[Reached | None]:
        """Return when a method's mean test metric was first as good as a target on every seed; None: never.

        Args:
            method: Name of the method.
            target: Value of the metric; a share lies between 0 and 1.

        Raises:
            ValueError: If the metric is a share and the target is not.
        """
        if self.share and not 0 <= target <= 1:
            raise ValueError(f"{self.metric} is a share: the target must be in [0, 1], got {target}")
        return [trial.reached(target, self.higher_is_better) for trial in self.chosen[method]]

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

    Test data play no part in the choice; of equally good settings the first in the grid is taken. On every seed all
    methods see the same tasks and initial models, so differences are paired. A setting with which the loss of a node is
    not finite counts as the worst.

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
        settings: Passed to `run`. A ``checkpoint`` folder gets one folder per trial, so a comparison that was stopped
            goes on where it was.

    Raises:
        ValueError: If a grid names no method or has nothing to try, ``select`` is unknown, seeds are missing or double,
            or there are no test data to compare on or no validation data to choose on or for a method that needs them.
        TypeError: If a method does not take a setting of its grid.
        NonFiniteLossError: If a method diverges with every setting of its grid.
        KeyboardInterrupt: At Ctrl-C, after the round.
    """
    grids, seeds = dict(grids or {}), list(seeds)
    points = _check(methods, grids, graphs or {}, seeds, select)
    folder = settings.pop("checkpoint", None)
    total = len(seeds) * sum(map(len, points.values()))
    trials: list[Trial] = []
    kept: dict[tuple[str, int], Result] = {}
    failed: dict[str, NonFiniteLossError] = {}
    higher, metric = True, ""
    for seed in seeds:
        drawn = tasks(seed)
        _check_samples(drawn, any(len(many) > 1 for many in points.values()))
        for name, make in methods.items():  # all of them before the first is run
            make(**points[name][0]).check(drawn)
        for name, make in methods.items():
            for p, point in enumerate(points[name]):
                place = None if folder is None else Path(folder) / f"{name}-{p}-seed-{seed}"
                edges = (graphs or {}).get(name)
                try:
                    result = run(make(**point), drawn, model, edges, seed=seed, checkpoint=place, **settings)
                except NonFiniteLossError as error:
                    if len(points[name]) == 1:
                        raise
                    failed[name] = error
                    trials.append(Trial(name, seed, point, math.nan, dict.fromkeys(COLUMNS, math.nan)))
                    continue
                if result.interrupted:
                    raise KeyboardInterrupt(f"stopped in trial {len(trials) + 1} of {total}")
                higher, metric = result.history.higher_is_better, result.history.metric
                trials.append(Trial.from_result(name, seed, point, result))
                kept[name, p] = result
                if on_trial is not None:
                    on_trial(trials[-1], result, len(trials), total)
    chosen = {name: _choose([t for t in trials if t.method == name], points[name], select, higher) for name in methods}
    for name, many in chosen.items():
        if any(math.isnan(trial.summary["mean"]) for trial in many) and name in failed:
            raise failed[name]
    results = {name: kept[name, points[name].index(dict(chosen[name][-1].setting))] for name in methods}
    return Comparison(trials, chosen, higher, results, metric)


def _check(
    methods: Mapping[str, Any], grids: Mapping[str, Grid], graphs: Mapping[str, Any], seeds: list[int], select: str
) -> dict[str, list[dict[str, Any]]]:
    """Check the arguments of `compare`; return every method's settings."""
    for what, names in (("grids", set(grids) - {"*"}), ("graphs", set(graphs))):
        if unknown := sorted(names - set(methods)):
            raise ValueError(f"{what} for {unknown}, but the methods are {sorted(methods)}")
    if select not in ("pooled", "each"):
        raise ValueError(f"select must be 'pooled' or 'each', got {select!r}")
    if not seeds or len(set(seeds)) < len(seeds) or not methods:
        raise ValueError(f"compare needs methods and seeds that differ, got {sorted(methods)} and seeds {seeds}")
    points = {}
    for name, make in methods.items():
        grid = {**grids.get("*", {}), **grids.get(name, {})}
        for setting, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
                raise ValueError(f"the grid of {name!r} must list the values to try of {setting!r}, got {values!r}")
        points[name] = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        for point in points[name]:
            try:
                made = make(**point)
            except TypeError as error:
                raise TypeError(f"method {name!r} cannot be made with {point}: {error}") from error
            if not isinstance(made, Method | Phases):
                raise TypeError(f"method {name!r} must be a function that makes a Method, it made {made!r}")
    return points


def _check_samples(tasks: Tasks, tuned: bool) -> None:
    if int(tasks.sizes("test").sum()) == 0:
        raise ValueError("compare needs test samples, and no node has any: give `test` to Tasks.from_samples")
    if tuned and int(tasks.sizes("val").sum()) == 0:
        raise ValueError("grids are searched on validation samples, and no node has any: hold some out")


def _choose(trials: list[Trial], points: list[dict[str, Any]], select: str, higher: bool) -> list[Trial]:
    """Return one trial per seed: the setting that is best on validation data."""
    sign = 1 if higher else -1
    if len(points) == 1:
        return trials

    def score(point: Mapping[str, Any], seeds: set[int]) -> float:
        values = [sign * t.validation for t in trials if t.setting == point and t.seed in seeds]
        mean = sum(values) / len(values)
        return -math.inf if math.isnan(mean) else mean

    every = dict.fromkeys(t.seed for t in trials)  # in the order given, as for methods with one setting
    out = []
    for seed in every:
        judged = set(every) if select == "pooled" else {seed}
        best = max(points, key=lambda point: score(point, judged))
        out.append(next(t for t in trials if t.seed == seed and t.setting == best))
    return out
