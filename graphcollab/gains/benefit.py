"""`benefit`: which sites gain by collaborating, by whom, and by how much."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

import torch
from torch import Tensor, nn
from tqdm import tqdm

from graphcollab.gains.arms import Runs, arm_of, averaging, learned_weights, nodes_of, runs_of
from graphcollab.gains.constant import constants
from graphcollab.gains.layout import LIMIT, Layout
from graphcollab.gains.outcome import CONSTANT, Benefit
from graphcollab.gains.resplit import limit_tests, resplit
from graphcollab.method import Method
from graphcollab.methods import meta_l2c
from graphcollab.metrics import as_metric
from graphcollab.phases import Phases
from graphcollab.settings import Count, Natural, Positive, Real, checked
from graphcollab.tasks import Tasks
from graphcollab.train.start import Model

__all__ = ["benefit"]

Make = Callable[..., Method | Phases]
Fitting = Callable[[Tasks], nn.Module]
Dealt = Annotated[Tasks | Callable[[int], Tasks], "Tasks, or a function from a seed to Tasks"]
Steps = Annotated[Sequence[Positive], "step sizes"]


@checked
def benefit(
    tasks: Dealt,
    model: Model | Fitting,
    *,
    methods: Mapping[str, Make] | None = None,
    repeats: Annotated[int, range(3, 1001)] = 10,
    rounds: Count = 30,
    epochs: Count = 1,
    batch_size: Count = 16,
    lrs: Steps = (0.01, 0.03, 0.1),
    evaluations: Count = 10,
    level: Annotated[float, Real(above=0, below=1)] = 0.05,
    limit: Annotated[int, range(2, 1001)] = LIMIT,
    seed: Natural = 0,
    progress: bool = False,
    **settings: Any,
) -> Benefit:
    """Find out which sites gain by collaborating, by whom, and by how much.

    On each of several random splits of all sites' samples, every site trains alone; all sites train one model together,
    by federated averaging; so do all but one, for each, and every two sites, for each pair; and every method runs among
    all sites. All of that takes the same local steps; alone, together, pairs and all but one are one run, side by side.
    Step sizes, and after how many rounds to stop, are chosen by the validation loss, on every split and for each of
    these ways by itself, local training as well; for amounts (``loss="mse"``), where no model does better than the mean
    of the targets, that is what counts. Test samples play no part in that. On each split a site's models are tested on
    at most half as many samples as they were trained on (`limit_tests`).

    What follows is judged by the differences to training alone on the same split, corrected for samples that splits
    share and for the many comparisons (`Benefit`). It is an experiment on one machine, which sees all data: do it with
    data that may be put together, or with a part of them.

    Args:
        tasks: Tasks, whose samples are dealt anew for every split (`resplit`); or a function from a seed to tasks, such
            as one that draws a split, and standardises by its training samples.
        model: See `run`; a function is initialised anew on every split. A function that takes an argument is given the
            split's tasks, for inputs whose number depends on them.
        methods: Methods to try beside averaging, by name: functions that take ``lr``, ``epochs`` and ``batch_size``.
            Default: ``{"meta_l2c": meta_l2c}``.
        repeats: R, splits.
        rounds: Rounds on every split.
        epochs: Passes over a site's samples a round.
        batch_size: Samples per step.
        lrs: Step sizes to choose from.
        evaluations: How often models are evaluated, and training may so be stopped.
        level: α, the chance with which any gain may be claimed where there is none.
        limit: Sites up to which all pairs, and all left-out sites, are tried; of more, as many are drawn.
        seed: Seed of splits, models and batches: split r has seed + r.
        progress: Show a progress bar.
        settings: Passed to `run`, such as ``device``.

    Raises:
        ValueError: If there are fewer than two sites, sites differ between splits, a site has no samples to choose or
            to test on, or a method does not take the settings above.

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
        _require_settings(name, make, {"lr", *work})
    deal = tasks if callable(tasks) else lambda number: resplit(tasks, number)
    dealt = [deal(seed + r) for r in range(repeats)]
    layout = _lay_out(dealt, limit, seed)
    dealt = [limit_tests(split, seed + r) for r, split in enumerate(dealt)]
    fitting = _fitting(model)
    if fitting is None:
        _require_alike(dealt)
    every = max(1, rounds // evaluations)
    settings = {"rounds": rounds, "evaluate_every": every, **settings}
    weights: dict[str, list[Tensor]] = {}
    findings: dict[str, list[str]] = {}
    everyone = layout.site[layout.alone]
    sites = {"alone": everyone, "together": everyone, **dict.fromkeys(methods, everyone)}
    sites |= {name: layout.site[nodes_of(layout, name)] for name in ("pairs", "without")}
    kept: list[dict[str, Tensor]] = []
    chosen: dict[str, list[str]] = {}
    bar = tqdm(total=repeats * len(lrs) * (1 + len(methods)), desc="benefit", unit="run", disable=not progress)
    for r, split in enumerate(dealt):
        with_seed = {**settings, "seed": seed + r}
        made = cast(Model, model) if fitting is None else partial(fitting, split)
        arms = averaging(split, layout, made, work, lrs, every, with_seed, bar)
        runs: dict[str, Runs] = {}
        for name, make in methods.items():
            runs[name] = runs_of(partial(_made, make, work), lrs, bar, split, made, **with_seed)
            arms[name] = arm_of(runs[name], "val_loss", "test_metric")
        kept.append({})
        flat = constants(split, as_metric(split.metric))
        for name, arm in arms.items():
            if flat is not None and name in sites:
                arm = replace(arm, constant=(flat[0][sites[name]], flat[1][sites[name]]))
            kept[-1][name], at = arm.choose()
            told = CONSTANT if at is None else f"lr={arm.lrs[at[0]]}, {min((at[1] + 1) * every, rounds)} rounds"
            chosen.setdefault(name, []).append(told)
            if name in runs:
                last = runs[name][0 if at is None else at[0]][1]
                findings.setdefault(name, []).append(", ".join(found.kind for found in last.history.findings))
                if last.method.last(last.data.round).exchange.along_edges:
                    weights.setdefault(name, []).append(learned_weights(last))
    bar.close()
    learned = {name: torch.stack(some) for name, some in weights.items()}
    judged = {"chosen": chosen, "findings": findings, "weights": learned, "level": level}
    return _benefit(dealt, layout, methods, kept, f"{rounds} rounds of {epochs} epochs", judged)


def _made(make: Make, work: Mapping[str, Any], lr: float) -> Method | Phases:
    return make(lr=lr, **work)


def _require_settings(name: str, make: Make, wanted: set[str]) -> None:
    known = inspect.signature(make).parameters
    lacking = sorted(wanted - known.keys())
    if lacking and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        raise ValueError(
            f"method {name!r} does not take {', '.join(lacking)}, by which benefit gives all methods the same work: "
            "give a function that does"
        )


def _fitting(model: Model | Fitting) -> Fitting | None:
    """Return what makes a model for tasks, if that is what was given."""
    if isinstance(model, nn.Module) or not callable(model) or not inspect.signature(model).parameters:
        return None
    return cast(Fitting, model)


def _require_alike(dealt: Sequence[Tasks]) -> None:
    """Check, before any work is lost, that one model can be trained on all splits."""
    shapes = {tasks.input_shape: r for r, tasks in enumerate(dealt)}
    if len(shapes) > 1:
        (one, r), (other, s) = list(shapes.items())[:2]
        raise ValueError(
            f"inputs have shape {one} on split {r} and {other} on split {s}, which one model cannot take: give a "
            "function that makes one for tasks, model=lambda tasks: ..."
        )


def _lay_out(dealt: Sequence[Tasks], limit: int, seed: int) -> Layout:
    first = dealt[0]
    if first.num_nodes < 2:
        raise ValueError(f"benefit asks who gains by whom, which takes two sites or more, got {first.num_nodes}")
    for tasks in dealt:
        if tasks.names != first.names:
            raise ValueError(f"every split must have the same sites, got {tasks.names[:5]} and {first.names[:5]}")
        tasks.require("val", "benefit chooses step sizes by")
        tasks.require("test", "benefit measures gains by")
    return Layout.of(first.num_nodes, limit, seed)


def _benefit(
    dealt: Sequence[Tasks],
    layout: Layout,
    methods: Mapping[str, Make],
    kept: Sequence[Mapping[str, Tensor]],
    work: str,
    told: Mapping[str, Any],
) -> Benefit:
    """Put what was kept of all splits together."""
    count, metric = dealt[0].num_nodes, as_metric(dealt[0].metric)

    def table(name: str, nodes: Tensor) -> Tensor:
        found = torch.full((len(kept), count, count), torch.nan, dtype=torch.float64)
        if bool((nodes >= 0).any()):
            found[:, nodes >= 0] = torch.stack([one[name] for one in kept])
        return found

    outside = torch.full((len(kept), count), torch.nan, dtype=torch.float64)
    left = layout.outside()[0]
    if len(left):
        outside[:, left] = torch.stack([one["outside"] for one in kept])
    train, test = (torch.stack([tasks.sizes(name) for tasks in dealt]).double().mean(0) for name in ("train", "test"))
    return Benefit(
        dealt[0].names,
        metric.name,
        metric.higher_is_better,
        scores={name: torch.stack([one[name] for one in kept]) for name in ("alone", "together", *methods)},
        pairs=table("pairs", layout.pairs),
        without=table("without", layout.without),
        outside=outside,
        train=train,
        test=test,
        work=f"{work} on each of {len(kept)} splits",
        tried=(int((layout.pairs >= 0).sum()) // 2, count * (count - 1) // 2),
        **told,
    )
