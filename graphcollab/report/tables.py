"""Comparisons as text and JSON: the quality of methods and their differences, without numbers of failed methods."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
import torch_geometric

from graphcollab._base.errors import TooFewError, UnknownError
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few
from graphcollab._base.settings import Real
from graphcollab._base.version import __version__
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics.statistics import worst_shown
from graphcollab.analysis.shared_samples import Over
from graphcollab.analysis.trial import METRIC_COLUMNS
from graphcollab.persistence.history import in_deviations
from graphcollab.report._terms import FEW, agreement, better_at_the_end_only, failures, noted, unequal_terms, weighted
from graphcollab.report.values import (
    MISSING,
    Cell,
    Table,
    byte_size,
    count_cell,
    mean_cell,
    number,
    number_cell,
    p_text,
    shown,
    shown_in,
)

IN_PERCENT = (*METRIC_COLUMNS, "validation", "mean_std_over_seeds")
METHODS = "Every method, in the mean over sites"
CellOf: TypeAlias = Callable[[str, Mapping[str, Any]], Cell]
FEW_SEEDS = {
    1: "with one seed there is no interval: take five seeds or more",
    2: "with two seeds interval and p-value mean next to nothing: take five seeds or more",
}


@shown
def results_table(comparison: Comparison, settings: bool = True, reference: str | None = None) -> Table:
    """Return mean test metric, worst 10 %, worst 20 % and spread over sites, bytes and seconds of every method.

    It extends Table 3 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR
    2022) <https://doi.org/10.1109/CVPR52688.2022.00954>`_. The worst 10 % are shown from 20 nodes on, the worst 20 %
    from 10 on. Empty columns are omitted: "sites" is the number of sites in the means if the metric of some is
    undefined, "isolated" the number that diverged and were isolated (the maximum over seeds), "found" lists problems
    with runs, and "models" is the number of models that each site trained.

    Args:
        settings: Whether to add the chosen settings, if any; those of different seeds are separated by "or".
        reference: Name of a method, such as ``"local"``. Adds the mean test loss, and the share of sites that do better
            than with the reference on the same seed ("Imp. (%)" in Table 2 of `CoBo
            <https://arxiv.org/abs/2409.05539>`_), mean over seeds.

    Example:
        >>> from graphcollab.analysis.trial import Trial
        >>> summary = dict(mean=0.9, worst10=0.7, worst20=0.75, std=0.1, bytes_per_node=1_234_567, seconds=2.5)
        >>> trials = [Trial("l2c", seed, {"lr": 0.01}, 0.9, summary) for seed in (0, 1)]
        >>> print(results_table(Comparison(trials, {"l2c": trials}, True)))
        method  mean test accuracy (%)  worst 10 %  worst 20 %  std over sites  sent per site  seconds  setting
        ------  ----------------------  ----------  ----------  --------------  -------------  -------  -------
        l2c               90.00 ± 0.00       70.00       75.00           10.00         1.2 MB      2.5  lr=0.01
        <BLANKLINE>
        ± is the standard deviation over 2 seeds
    """
    columns = [*_columns(comparison, settings, reference)]
    rows = [[cell(name, row) for _, cell in columns] for name, row in comparison.rows().items()]
    return Table([title for title, _ in columns], rows, _notes_of_results(comparison, reference), caption=METHODS)


def _columns(comparison: Comparison, settings: bool, reference: str | None) -> Iterator[tuple[str, CellOf]]:
    """Yield titles, each with a function from a method's name and its row in `Comparison.rows` to a cell."""
    rows = [*comparison.rows().values()]
    scale, digits, unit = shown_in(comparison.share, 2)

    def number(key: str, digits: int | None, scale: float = 1.0) -> CellOf:
        return lambda _, row: number_cell(scale * row[key], digits)

    def count(key: str) -> CellOf:
        return lambda _, row: count_cell(row[key])

    def mean(name: str, _: Mapping[str, Any]) -> Cell:
        failed = failures(comparison, name)
        return Cell(failed) if failed else mean_cell([scale * value for value in comparison.values(name)], digits)

    yield "method", lambda name, _: Cell(name)
    yield f"mean test {comparison.metric}{unit}", mean
    if reference is not None:
        yield "test loss", lambda name, _: number_cell(fmean(t.test_loss for t in comparison.chosen[name]))
        yield "improved (%)", lambda name, _: _improved(comparison, name, reference)
    if any(row["isolated"] for row in rows):
        yield "isolated", count("isolated")
    if any(row["findings"] for row in rows):
        yield "found", lambda _, row: Cell(_on_seeds(row["findings"], len(row["per_seed"])) or MISSING)
    if any(row["nodes"] < row["of_nodes"] for row in rows):
        yield "sites", lambda _, row: _nodes(row)
    known = [(row["nodes"], row["of_nodes"]) for row in rows if row["nodes"] == row["nodes"]]
    for share in worst_shown(*min(known, default=(math.nan, math.nan))):
        yield f"worst {share} %", number(f"worst{share}", digits, scale)
    yield "std over sites", number("std", digits, scale)
    if any(row["local_steps"] > 0 for row in rows):
        yield "rounds", count("rounds")
        yield "local steps", count("local_steps")
    if any(row["models"] > 1 for row in rows):
        yield "models", number("models", 0)
    yield "sent per site", lambda _, row: Cell(byte_size(row["bytes_per_node"]), row["bytes_per_node"])
    yield "seconds", number("seconds", 1)
    if settings and any(any(row["settings"]) for row in rows):
        yield "setting", lambda _, row: _setting(row)


