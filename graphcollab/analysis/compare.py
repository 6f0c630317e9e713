"""`compare`: methods on the same tasks, each tuned in the same way on validation data, with paired statistics."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import EmptyError, GraphcollabError, InvalidTypeError, InvalidValueError
from graphcollab._base.findings import Finding
from graphcollab._base.settings import Count, Seed, checked, unknown_argument
from graphcollab.analysis.baseline import Baseline, baseline_trials, require_baseline
from graphcollab.analysis.budget import ROUNDS, Budget, spend
from graphcollab.analysis.comparison import Comparison
from graphcollab.analysis.grids import Grids, Point, points_of, require_methods
from graphcollab.analysis.metrics import as_metric
from graphcollab.analysis.processes import play_in_processes
from graphcollab.analysis.trial import Trial
from graphcollab.analysis.trials import MODEL, Contestant, Trials
from graphcollab.comm import raise_on_all
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.findings import ALONE, DIVERGED, SINGLE, UNIFORM, told_by_table, warn_of_undefined
from graphcollab.train.graph_input import Graph
from graphcollab.train.result import Result
from graphcollab.train.run import run
from graphcollab.train.settings import Checkpoint
from graphcollab.train.start import Models, candidates, require_alike, tasks_of

NOT_PASSED = ("method", "graph", "seed")  # arguments of `run` that a comparison sets itself

Methods = Annotated[
    Mapping[str, Callable[..., Method | Phases]],
    "functions that make methods, by name, such as {'l2c': methods.l2c}, not what they return (methods.l2c()), and no "
    "list",
]
Seeds = Annotated[Iterable[Seed], "several whole numbers, such as range(5)"]


@checked
def compare(
    methods: Methods,
    tasks: Annotated[Callable[[int], Tasks], "a function from a seed to Tasks, lambda seed: ..."],
    model: Models,
    seeds: Seeds = (0, 1, 2, 3, 4),
    grids: Grids | None = None,
    *,
    rounds: Count = ROUNDS,
    budget: Budget = "steps",
    evaluate_every: Count = 1,
    graphs: Mapping[str, Graph] | None = None,
    n_jobs: Count = 1,
    baseline: Baseline | Literal["constant"] = None,
    on_trial: Callable[[Trial, Result | None, int, int], None] | None = None,
    progress: bool = False,
    **settings: Any,
) -> Comparison:
    """Run every method with every setting of its grid on every seed, and choose settings on validation data.

    All methods do the same work: rounds are set so that nodes take equally many local steps (``budget``). On every seed
    all methods get the same tasks and initial models, so differences are paired. The chosen setting of a method has the
    best mean validation metric over seeds; ties go to the first in the grid. Test data do not influence the choice.

    A trial that fails (a loss or prediction is not finite, or any other error) counts as the worst: a setting is never
    chosen over one with fewer failures, nor, if diverged nodes are isolated, over one with as many failures and fewer
    isolated nodes. Tables show it as failed, and a warning is issued at once for the first error of each kind; the
    other trials continue. Problems found in runs (`Finding`) are reported as warnings at the end, once per method, and
    once for all methods if models diverged. An error is raised if it occurs before any trial has finished, unless a
    model diverged, and at any time if the machine fails (a full disk, exhausted memory, a lost process or site), which
    says nothing about a setting.

    Args:
        methods: Functions that make a method from keyword settings, by name, such as ``graphcollab.methods.l2c``.
        tasks: Function from a seed to tasks.
        model: See `run`; a function is initialized anew from every seed. A function of tasks receives those of the
            seed, for models whose input size depends on them. Several models by name are tried like a setting
            ``"model"`` of every method's grid, the first setting of the grid.
        seeds: Seeds of partition and training.
        grids: Values to try for every setting, by method; the grid ``"*"`` is added to all of them.
        rounds: Rounds of the method with the most local steps per round. The others run as many rounds as give the same
            number of local steps per node, counted on the first seed's tasks.
        budget: ``"steps"``, as above; ``"rounds"``: all methods run the same number of rounds, whatever the work; a
            number of local steps per node; or rounds by method name. Tables state the resources used. Training outside
            the local steps (of personal models or references, see ``Trial.models``; to evaluate a model or to compute
            weights) is not equalized.
        evaluate_every: Rounds between evaluations of the method with the most steps; the others are evaluated equally
            often, after the same work. If the budget is in rounds, it applies to every method.
        graphs: Allowed edges per method. Default: all pairs.
        n_jobs: Number of processes that run seeds, each with its share of the CPU threads. Results equal those of one
            process, bit for bit if the number of threads is the same (``num_threads`` of each; models without
            convolutions and of ordinary size use one). State that callbacks keep stays in their process.
        baseline: ``"constant"``: report and pair, like a method, a constant predictor per node, the mean or class
            frequencies of its training targets, on the same test samples. ``"sklearn"``: also scikit-learn's linear
            models, one per node, one on all nodes' samples, and one on these with the node as input. They are fitted to
            training and validation samples, which must all be in one process. Baselines have no trials.
        on_trial: Called in this process after every trial with the trial, its result (None if it failed), its number
            and the total number.
        progress: Show progress bars.
        settings: Passed to `run`. A ``checkpoint`` folder gets one subfolder per trial, so that a stopped comparison
            can resume.

    Raises:
        ValueError: If a grid names no method or has no values, seeds are missing or duplicate, there are no test data
            for the comparison or no validation data for the choice or for a method that needs them, inputs of tables
            differ between seeds and the model is not a function of tasks, or the budget cannot be met.
        TypeError: If a method does not accept a setting of its grid.
        NonFiniteLossError: If all trials of all methods fail; the first error.
        InUseError: If another run is using a trial's folder; finished trials are in the other folders.
        OtherRunError: If a trial's folder belongs to another run.
        OSError, MemoryError, RuntimeError: If the machine fails; with a ``checkpoint``, repeating the call resumes the
            comparison.
        KeyboardInterrupt: On Ctrl-C: after the round, or immediately with several ``n_jobs``.
    """
    own, played = inspect.signature(compare).parameters, inspect.signature(run).parameters
    takes = {**own, **played}.keys() - {"settings", *NOT_PASSED}
    for name in settings.keys() - takes:
        said = "; tasks say what loss and metric are, Tasks.from_frame(..., metric=...)" * (name in ("loss", "metric"))
        known = [one for one in dict.fromkeys([*own, *played]) if one in takes]
        raise InvalidTypeError(name, unknown_argument("compare", name, known) + said)
    grids, graphs, seeds = dict(grids or {}), dict(graphs or {}), list(seeds)
    models = candidates(model)
    points = _check(methods, grids, graphs, seeds)
    if isinstance(model, Mapping):
        points = {name: [{MODEL: m, **point} for m in models for point in points[name]] for name in methods}
    folder = Checkpoint.of(settings.pop("checkpoint", None))
    every = [
        Contestant(name, p, point, make, models[point.get(MODEL, "")], graphs.get(name))
        for name, make in methods.items()
        for p, point in enumerate(points[name])
    ]
    game = Trials(every, tasks, settings, folder, progress)
    drawn = game.draw(seeds[0])
    simple: list[Trial] = []
    for seed in seeds if baseline is not None else ():
        with own_filter("ignore", code="quality", subject="metric"):  # reported for the first seed
            given = drawn if seed == seeds[0] else tasks_of(tasks, seed)
        require_baseline(given, methods, str(baseline))
        simple += baseline_trials(given, seed, str(baseline))
    if drawn.preparation is not None:  # tables are fast to draw, and their categories differ
        with own_filter("ignore", code="quality", subject="metric"):  # reported for the first seed
            others = {f"seed {seed}": tasks_of(tasks, seed) for seed in seeds[1:]}
        for one in models.values():
            require_alike(one, {f"seed {seeds[0]}": drawn, **others})
    spent = spend([(one.name, one.method()) for one in every], drawn, budget, rounds, evaluate_every)
    game = replace(game, contestants=[replace(one, spending=own) for one, own in zip(every, spent, strict=True)])
    trials: list[Trial] = []
    kept: dict[tuple[str, int], Result] = {}
    failures: dict[type[Exception], Exception] = {}
    total = len(seeds) * len(every)
    with closing(game.play_all(seeds, drawn) if n_jobs == 1 else play_in_processes(game, seeds, n_jobs)) as playing:
        for trial, result, error in playing:
            trials.append(trial)
            if error is not None:
                error.add_note(
                    f"in trial {len(trials)} of {total}: method {trial.method!r} with {dict(trial.setting)} on seed "
                    f"{trial.seed}"
                )
                if not kept and not isinstance(error, ArithmeticError):
                    raise error
                if type(error) not in failures:  # later ones of the same kind appear only in tables
                    _warn_of_failure(trial, error)
                failures.setdefault(type(error), error)
            elif result is not None:
                kept[trial.method, points[trial.method].index(dict(trial.setting))] = result
            if on_trial is not None:
                with raise_on_all():
                    on_trial(trial, result, len(trials), total)
    if not kept:
        raise next(iter(failures.values()))
    history = next(iter(kept.values())).history
    histories = (result.history for result in kept.values())
    warn_of_undefined(histories, as_metric(drawn.metric), len(history.names), told_by_table(drawn))
    _warn_once(trials)
    higher, metric = history.higher_is_better, history.metric
    chosen = {name: _choose([t for t in trials if t.method == name], points[name], higher) for name in methods}
    last = {name: points[name].index(dict(chosen[name][-1].setting)) for name in methods}
    results = {name: kept[name, p] for name, p in last.items() if (name, p) in kept}
    for trial in simple:
        chosen.setdefault(trial.method, []).append(trial)
    best = [one for one in every if one.number == last[one.name]]
    again = {one.name: partial(one.play, settings, chosen[one.name][-1].seed) for one in best}
    return Comparison(trials, chosen, higher, results, metric, again)


def _warn_of_failure(trial: Trial, error: Exception) -> None:
    given = f" with {', '.join(f'{key}={value}' for key, value in trial.setting.items())}" * bool(trial.setting)
    issue(
        error.code if isinstance(error, GraphcollabError) else "error",
        f"method {trial.method!r}",
        f"{trial.method}{given} failed on seed {trial.seed} and counts as the worst setting: "
        f"{type(error).__name__}: {error}",
    )


def _check(
    methods: Mapping[str, Any], grids: Grids, graphs: Mapping[str, Any], seeds: list[int]
) -> dict[str, list[Point]]:
    """Check the arguments of `compare` and return every method's settings."""
    require_methods("graphs", graphs, methods)
    if not methods:
        raise EmptyError("methods", "methods must name one method or more, such as {'l2c': methods.l2c}, got none")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidValueError("seeds", f"seeds must be one or more, all different, such as range(5), got {seeds}")
    return points_of(methods, grids)  # find invalid settings before tasks are drawn


