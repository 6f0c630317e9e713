"""`compare`: methods on the same tasks, each tuned alike on validation data, with paired statistics."""

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

NOT_PASSED = ("method", "graph", "seed")  # arguments of `run` that a comparison gives itself

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
    """Run every method with every setting of its grid on every seed, and choose settings on validation data alike.

    All do the same work: rounds are counted such that nodes take equally many local steps (``budget``). On every seed
    all methods see the same tasks and initial models, so differences are paired. The setting of a method is that with
    the best mean validation metric over seeds, of equals the first in the grid; test data play no part in the choice.

    A trial that fails (a loss or prediction is not finite, or anything else goes wrong) counts as the worst: a setting
    is never chosen over one with fewer failures, nor, where diverged nodes are isolated, over one with as many failures
    and fewer isolated nodes. It is shown as failed in tables, and the first of a kind of error is warned of at once;
    others go on. What runs find (`Finding`) is warned of at the end, once for a method, and once for all of them
    where models have diverged. Raised are an error before anything is finished, unless a model diverged, and at any
    time one of the machine (a full disk, used-up memory, a lost process or site), which says nothing of a setting.

    Args:
        methods: Functions that make a method from keyword settings, by name, such as ``graphcollab.methods.l2c``.
        tasks: Function from a seed to tasks.
        model: See `run`; a function is initialized anew from every seed. A function of tasks is given those of the
            seed, for inputs whose number depends on them. Several by name are tried like a setting ``"model"`` of every
            method's grid, the first one of the grid.
        seeds: Seeds of partition and training.
        grids: For every method the values to try of every setting; the grid ``"*"`` is added to all of them.
        rounds: Rounds of the method that takes the most local steps in one. The others play as many as make the same
            number of local steps per node, counted on the first seed's tasks.
        budget: ``"steps"``, as above; ``"rounds"``: all play the same number of rounds, whatever they do in them; a
            number of local steps per node; or rounds by the names of the methods. Tables say what was spent. Training
            beside the local steps (of personal models or references, see ``Trial.models``; to judge a model or to weigh
            another) is not evened out.
        evaluate_every: Rounds between evaluations, of the method with the most steps; the others are evaluated as
            often, after the same work. With rounds as budget, those of every method.
        graphs: Allowed edges per method. Default: all pairs.
        n_jobs: Processes to play seeds in, each of them with its share of the CPU threads. Results are those of one
            process, bit for bit where the number of threads is the same (``num_threads`` of each; models without
            convolutions and of ordinary size take one). What callbacks keep of their own stays in their process.
        baseline: ``"constant"``: show and pair, as if it were a method, what each node's training targets say by
            themselves, their mean or class frequencies, on the same test samples. ``"sklearn"``: scikit-learn's linear
            models as well, one per node, one of all nodes' samples, and one of these with the node as input. They are
            fitted to training and validation samples, which must all be in one process. None of these have trials.
        on_trial: Called in this process after every trial with it, its result (None if it failed), its number and how
            many there are.
        progress: Show progress bars.
        settings: Passed to `run`. A ``checkpoint`` folder gets one folder per trial, so a comparison that was stopped
            goes on where it was.

    Raises:
        ValueError: If a grid names no method or has nothing to try, seeds are missing or double, or there are no test
            data to compare on or no validation data to choose on or for a method that needs them, inputs of tables
            differ between seeds and the model is no function of tasks, or the budget cannot be kept.
        TypeError: If a method does not take a setting of its grid.
        NonFiniteLossError: If all trials of all methods fail, the first error.
        InUseError: If another run is under way in a trial's folder; what is finished is in the others.
        OtherRunError: If a trial's folder is of another run.
        OSError, MemoryError, RuntimeError: If the machine fails; with a ``checkpoint`` the comparison, repeated, goes
            on where it was.
        KeyboardInterrupt: At Ctrl-C: after the round, or with several ``n_jobs`` at once.
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
        with own_filter("ignore", code="quality", subject="metric"):  # said of the first seed
            given = drawn if seed == seeds[0] else tasks_of(tasks, seed)
        require_baseline(given, methods, str(baseline))
        simple += baseline_trials(given, seed, str(baseline))
    if drawn.preparation is not None:  # tables are drawn soon, and their categories differ
        with own_filter("ignore", code="quality", subject="metric"):  # said of the first seed
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
                if type(error) not in failures:  # the next ones of its kind are shown in tables
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
    """Check the arguments of `compare`; return every method's settings."""
    require_methods("graphs", graphs, methods)
    if not methods:
        raise EmptyError("methods", "methods must name one method or more, such as {'l2c': methods.l2c}, got none")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InvalidValueError("seeds", f"seeds must be one or more, all different, such as range(5), got {seeds}")
    return points_of(methods, grids)  # what is wrong with a setting is found before tasks are drawn


def _choose(trials: list[Trial], points: list[dict[str, Any]], higher: bool) -> list[Trial]:
    """Return the trials, one per seed, with the setting that is best on validation data."""
    sign = 1 if higher else -1

    def score(point: Mapping[str, Any]) -> tuple[int, int, float]:
        """Return how good a setting is: few failures come first, then few nodes that were left behind."""
        judged = [t for t in trials if t.setting == point]
        known = [sign * t.validation for t in judged if not math.isnan(t.validation)]
        mean = sum(known) / len(known) if known else -math.inf
        return len(known) - len(judged), -sum(t.isolated for t in judged), mean

    best = max(points, key=score)
    return list({t.seed: t for t in trials if t.setting == best}.values())


def _warn_once(trials: Iterable[Trial]) -> None:
    """Warn of every kind of finding once for a method, and once for all methods of models that have diverged."""
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