def _improved(comparison: Comparison, name: str, reference: str) -> Cell:
    better = comparison.improved(name, reference)
    return Cell() if name == reference else number_cell(100 * sum(better) / len(better), 1)


def _nodes(row: Mapping[str, Any]) -> Cell:
    most = max((one.get("nodes", math.nan) for one in row["per_seed"]), default=math.nan)
    upto = f"to {most} " if most > row["nodes"] else ""
    return Cell() if math.isnan(row["nodes"]) else count_cell(row["nodes"], f"{upto}of {row['of_nodes']}")


def _setting(row: Mapping[str, Any]) -> Cell:
    texts = [", ".join(f"{key}={value}" for key, value in setting.items()) for setting in row["settings"]]
    return Cell(" or ".join(dict.fromkeys(text or MISSING for text in texts)))


def _on_seeds(found: Mapping[str, int], many: int) -> str:
    return ", ".join(kind if count == many else f"{kind} ({count} of {many})" for kind, count in found.items())


def _notes_of_results(comparison: Comparison, reference: str | None) -> list[Finding]:
    alike = {name: comparison.agreement(name) for name in comparison.chosen}
    seeds = max(map(len, comparison.chosen.values()), default=0)
    improved = f"improved (%): the share of sites that do better than with {reference}"
    sums = "sent per site: also sums of columns by which sites prepared the table, before the first round"
    prepared = any(trial.prepared for trials in comparison.chosen.values() for trial in trials)
    less = f"of {comparison.metric} less is better" * (not comparison.higher_is_better)
    return [
        *noted("spread", "±", f"± is the standard deviation over {seeds} seeds" * (seeds > 1), seeds=seeds),
        *unequal_terms(comparison),
        *noted("less-is-better", comparison.metric, less),
        *noted("improved", "column 'improved (%)'", improved * (reference is not None)),
        *noted("prepared", "column 'sent per site'", sums * prepared),
        *_of_tasks(comparison),
        *_few_tested(comparison),
        *(agreement(name, r, "seeds") for name, r in alike.items() if r == r),
    ]


def _few_tested(comparison: Comparison) -> list[Finding]:
    """Report sites with very few test samples that are included in means."""
    few_of = comparison.tested_on_fewer_than(FEW)
    if not few_of:
        return []
    many = len({name for trials in comparison.chosen.values() for trial in trials for name in trial.tested})
    which = f"{len(few_of)} of {many} sites ({few(few_of)})"
    have = f"{'has' if len(few_of) == 1 else 'have'} fewer than {FEW} test samples on some seed"
    said = f"{which} {have}, and as much weight in means as any other"
    return noted("few-tested", "nodes", said, few=[*few_of], nodes=many)


