"""Inspection of models: the importance of inputs, and coefficients of linear models in the units of the table."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Annotated, Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import lexsort

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import UnknownError, UnsupportedError
from graphcollab._base.findings import Finding
from graphcollab._base.keyed import keyed_uniform
from graphcollab._base.settings import Count
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics.as_metric import AnyMetric
from graphcollab.analysis.metrics.scores import as_metrics, score_rows
from graphcollab.analysis.trial import SHARES
from graphcollab.data.losses import predicted_by
from graphcollab.data.samples import Split
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Rows
from graphcollab.engine.modules import copy_module
from graphcollab.report._terms import noted, weighted
from graphcollab.report.values import Cell, Table, mean_cell, number_cell, shown, shown_in
from graphcollab.train import Result
from graphcollab.train.run import run

_SHUFFLE_STREAM, _RESAMPLE_STREAM = 181, 182
PROBES, FAR = 100, 1e3  # rows per site for testing linearity, and the factor by which their distance is extended
LEVEL = 0.95  # confidence level of intervals


@shown
def importance_table(
    comparison: Comparison, method: str | None = None, metric: AnyMetric | None = None, repeats: Count = 10
) -> Table:
    """Return the deterioration of the test metric of a method's models when a column of the table is shuffled.

    Values are shuffled among the test rows of each site (permutation importance); models are those of the last seed.
    Redundant columns substitute for each other. A column that matters to a model need not be a cause.

    Args:
        metric: The metric that deteriorates. Default: the tasks' own metric.
        repeats: Number of shuffles of each column.

    Returns:
        A table to ``print``, with the most important columns first.
    """
    name, result = chosen_result(comparison, method)
    tasks, engine, rows = result.tasks, result.env.engine, Rows.own(result.stacks)
    split, judged = tasks.splits["test"], as_metrics(metric, tasks.metric)[0]
    pool, sign = tasks.pools[split.pool], 1 if judged.higher_is_better else -1
    owner = split.owner
    keys = tasks.ids[owner], torch.arange(len(owner)) - split.ptr[owner]
    drawn = [keyed_uniform(result.env.seed, _SHUFFLE_STREAM, *keys, r) for r in range(repeats)]
    base, own = score_rows(engine, rows, "test", judged)[1], pool.inputs[split.index]

    def worse(inputs: slice, order: Tensor) -> Tensor:
        moved = pool.inputs.clone()
        moved[split.index, inputs] = pool.inputs[split.index[order], inputs]
        shuffled = replace(tasks, pools={**tasks.pools, split.pool: replace(pool, inputs=moved)})
        return sign * (base - score_rows(engine.on(shuffled), rows, "test", judged)[1])

    def alike(inputs: slice) -> Tensor:
        """Return a mask of the sites whose test rows all have the same value, [K]."""
        varied = (own[:, inputs] != own[split.ptr[owner], inputs]).any(1)
        return torch.bincount(owner[varied], minlength=tasks.num_nodes) == 0

    scale, digits, _ = shown_in(judged.name in SHARES, 1)
    orders = [lexsort([one, owner]) for one in drawn]
    found = {column: scale * torch.stack([worse(inputs, one) for one in orders]) for column, inputs in inputs_of(tasks)}
    same = {column: alike(inputs) for column, inputs in inputs_of(tasks)}
    found = dict(sorted(found.items(), key=lambda item: -float(item[1].nanmean())))
    digits = _decimals(torch.cat([*found.values()]), 3) if digits is None else digits
    columns, notes = _site_columns(tasks, "test", 6)
    known = {column: of.masked_fill(same[column], torch.nan)[:, [*columns]] for column, of in found.items()}
    means = {one: [of.nanmean(1), *known[one].T] for one, of in found.items()}
    body = [[Cell(one), *(mean_cell(values, digits) for values in of)] for one, of in means.items()]
    said = (
        f"by how much the test {judged.name} of {name} gets worse{', in points,' * (scale > 1)} where a column is "
        f"shuffled among the rows of each site, on seed {result.env.seed}; ± is the standard deviation over {repeats} "
        "shuffles, and says nothing of other rows or models; columns that say the same stand in for each other"
    )
    heads = ["column", "mean over sites", *columns.values()]
    none = "–: all test rows of the site have the same value, or the metric is not defined there"
    unknown = noted("alike", "columns", none * any(bool(of.isnan().any()) for of in known.values()))
    notes = [Finding("importance", name, said), *unknown, *weighted(tasks), *notes]
    return Table(heads, body, notes, caption=f"What the models of {name} rely on")


@shown
def coefficient_table(
    comparison: Comparison, method: str | None = None, resamples: Annotated[int, range(2, 10_000)] = 50
) -> Table:
    """Return the coefficients of a method's linear models, per site and on average, with 95 % intervals.

    A coefficient is the change in the log odds of the second class, or in the real target, per unit of a numeric
    column, or from the first category to another. Intervals are t-intervals with the standard deviation over refits:
    the method is run again, for as many rounds as made these models, from other initial models, on training and
    validation rows drawn with replacement within each site (whole groups, if there are groups). They cover the
    variation over other rows of these sites with the same settings, and belong to fits that are shrunk by early
    stopping.

    Args:
        resamples: Number of reruns of the method.

    Returns:
        A table to ``print``, with a single column if all sites have the same model.

    Raises:
        ValueError: If models are not linear, or have more than two classes or several real targets.
    """
    from scipy.stats import t  # imported here because it is slow

    name, result = chosen_result(comparison, method)
    tasks, linear = result.tasks, linear_parts(result)
    if linear is None or len(result.modules) > 1:
        raise UnsupportedError("method", f"the models of {name} are not linear in their inputs")
    if linear.size(1) > 1 + (tasks.loss == "cross_entropy"):
        raise UnsupportedError("method", f"coefficients are of two classes or one amount, not of {linear.size(1)}")
    with own_filter("ignore"):  # findings of runs were reported for the first
        again = [linear_parts(_run_again(result, b)) for b in range(resamples)]
    outputs = torch.stack([linear, *(cast(Tensor, one) for one in again)])  # [1 + B, K, C, 1 + D]
    names, values = _in_units(tasks, outputs[:, :, -1] - (outputs[:, :, 0] if linear.size(1) == 2 else 0))
    alike = torch.allclose(values, values[:, :1], rtol=1e-4)  # [1 + B, K, F]
    columns, notes = ({}, []) if alike else _site_columns(tasks, "train", 4)
    values = torch.cat([values.mean(1, keepdim=True), values[:, [*columns]]], 1)
    half = float(t.ppf((1 + LEVEL) / 2, resamples - 1)) * values[1:].std(0)  # [1 + k, F]
    rows = []
    for row, middle, wide in zip(names, values[0].T, half.T, strict=True):
        ends = torch.stack([middle, middle - wide, middle + wide], 1).tolist()
        ends = ends[:1] if torch.allclose(middle, middle[:1], rtol=1e-4) else ends  # one number if sites are equal
        digits = _decimals(wide, 2)
        rows.append([Cell(row), *(number_cell(mean, digits, (low, high)) for mean, low, high in ends)])
    said = (
        f"by how much {_output(tasks)} changes with a unit of a column, or from one category to another, in the models "
        f"of {name} on seed {result.env.seed}; in brackets {100 * LEVEL:g} % intervals by {resamples} runs on rows "
        "drawn anew: of fits stopped as early as these, with settings as they are, at these sites"
    )
    said += "; – where all sites have the same" * (bool(columns) and any(len(row) == 2 for row in rows))
    heads = ["column", "all sites alike" if alike else "mean over sites"]
    notes = [Finding("coefficients", name, said), *notes]
    return Table([*heads, *columns.values()], rows, notes, caption=f"Coefficients of {name}")


def chosen_result(comparison: Comparison, method: str | None = None) -> tuple[str, Result]:
    """Return a method, by default the one with the best validation metric, and its result, whose inputs are columns."""
    results, sign = comparison.results, 1 if comparison.higher_is_better else -1
    means = {name: sign * fmean(trial.validation for trial in comparison.chosen[name]) for name in results}
    known = {name: -math.inf if math.isnan(mean) else mean for name, mean in means.items()}
    name = max(known, key=known.__getitem__, default="") if method is None else method
    if name not in results:
        raise UnknownError("method", f"there is no result of {name!r}, only of {sorted(results)}")
    tasks = results[name].tasks
    tasks.require_here(torch.arange(tasks.num_nodes), ": look into models where all samples are")
    if len(tasks.input_shape) != 1:
        raise UnsupportedError("comparison", f"inputs are {list(tasks.input_shape)}, and no columns to look into")
    return name, results[name]


def inputs_of(tasks: Tasks) -> list[tuple[str, slice]]:
    """Return the columns of the table with their inputs; without a table, every input is a column."""
    if tasks.preparation is None:
        return [(f"input {d}", slice(d, d + 1)) for d in range(tasks.input_shape[0])]
    ends = accumulate((len(column.features) for column in tasks.preparation.columns), initial=0)
    return [(one.name, slice(*ends)) for one, ends in zip(tasks.preparation.columns, pairwise(ends), strict=True)]


def _site_columns(tasks: Tasks, split: str, most: int) -> tuple[dict[int, str], list[Finding]]:
    """Return the names of sites that have a column, the largest if there are many, with a note."""
    many = tasks.num_nodes
    kept = sorted(tasks.sizes(split).argsort(descending=True, stable=True)[:most].tolist())
    said = f"of {many} sites those {most} with the most {split} rows have a column" * (many > most)
    return {k: tasks.names[k] for k in kept}, noted("sites", "columns", said)


def _decimals(values: Tensor, significant: int) -> int:
    """Return the number of decimals at which the largest of the values has at least so many significant digits."""
    largest = float(values.nan_to_num(0, 0, 0).abs().max())
    return max(significant - 1 - math.floor(math.log10(largest)), 0) if largest else 1


def linear_parts(result: Result) -> Tensor | None:
    """Return intercepts and slopes of every node's model, [K, C, 1 + D] float64; None if a model is not linear."""
    tasks, found = result.tasks, []
    split, pool = tasks.splits["train"], tasks.pools[tasks.splits["train"].pool]
    if not pool.inputs.is_floating_point():
        return None
    steps = FAR * torch.eye(pool.inputs.size(1))
    for node, name in enumerate(tasks.names):
        near = pool.inputs[split.of(node)[:PROBES]].cpu().float()
        inputs = torch.cat([torch.zeros_like(steps[:1]), steps, near, -FAR * near])
        outputs = result.outputs(name, inputs).cpu().double().reshape(len(inputs), -1)
        slopes = (outputs[1 : 1 + len(steps)] - outputs[0]) / FAR
        if not torch.allclose(outputs, outputs[0] + inputs.double() @ slopes, 1e-4, 1e-4 * float(outputs.abs().max())):
            return None
        found.append(torch.cat([outputs[:1], slopes]).T)
    return torch.stack(found)


