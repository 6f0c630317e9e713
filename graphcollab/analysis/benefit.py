"""`benefit`: estimate which sites gain by collaborating, with whom, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Any

import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import (
    ConflictError,
    EmptyError,
    InvalidTypeError,
    MismatchError,
    TooFewError,
)
from graphcollab._base.settings import Count, Natural, Positive, Real, checked
from graphcollab.analysis.arms import Make, Measured
from graphcollab.analysis.baseline import SKLEARN, Baseline, require_baseline
from graphcollab.analysis.experiment import Experiment, Played
from graphcollab.analysis.grids import Grids, points_of
from graphcollab.analysis.held import asked, groups_held, minority_held, rarer_held
from graphcollab.analysis.layout import LIMIT, Layout
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, refuse_metric
from graphcollab.analysis.outcome import Benefit
from graphcollab.analysis.processes import map_in_processes, progress_bar
from graphcollab.analysis.resplit import HALVES, halve_tests, resplit
from graphcollab.comm import is_main_process, raise_on_all
from graphcollab.data.losses import constant_of
from graphcollab.data.tasks import Tasks
from graphcollab.methods import meta_l2c
from graphcollab.train.settings import Computing
from graphcollab.train.start import Models, candidates, require_alike, tasks_of

REPEATS, ROUNDS = 10, 30
RESERVED = ("alone", "together", "pairs", "without", "outside", "constant", "all sites", *SKLEARN)
Dealt = Annotated[Tasks | Callable[[int], Tasks], "Tasks, or a function from a seed to Tasks"]
Steps = Annotated[Sequence[Positive], "a list of step sizes"]
Methods = Annotated[
    Mapping[str, Make],
    "functions that make methods, by name, such as {'fedavg': methods.fedavg}, not what they return "
    "(methods.fedavg()), and no list",
]


@checked
@raise_on_all()
def benefit(
    tasks: Dealt,
    model: Models,
    *,
    methods: Methods | None = None,
    grids: Grids | None = None,
    metrics: AnyMetrics = (),
    repeats: Annotated[int, range(3, 1001)] = REPEATS,
    rounds: Count = ROUNDS,
    epochs: Count = 3,
    batch_size: Count = 16,
    lrs: Steps = (0.01, 0.03, 0.1),
    evaluations: Count = 10,
    level: Annotated[float, Real(above=0, most=0.5)] = 0.05,
    limit: Annotated[int, range(2, 1001)] = LIMIT,
    seed: Natural = 0,
    n_jobs: Count = 1,
    baseline: Baseline = None,
    progress: bool = False,
    compute: Computing = "cpu",
) -> Benefit:
    """Estimate which sites gain by collaborating, with whom, and by how much.

    On each of several random splits of all sites' samples, `benefit` compares ways to train with equal local steps:
    every site alone; all sites together by federated averaging; all sites but one, for each site; every pair of sites;
    and every method among all sites. Models, learning rates and numbers of rounds are chosen by validation loss, never
    by test samples, separately for every split and every way to train, including local training. Each choice is made
    once for all sites, and all sites have the same weight in it. If no model does better, a constant takes its place:
    the mean of the targets, or, if only log loss and Brier score are used as metrics, the class frequencies.

    Gains are differences from training alone on the same split, corrected for samples that splits share and for
    multiple testing (`Benefit`). Data need not be pooled: each of several processes may hold the samples of some sites
    (`graphcollab.sites.tasks_of_site`); models and the reported results of each site then reach all processes.

    Args:
        tasks: Tasks, whose samples are split again for every repeat (`resplit`), with groups kept together; or a
            function from a seed to tasks, for example one that draws a split and standardizes by its training samples.
            A function is required if test samples were given explicitly and samples have no groups, or if some samples
            are in other processes.
        model: See `run`; a function is initialized anew on every split. A function with an argument receives the
            split's tasks, for models whose input size depends on them. Of several models by name, such as a linear one
            and one with a hidden layer, the best is chosen.
        methods: Methods to try in addition to averaging, by name: functions that accept ``lr``, ``epochs`` and
            ``batch_size``. Their other settings keep their defaults. Default: ``{"meta_l2c": meta_l2c}``.
        grids: Values to try for additional settings of every method, as in `compare`, such as
            ``{"partial_pooling": {"shrink": [0, 10]}}``. The best values are chosen.
        metrics: Metrics in addition to the tasks' own for evaluating the same models (names, ``Metric`` or functions).
            Each has its own `Benefit` in ``also``. With M metrics in all, each is tested at 1/M of the level.
        repeats: R, number of splits.
        rounds: Rounds on every split.
        epochs: Passes over a site's samples per round.
        batch_size: Samples per step.
        lrs: Learning rates to choose from.
        evaluations: Number of evaluations, at any of which early stopping may end training.
        level: α, the probability of claiming any gain if there is none; at most 0.5.
        limit: Maximum number of sites for which all pairs, and all groups without one site, are tried. With more sites,
            only as many pairs and groups are drawn as ``limit`` sites have.
        seed: Seed of splits, models and batches: split r uses seed + r.
        n_jobs: Number of processes that run splits, each with its share of the CPU threads. Results equal those of one
            process (see `compare`).
        baseline: ``"sklearn"``: also report scikit-learn's linear models on the same test rows: one per site, one on
            the pooled rows, and one on the pooled rows with the site as input. They are fitted to training and
            validation rows, and no claims are made about them. All samples must be in one process.
        progress: Show a progress bar.
        compute: A device, such as ``"cuda"``, or `graphcollab.train.Compute`, as in `run`.

    Raises:
        ValueError: If there are fewer than two sites, sites differ between splits, a site has no validation or test
            samples, a method does not accept the settings above, or test samples were given explicitly and samples
            have no groups.

    Example:
        >>> x = torch.randn(90, 2)
        >>> y = x.sum(1, keepdim=True)
        >>> tasks = Tasks.from_samples([(x[k::3], y[k::3]) for k in range(3)], loss="mse", metric="mse")
        >>> found = benefit(tasks, torch.nn.Linear(2, 1), methods={}, repeats=3, rounds=2, lrs=[0.1])
        >>> found.matrix.shape
        torch.Size([3, 3])
    """
    methods = {"meta_l2c": meta_l2c} if methods is None else dict(methods)
    work = {"epochs": epochs, "batch_size": batch_size}
    for name, make in methods.items():
        _require_settings(name, make, {"lr": lrs[0] if len(lrs) else 1.0, **work})
    if not len(lrs):
        raise EmptyError(
            "lrs", "lrs must list one step size or more to choose from, got none: leave it out for the usual"
        )
    grids = dict(grids or {})
    for name, grid in grids.items():
        if same := sorted(work.keys() & set(grid)):
            raise ConflictError("grids", f"{name}: benefit gives all methods the same {same[0]}: leave it out of grids")
    points = points_of(methods, {**grids, "*": {"lr": lrs, **grids.get("*", {})}}, **work)
    dealt = _deal(tasks, range(seed, seed + repeats))
    layout = _lay_out(dealt, limit, seed)
    if all(_same_rows(one, dealt[0]) for one in dealt):
        issue(
            "quality",
            "tasks",
            "the function of tasks makes the same split of every seed, so nothing is known of other splits: let it use "
            "the seed, lambda seed: Tasks.from_frame(..., seed=seed)",
        )
    _require_names(dealt[0].names, methods)
    for split in dealt if baseline is not None else ():
        require_baseline(split, methods, str(baseline))
    models = candidates(model)
    for one in models.values():
        require_alike(one, {f"split {r}": split for r, split in enumerate(dealt)})
    own = as_metrics(dealt[0].metric, None)
    further = as_metrics(metrics, None) if metrics else ()
    every = (*own, *(one for one in further if one.name != own[0].name))
    for metric in every:
        refuse_metric(metric, dealt[0])
    more_tests = any(bool((split.sizes("test") > split.sizes("train")).any()) for split in dealt)
    if more_tests:  # estimate the variance due to test samples
        dealt = [halve_tests(split, seed + r) for r, split in enumerate(dealt)]
    measured = Measured(every, ("test", *(HALVES if more_tests else ())))
    settings = {"rounds": rounds, "evaluate_every": max(1, rounds // evaluations), "compute": compute}
    experiment = Experiment(layout, models, methods, points, work, lrs, measured, settings, baseline)
    each = len(models) * (len(lrs) + sum(map(len, points.values())))
    with progress_bar(repeats * each, "run", progress and is_main_process()) as shown:
        played = list(_play(experiment, [(split, seed + r) for r, split in enumerate(dealt)], n_jobs, shown, each))
    told = f"{rounds} round{'s' * (rounds > 1)} of {epochs} epoch{'s' * (epochs > 1)} on each of {repeats} splits"
    found = [_benefit(dealt, experiment, played, told, level / len(every), m) for m in range(len(every))]
    usual = {"splits": (repeats, REPEATS), "rounds": (rounds, ROUNDS)}
    quick = " and ".join(f"{given} of the usual {many} {what}" for what, (given, many) in usual.items() if given < many)
    found = [replace(one, quick=quick) for one in found]
    return replace(found[0], also={one.metric: one for one in found[1:]})


def _deal(tasks: Dealt, seeds: Iterable[int]) -> list[Tasks]:
    if callable(tasks):
        return [tasks_of(tasks, seed) for seed in seeds]
    whole = all(tasks.pools[split.pool].group is not None for split in tasks.splits.values())
    if tasks.split_given and not whole:
        raise ConflictError(
            "tasks",
            "the tasks say which samples are for testing (split= or test=), and benefit would deal all anew: give a "
            "function, lambda seed: Tasks.from_frame(..., group='patient', seed=seed), or graphcollab.analysis.resplit",
        )
    if tasks.preparation is not None:
        issue(
            "quality",
            "tasks",
            "the tasks were prepared by training rows that benefit deals out anew, also for testing, so a little of "
            "what they are tested on is known: give a function, lambda seed: Tasks.from_frame(..., seed=seed)",
        )
    return [resplit(tasks, seed) for seed in seeds]


def _same_rows(one: Tasks, other: Tasks) -> bool:
    splits = one.splits["train"], other.splits["train"]
    pools = one.pools[splits[0].pool], other.pools[splits[1].pool]
    given, known = ((split.index, pool.inputs, pool.targets) for split, pool in zip(splits, pools, strict=True))
    return one is other or all(map(torch.equal, given, known))


def _play(
    experiment: Experiment, given: Sequence[tuple[Tasks, int]], n_jobs: int, shown: Any, each: int
) -> Iterator[Played]:
    if n_jobs == 1:
        yield from (experiment.play(one, shown.update) for one in given)
        return
    with closing(map_in_processes(experiment.play, given, n_jobs)) as playing:
        for one in playing:
            shown.update(each)
            yield one


def _require_settings(name: str, make: Make, wanted: Mapping[str, Any]) -> None:
    try:
        make(**wanted)
    except TypeError as error:
        raise InvalidTypeError(
            f"method {name!r}",
            f"method {name!r} must take {', '.join(wanted)}, by which all get the same work: {error}",
        ) from error


def _require_names(sites: Sequence[str], methods: Mapping[str, Make]) -> None:
    for name in methods:
        if name in RESERVED:
            raise ConflictError(
                f"method {name!r}",
                f"a method cannot be called {name!r}, as what it is compared with: give it another name",
            )
    for name in (*RESERVED, *methods):
        if name in sites:
            raise ConflictError(
                f"site {name!r}", f"a site is called {name!r}, as something else in the answer: give it another name"
            )


def _lay_out(dealt: Sequence[Tasks], limit: int, seed: int) -> Layout:
    first = dealt[0]
    if first.num_nodes < 2:
        raise TooFewError(
            "tasks", f"benefit asks who gains by whom, which takes two sites or more, got {first.num_nodes}"
        )
    for tasks in dealt:
        if tasks.names != first.names:
            raise MismatchError(
                "tasks", f"every split must have the same sites, got {tasks.names[:5]} and {first.names[:5]}"
            )
        tasks.require("val", "benefit chooses step sizes by")
        tasks.require("test", "benefit measures gains by")
    return Layout.of(first.num_nodes, limit, seed)


def _mean(counts: Sequence[Tensor | None]) -> Tensor | None:
    known = [one for one in counts if one is not None]
    return torch.stack(known).mean(0) if len(known) == len(counts) else None


def _deviations(dealt: Sequence[Tasks]) -> tuple[str, list[float]] | None:
    """Return the name of a target standardized by one deviation for all sites, and its deviation on every split."""
    told = [tasks.preparation for tasks in dealt if tasks.preparation is not None and not tasks.preparation.sites]
    known = [one.target for one in told if one.target.categories is None]
    if len(known) < len(dealt) or all(aim.deviation == (1.0,) for aim in known):
        return None
    return known[0].name, [aim.deviation[0] for aim in known]


def _benefit(
    dealt: Sequence[Tasks], experiment: Experiment, played: Sequence[Played], work: str, level: float, m: int
) -> Benefit:
    """Combine the results of all splits for the m-th metric."""
    count, layout, metric = dealt[0].num_nodes, experiment.layout, experiment.measured.metrics[m]
    aim, power = _deviations(dealt), METRICS[metric.name].unit if metric.name in METRICS else 0
    units = torch.tensor([1.0] * len(played) if aim is None else aim[1], dtype=torch.float64) ** power  # [R]

    def table(name: str, nodes: Tensor) -> Tensor:
        """Return an arm's scores at the positions given by ``nodes``, [R, H, ...]."""
        found = torch.full((len(played), len(experiment.measured.splits), *nodes.shape), torch.nan, dtype=torch.float64)
        if name in played[0].scores and bool((nodes >= 0).any()):
            own = torch.stack([one.scores[name][m] for one in played]).double()
            found[..., nodes >= 0] = own * units[:, None, None]
        return found

    left = torch.full((count,), -1)
    left[layout.outside()[0]] = 0
    arms = {name: table(name, layout.alone) for name in ("alone", "together", *experiment.methods)}
    arms |= {"pairs": table("pairs", layout.pairs), "without": table("without", layout.without)}
    arms |= {"outside": table("outside", left), "constant": table("constant", layout.alone)}
    train, test = (torch.stack([tasks.sizes(name) for tasks in dealt]).double().mean(0) for name in ("train", "test"))
    arms |= {name: table(name, layout.alone) for name in SKLEARN if name in played[0].scores}
    whole = {name: scores[:, 0] for name, scores in arms.items()}
    return Benefit(
        dealt[0].names,
        metric.name,
        metric.higher_is_better,
        pairs=whole.pop("pairs"),
        without=whole.pop("without"),
        outside=whole.pop("outside"),
        constant=whole.pop("constant"),
        flat=constant_of(dealt[0].loss) if "constant" in played[0].scores else "",
        baseline={name: whole.pop(name) for name in SKLEARN if name in whole},
        scores=whole,
        halves={name: scores[:, 1:] for name, scores in arms.items()} if len(experiment.measured.splits) > 1 else {},
        train=train,
        test=test,
        rarer=_mean([rarer_held(tasks) for tasks in dealt]),
        minority=torch.stack([minority_held(tasks) for tasks in dealt]).amin(0),
        deviation=None if aim is None else (aim[0], sum(aim[1]) / len(aim[1])),
        weighted=dealt[0].pools[dealt[0].splits["test"].pool].weight is not None,
        groups=_mean([groups_held(tasks) for tasks in dealt]),
        picked={name: [one.picked[name] for one in played] for name in played[0].picked},
        findings={name: [one.findings[name] for one in played] for name in played[0].findings},
        weights={name: torch.stack([one.weights[name] for one in played]) for name in played[0].weights},
        work=work,
        tried=(int((layout.pairs >= 0).sum()) // 2, count * (count - 1) // 2),
        level=level,
        about=asked(dealt),
    )