@shown
def paired_table(
    comparison: Comparison,
    reference: str = "local",
    column: str = "mean",
    confidence: Annotated[float, Real(above=0, below=1)] = 0.95,
    over: Over = None,
) -> Table:
    """Return the mean paired difference of every method to a reference, with its confidence interval.

    If a method or the reference failed or has no value on a seed, the cell says so.

    Args:
        column: ``"mean"``, ``"worst10"``, ``"worst20"`` or another column of the comparison.
        confidence: Confidence level of the interval.
        over: The variation that intervals cover, over ``"samples"`` or ``"seeds"``; see `Comparison.paired`.

    Example:
        >>> from graphcollab.analysis.trial import Trial
        >>> values = {"local": (0.5, 0.6, 0.7), "l2c": (0.53, 0.65, 0.71)}
        >>> chosen = {m: [Trial(m, s, {}, 0, {"mean": v}) for s, v in enumerate(vs)] for m, vs in values.items()}
        >>> print(paired_table(Comparison([], chosen, True)))
        minus local, points   mean  95 % interval  p-value  better on
        -------------------  -----  -------------  -------  ---------
        l2c                  +3.00  −1.97 … +7.97     0.12     3 of 3
    """
    if reference not in comparison.chosen:
        raise UnknownError(
            "reference", f"there is no method {reference!r} to compare with; there are {sorted(comparison.chosen)}"
        )
    others = [name for name in comparison.chosen if name != reference]
    if not others:
        raise TooFewError("reference", f"there is only {reference!r}: a difference needs another method")
    points = comparison.share and column in METRIC_COLUMNS  # shares are shown in percentage points
    scale, digits, _ = shown_in(points, 2)
    sign = 1 if comparison.better(column) else -1
    rows, alike, judged = [], [], []
    for name in others:
        if why := _no_difference(comparison, name, reference, column):
            rows.append([Cell(name), Cell(why)])
            continue
        found = comparison.paired(name, reference, column, confidence, over)
        pairs = zip(comparison.values(name, column), comparison.values(reference, column), strict=True)
        better = count_cell(sum(sign * (one - other) > 0 for one, other in pairs), f"of {found.n}")
        ends = (max(found.low, -1), min(found.high, 1)) if points else (found.low, found.high)
        low, high = (number(scale * end, digits, signed=True) for end in ends)
        interval = Cell(f"{low} … {high}", interval=(scale * ends[0], scale * ends[1]))
        p_value = Cell(p_text(found.p_value).removeprefix("p ").removeprefix("= ").replace("< ", "<"), found.p_value)
        if math.isnan(found.low):
            interval, p_value = Cell(), Cell()
            alike += [name] * (found.p_value == found.p_value)
        else:
            judged.append(name)
        rows.append([Cell(name), number_cell(scale * found.mean, digits, signed=True), interval, p_value, better])
    columns = [f"minus {reference}{', points' * points}", column, f"{100 * confidence:.4g} % interval"]
    columns += ["p-value", "better on"]
    seeds = len(comparison.chosen[reference])
    of = comparison.metric if column in METRIC_COLUMNS[:3] else column
    less = f"of {of} less is better, so − is an improvement on {reference}" * (sign < 0)
    same = f"no interval for {few(alike)}: the same difference on all seeds says nothing of how differences vary"
    notes = [
        *noted("less-is-better", of, less),
        *unequal_terms(comparison),
        *(better_at_the_end_only(comparison, reference, judged, 1 - confidence, over) if column == "mean" else ()),
        *_of_tasks(comparison),
        *noted("no-interval", "seeds", same * bool(alike), methods=alike),
        *noted("correction", "over", comparison.correction(over)[1]),
        *noted("few-seeds", "seeds", FEW_SEEDS.get(seeds, ""), seeds=seeds),
        *_few_tested(comparison),
    ]
    return Table(columns, rows, notes, caption=f"Differences to {reference}, paired over seeds")


def _no_difference(comparison: Comparison, name: str, reference: str, column: str) -> str:
    if missing := [f"{one}: {why}" for one in (name, reference) if (why := failures(comparison, one))]:
        return "; ".join(missing).removeprefix(f"{name}: ")
    without = comparison.undefined(name, reference, column)
    return f"not defined on {without} of {len(comparison.chosen[name])} seeds" if without else ""


def _of_tasks(comparison: Comparison) -> list[Finding]:
    tasks = next((one.tasks for one in comparison.results.values()), None)
    if tasks is None:
        return []
    return [*noted("units", comparison.metric, in_deviations(tasks, [comparison.metric])), *weighted(tasks)]


@shown
def results_json(comparison: Comparison, reference: str | None = None, **more: Any) -> str:
    """Return a comparison as JSON text; undefined numbers are null.

    ``methods`` has the columns of `Comparison.rows` for every method, means over seeds, and in ``per_seed`` those of
    each seed, with the ``failure`` of those that failed. The other entries are the chosen ``settings``, in ``paired``
    the differences to the reference with 95 % intervals (none if a mean is undefined), and the ``versions``. Shares are
    in percent.

    Args:
        more: Additional entries, such as a script's arguments.
    """
    scale = 100.0 if comparison.share else 1.0

    def entry(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: scale * v if key in IN_PERCENT else v for key, v in values.items()}

    rows = comparison.rows()
    settings = {name: row.pop("settings") for name, row in rows.items()}
    methods = {n: {**entry(row), "per_seed": [entry(seed) for seed in row["per_seed"]]} for n, row in rows.items()}
    paired: dict[str, Any] = {}
    for name in comparison.chosen:
        if reference is None or name == reference:
            continue
        paired[name] = {}
        for of in ("mean", "worst10"):
            if not comparison.undefined(name, reference, of):
                found = comparison.paired(name, reference, of)
                numbers = {key: scale * getattr(found, key) for key in ("mean", "low", "high", "std")}
                numbers |= {"n": found.n, "p_value": found.p_value, "ratio": found.ratio}
                paired[name][of] = {**numbers, "reference": reference}
    content = {"methods": methods, "settings": settings, "paired": paired, "metric": comparison.metric}
    text = json.dumps({**content, "versions": versions(), **more}, default=str)
    plain = json.loads(text, parse_constant=lambda constant: None)  # JSON supports neither NaN nor infinity
    return json.dumps(plain, indent=2) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of software that affects the numbers."""
    found = {"python": platform.python_version(), "graphcollab": __version__, "torch": torch.__version__}
    return found | {"torch-geometric": torch_geometric.__version__, "numpy": np.__version__}