def resampled(tasks: Tasks, seed: int, number: int) -> Tasks:
    """Return tasks with training and validation rows drawn with replacement, or whole groups, within each node."""
    splits = dict(tasks.splits)
    for name in {"train", "val"} & splits.keys():
        split, group, parts = splits[name], tasks.pools[splits[name].pool].group, []
        for node, key in enumerate(tasks.ids.tolist()):
            own = split.of(node)
            unit = torch.arange(len(own)) if group is None else group[own].unique(return_inverse=True)[1]
            many = len(unit.unique())
            drawn = (keyed_uniform(seed, _RESAMPLE_STREAM, key, number, torch.arange(many)) * many).long()
            parts.append(own.repeat_interleave(drawn.bincount(minlength=many)[unit]))
        splits[name] = Split.from_lists(split.pool, parts)
    return replace(tasks, splits=splits)


def _run_again(result: Result, number: int) -> Result:
    """Run a method on other rows, from other initial models: weights that hardly move are still uncertain."""
    tasks, history = resampled(result.tasks, result.env.seed, number), result.history
    allowed = result.data.get("allowed")
    graph = None if allowed is None else Data(edge_index=allowed.edge_index, num_nodes=tasks.num_nodes)
    rounds = history.rounds[history.returned]
    how: dict[str, Any] = {"seed": result.env.seed + 1 + number, "compute": tasks.device}

    def model() -> nn.Module:
        made = copy_module(result.modules[0])
        for layer in made.modules():
            getattr(layer, "reset_parameters", lambda: None)()
        return made

    return run(result.method, tasks, model, graph, rounds=rounds, evaluate_every=rounds, **how)


