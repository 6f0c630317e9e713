"""Comparisons as text: how good methods are, and how they differ.

Tables are aligned for a terminal, or written in Markdown. A method that failed on a seed is shown as such, and has no
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from graphcollab.errors import TooFewError, UnknownError
from graphcollab.findings import Finding
from graphcollab.metrics.statistics import worst_shown
from graphcollab.naming import few
from graphcollab.report._past_best import better_at_the_end_only
from graphcollab.report._terms import unequal_terms
from graphcollab.report._text import (
    MISSING,
    agreement,
    column,
    failures,
    few_tested,
    noted,
    shown,
    shown_in,
    spread_note,
    table_text,
    weighted,
)
from graphcollab.report.values import Cell, Column, Table, mean_cell
from graphcollab.settings import Real
from graphcollab.train import Comparison
from graphcollab.train.shared_samples import Over
from graphcollab.train.summaries import in_deviations
from graphcollab.train.trial import METRIC_COLUMNS

__all__ = ["FEW_SEEDS", "paired_table", "paired_values", "results_table", "results_values"]

FEW_SEEDS = {
    1: "with one seed there is no interval: take five seeds or more",
    2: "with two seeds interval and p-value mean next to nothing: take five seeds or more",
}


@shown
def results_table(
    comparison: Comparison,
    settings: bool = True,
    markdown: bool = False,
    reference: str | None = None,
    percent: bool | None = None,
) -> str:
    """Return mean test metric, worst 10 %, worst 20 % and spread over nodes, bytes and seconds of every method.

    It is Table 3 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_, and more. The worst 10 % are shown from 20 nodes on, the worst
    20 % from 10 on, where each are two nodes at least; of fewer nodes, `site_table` shows every one. Where the metric
    of some nodes is not defined, "nodes" says over how many the means are (by seed, "2 to 3"). Where nodes were
    left behind since they diverged, "isolated" says how many (the most on any seed); they count with their last good
    model. Where something was found wrong with a run, such as learned weights that are all the own model's, "found"
    says what and on how many seeds. "local steps" are those that a node has taken in its rounds, mean over nodes, and
    "models", where some method has more than one, how many models each node trained by them. Where nodes have the same
    samples on all seeds, a line below says whether the weights that a method learned agree between seeds. Another one
    names nodes that count in means with fewer than five test samples. Others, as below every table of a comparison's
    methods, say where these were not compared on the same terms: local steps that differ by more than half a round of
    each (on the first seed, whose tasks `compare` makes work equal on), other models, more settings to choose from.

    Args:
        settings: Whether to add the chosen settings, if there was anything to choose. Settings that were chosen on only
            some of the seeds are separated by "or".
        reference: Name of a method, such as ``"local"``. Adds the mean test loss, and the share of nodes whose test
            metric is better than with the reference on the same seed ("Imp. (%)" in Table 2 of `CoBo
            <https://arxiv.org/abs/2409.05539>`_), mean over seeds.

    Example:
        >>> from graphcollab.train import Trial
        >>> summary = dict(mean=0.9, worst10=0.7, worst20=0.75, std=0.1, bytes_per_node=1_234_567, seconds=2.5)
        >>> trials = [Trial("l2c", seed, {"lr": 0.01}, 0.9, summary) for seed in (0, 1)]
        >>> print(results_table(Comparison(trials, {"l2c": trials}, True)))
        method  mean test accuracy (%)  worst 10 %  worst 20 %  std over nodes  sent per node  seconds  setting
        ------  ----------------------  ----------  ----------  --------------  -------------  -------  -------
        l2c               90.00 ± 0.00       70.00       75.00           10.00         1.2 MB      2.5  lr=0.01
        <BLANKLINE>
        ± is the standard deviation over 2 seeds
    """
    return table_text(results_values(comparison, settings, reference, percent), markdown)


def results_values(
    comparison: Comparison, settings: bool = True, reference: str | None = None, percent: bool | None = None
) -> Table:
    """Return the table of `results_table`."""
    rows = comparison.rows()
    scale, digits, unit = shown_in(comparison.share if percent is None else percent, 2)
    isolated, found = (any(row[key] for row in rows.values()) for key in ("isolated", "findings"))
    spent, beside = (any(row[key] > n for row in rows.values()) for key, n in (("local_steps", 0), ("models", 1)))
    partly = any(row["nodes"] < row["of_nodes"] for row in rows.values())
    chosen = settings and any(any(row["settings"]) for row in rows.values())
    columns = [Column("method"), Column(f"mean test {comparison.metric}{unit}", "number", digits)]
    if reference is not None:
        columns += [Column("test loss", "number"), Column("improved (%)", "number", 1)]
    columns += (
        [Column("isolated", "count")] * isolated + [Column("found")] * found + [Column("nodes", "count")] * partly
    )
    shares = worst_shown(*_fewest_nodes(rows))
    columns += [Column(f"worst {share} %", "number", digits) for share in shares]
    columns.append(Column("std over nodes", "number", digits))
    columns += [Column("rounds", "count"), Column("local steps", "count")] * spent
    columns += [Column("models", "number", 0)] * beside + [
        Column("sent per node", "bytes"),
        Column("seconds", "number", 1),
    ]
    columns += [Column("setting")] * chosen
    lines = []
    for name, row in rows.items():
        failed = failures(comparison, name)
        line = [Cell(name), Cell(failed) if failed else mean_cell(scale * column(comparison.values(name)))]
        if reference is not None:
            losses, better = [t.test_loss for t in comparison.chosen[name]], comparison.improved(name, reference)
            share = None if name == reference else 100 * sum(better) / len(better)
            line += [Cell(sum(losses) / len(losses)), Cell(share)]
        line += [Cell(row["isolated"])] * isolated
        line += [Cell(_on_seeds(row["findings"], len(row["per_seed"])) or MISSING)] * found
        line += [_nodes(row)] * partly
        line += [Cell(scale * row[key]) for key in (*(f"worst{share}" for share in shares), "std")]
        line += [Cell(row["rounds"]), Cell(row["local_steps"])] * spent + [Cell(row["models"])] * beside
        line += [Cell(row["bytes_per_node"]), Cell(row["seconds"])]
        if chosen:
            texts = [", ".join(f"{key}={value}" for key, value in setting.items()) for setting in row["settings"]]
            line.append(Cell(" or ".join(dict.fromkeys(text or MISSING for text in texts))))
        lines.append(line)
    return Table(columns, lines, _notes_of_results(comparison, reference))


def _fewest_nodes(rows: Mapping[str, Any]) -> tuple[float, float]:
    """Return over how many nodes means are at least, and of how many."""
    known = [(row["nodes"], row["of_nodes"]) for row in rows.values() if row["nodes"] == row["nodes"]]
    return min(known, default=(math.nan, math.nan))


def _nodes(row: Mapping[str, Any]) -> Cell:
    """Return over how many nodes means are, by seed."""
    most = max((one.get("nodes", math.nan) for one in row["per_seed"]), default=math.nan)
    upto = f"to {most} " if most > row["nodes"] else ""
    return Cell() if math.isnan(row["nodes"]) else Cell(row["nodes"], unit=f"{upto}of {row['of_nodes']}")


def _notes_of_results(comparison: Comparison, reference: str | None) -> list[Finding]:
    alike = {name: comparison.agreement(name) for name in comparison.chosen}
    improved = f"improved (%): the share of nodes that do better than with {reference}"
    sums = "sent per node: also sums of columns by which sites prepared the table, before the first round"
    prepared = any(trial.prepared for trials in comparison.chosen.values() for trial in trials)
    less = f"of {comparison.metric} less is better" * (not comparison.higher_is_better)
    return [
        *spread_note(comparison),
        *unequal_terms(comparison),
        *noted("less-is-better", comparison.metric, less),
        *noted("improved", "column 'improved (%)'", improved * (reference is not None)),
        *noted("prepared", "column 'sent per node'", sums * prepared),
        *_of_tasks(comparison),
        *few_tested(comparison),
        *(
            Finding("weights", name, f"On different seeds the weights that {name} learned {agreement(a)}.", {"r": a})
            for name, a in alike.items()
            if a == a
        ),
    ]


@shown
def paired_table(
    comparison: Comparison,
    reference: str = "local",
    column: str = "mean",
    confidence: Annotated[float, Real(above=0, below=1)] = 0.95,
    markdown: bool = False,
    over: Over = None,
) -> str:
    """Return the mean paired difference of every method to a reference, with its confidence interval.

    Lines below the table say whether intervals are corrected for samples that seeds share, that fewer than three seeds
    are no evidence, that a difference that is the same on all seeds has no interval, which nodes count in the mean with
    fewer than five test samples, and where methods did other work, had other models or had more settings to choose from
    (see `results_table`): a difference may come of that alone. Where one of the two failed on a seed, or has no value
    there, that is said instead: there is no difference then.

    Args:
        column: ``"mean"``, ``"worst10"``, ``"worst20"`` or another column of the comparison.
        confidence: Level of the interval.
        over: What intervals are of, ``"samples"`` or ``"seeds"``; see `Comparison.paired`.

    Example:
        >>> from graphcollab.train import Trial
        >>> values = {"local": (0.5, 0.6, 0.7), "l2c": (0.53, 0.65, 0.71)}
        >>> chosen = {m: [Trial(m, s, {}, 0, {"mean": v}) for s, v in enumerate(vs)] for m, vs in values.items()}
        >>> print(paired_table(Comparison([], chosen, True)))
        minus local, points   mean  95 % interval  p-value  better on
        -------------------  -----  -------------  -------  ---------
        l2c                  +3.00  −1.97 … +7.97     0.12     3 of 3
    """
    return table_text(paired_values(comparison, reference, column, confidence, over), markdown)


def paired_values(
    comparison: Comparison, reference: str, column: str = "mean", confidence: float = 0.95, over: Over = None
) -> Table:
    """Return the table of `paired_table`."""
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
    rows, alike, told = [], [], []
    for name in others:
        if why := _no_difference(comparison, name, reference, column):
            rows.append([Cell(name), Cell(why)])
            continue
        found = comparison.paired(name, reference, column, confidence, over)
        pairs = zip(comparison.values(name, column), comparison.values(reference, column), strict=True)
        better = sum(sign * (one - other) > 0 for one, other in pairs)
        ends = (max(found.low, -1), min(found.high, 1)) if points else (found.low, found.high)
        known = not math.isnan(found.low)
        if known:
            told.append(name)
        elif found.p_value == found.p_value:
            alike.append(name)
        interval = Cell(interval=(scale * ends[0], scale * ends[1])) if known else Cell()
        p_value = Cell(found.p_value if known else None)
        rows.append([Cell(name), Cell(scale * found.mean), interval, p_value, Cell(better, unit=f"of {found.n}")])
    columns = [
        Column(f"minus {reference}{', points' * points}"),
        Column(column, "signed", digits),
        Column(f"{100 * confidence:.4g} % interval", "signed", digits),
        Column("p-value", "p-value"),
        Column("better on", "count"),
    ]
    seeds = len(comparison.chosen[reference])
    of = comparison.metric if column in METRIC_COLUMNS[:3] else column
    less = f"of {of} less is better, so − is an improvement on {reference}" * (sign < 0)
    same = f"no interval for {few(alike)}: the same difference on all seeds says nothing of how differences vary"
    notes = [
        *noted("less-is-better", of, less),
        *unequal_terms(comparison),
        *(better_at_the_end_only(comparison, reference, told, 1 - confidence, over) if column == "mean" else ()),
        *_of_tasks(comparison),
        *noted("no-interval", "seeds", same * bool(alike), methods=alike),
        *noted("correction", "over", comparison.correction(over)[1]),
        *noted("few-seeds", "seeds", FEW_SEEDS.get(seeds, ""), seeds=seeds),
        *few_tested(comparison),
    ]
    return Table(columns, rows, notes)


def _no_difference(comparison: Comparison, name: str, reference: str, column: str) -> str:
    """Say why there is no difference of two methods; nothing where there is one."""
    if missing := [f"{one}: {why}" for one in (name, reference) if (why := failures(comparison, one))]:
        return "; ".join(missing).removeprefix(f"{name}: ")
    without = comparison.undefined(name, reference, column)
    return f"not defined on {without} of {len(comparison.chosen[name])} seeds" if without else ""


def _of_tasks(comparison: Comparison) -> list[Finding]:
    """Say in what units errors are, and whether samples have weights."""
    tasks = next((one.tasks for one in comparison.results.values()), None)
    if tasks is None:
        return []
    return [*noted("units", comparison.metric, in_deviations(tasks, [comparison.metric])), *weighted(tasks)]


def _on_seeds(found: Mapping[str, int], many: int) -> str:
    """Write what was found, by kind, and on how many seeds where it is not all."""
    return ", ".join(kind if count == many else f"{kind} ({count} of {many})" for kind, count in found.items())