def _choose(trials: list[Trial], points: list[dict[str, Any]], higher: bool) -> list[Trial]:
    """Return the trials, one per seed, with the best setting on validation data."""
    sign = 1 if higher else -1

    def score(point: Mapping[str, Any]) -> tuple[int, int, float]:
        """Return the sort key of a setting: few failures first, then few isolated nodes, then the metric."""
        judged = [t for t in trials if t.setting == point]
        known = [sign * t.validation for t in judged if not math.isnan(t.validation)]
        mean = sum(known) / len(known) if known else -math.inf
        return len(known) - len(judged), -sum(t.isolated for t in judged), mean

    best = max(points, key=score)
    return list({t.seed: t for t in trials if t.setting == best}.values())


def _warn_once(trials: Iterable[Trial]) -> None:
    """Warn of every kind of finding once per method, and of diverged models once for all methods."""
    found: dict[tuple[str, str], list[tuple[Trial, Finding]]] = {}
    for trial in trials:
        for finding in trial.findings:
            if finding.code in (ALONE, SINGLE, UNIFORM, DIVERGED):
                key = finding.code, "" if finding.code == DIVERGED else trial.method
                found.setdefault(key, []).append((trial, finding))
    for (trial, first), *others in found.values():
        setting = "".join(f", {name}={value}" for name, value in trial.setting.items())
        more = f", and in {len(others)} more trial{'s' * (len(others) > 1)}" * bool(others)
        code, subject = ("diverged", "models") if first.code == DIVERGED else ("quality", "weights")
        issue(code, subject, f"{first.message} (so it is with {trial.method}{setting} on seed {trial.seed}{more})")