def _in_units(tasks: Tasks, weights: Tensor) -> tuple[list[str], Tensor]:
    """Return coefficient names and values [..., K, F] in units of the table, given weights [..., K, 1 + D]."""
    intercept, slopes, told = weights[..., :1], weights[..., 1:], tasks.preparation
    if told is None:
        return [*(name for name, _ in inputs_of(tasks)), "intercept"], torch.cat([slopes, intercept], -1)
    place, names, parts = told.places(tasks.names), [], []

    def of_sites(values: tuple[float, ...]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)[place, None]  # [K, 1]

    if told.target.categories is None:
        intercept = intercept * of_sites(told.target.deviation) + of_sites(told.target.mean)
        slopes = slopes * of_sites(told.target.deviation)
    for column, (name, inputs) in zip(told.columns, inputs_of(tasks), strict=True):
        first, others = slopes[..., inputs][..., :1], slopes[..., inputs][..., 1:]
        if column.categories is None:
            first = torch.where(of_sites(column.deviation) > 0, first / of_sites(column.deviation), 0.0)
            intercept = intercept - first * of_sites(column.mean)
            names += [name, *[f"{name} missing, not its mean"] * column.indicator]
            parts += [first, others]
        else:
            intercept = intercept + first
            names += [f"{one}, not {column.categories[0]}" for one in column.features[1:]]
            parts.append(others - first)
    return [*names, "intercept"], torch.cat([*parts, intercept], -1)


def _output(tasks: Tasks) -> str:
    told = tasks.preparation
    if predicted_by(tasks.loss) == "classes":
        return "the log odds of " + ("the second class" if told is None else f"{told.target.name} = {told.classes[1]}")
    return "the output" if told is None or tasks.loss != "mse" else told.target.name
