"""Comparisons as text: how soon methods are good, and what it costs."""

from __future__ import annotations

import math
from typing import Literal

from graphcollab.report._terms import unequal_terms
from graphcollab.report._text import byte_size, column, failures, number, shown, shown_in, spread_note, table_text
from graphcollab.report.values import Cell, Column, Table, mean_cell
from graphcollab.settings import NonNegative
from graphcollab.train import Comparison


@shown
def time_to_table(comparison: Comparison, target: float) -> str:
    """Return rounds, seconds and bytes until the mean test metric was first as good as a target, for every method.

    Values are means over the seeds on which the target was reached; the last column says how many those are. Nothing is
    interpolated: the first evaluation counts at which the target is reached.

    Args:
        target: Value of the metric; a share must lie between 0 and 1.

    Example:
        >>> from graphcollab.train import Trial
        >>> values = {"local": [0.4, 0.5], "cobo": [0.6, 0.7]}
        >>> kept = {"seconds": (1.5, 3.0), "sent": (1000, 2000)}
        >>> chosen = {m: [Trial(m, 0, {}, 0, {}, ([10, 20], v), **kept)] for m, v in values.items()}
        >>> print(time_to_table(Comparison([], chosen, True), 0.6))
        mean test accuracy 60 %       rounds  seconds  sent per node  reached on
        -----------------------  -----------  -------  -------------  ----------
        local                    not reached        –              –      0 of 1
        cobo                              10      1.5         1.0 kB      1 of 1
    """
    rows = []
    for name in comparison.chosen:
        found = comparison.reached(name, target)
        ends = [end for end in found if end is not None]
        cells = [Cell(failures(comparison, name) or "not reached"), Cell(), Cell()]
        if ends:
            cells = [*map(Cell, column(ends).mean(0).tolist())]
        rows.append([Cell(name), *cells, Cell(len(ends), unit=f"of {len(found)}")])
    goal = f"{100 * target:.4g} %" if comparison.share else number(target, None)
    columns = [
        Column(f"mean test {comparison.metric} {goal}"),
        Column("rounds", "count"),
        Column("seconds", "number", 1),
        Column("sent per node", "bytes"),
        Column("reached on", "count"),
    ]
    return table_text(Table(columns, rows, unequal_terms(comparison)))


@shown
def budget_table(
    comparison: Comparison,
    budget: NonNegative | None = None,
    unit: Literal["messages", "bytes"] = "messages",
) -> str:
    """Return how many messages and bytes nodes sent, and how good models were when a budget was spent.

    It is Table 4 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_. A message is one
    edge used in one round, however much travels along it (see ``messages_sent`` in `graphcollab.train.History`), or one
    by which a node's table was prepared before the first round; "of all pairs" is the share that those of the rounds
    are of the K (K - 1) messages in every round that all pairs of K nodes would send. What is
    only measured, and not merged, is no message, so methods that try many models (`fomo`, `pens`, `fc`) look cheaper
    here than by their bytes. Bytes are of all nodes together. All values are means over seeds.

    The last two columns are the mean test metric at the last evaluation before which no more than the budget was sent,
    and its round. Nothing is interpolated, so evaluate every round where it matters. A method that spends less than the
    budget is shown at its last evaluation; where more than the budget was sent before the first, or on some of the
    seeds, there is none.

    Args:
        comparison: What `compare` returns, or `Comparison.from_results` of what `run` returns.
        budget: Messages or bytes of all nodes together. Default: there is no budget, and its columns are left out.
        unit: ``"messages"`` or ``"bytes"``; a ValueError where trials do not hold what was sent.

    Example:
        >>> from graphcollab.train import Trial
        >>> kept = dict(per_node=(0.5, 0.75), sent=(50, 100), messages=(2, 3))
        >>> trial = Trial("mapl", 0, {}, 0, {"mean": 0.625}, ([1, 2], [0.5, 0.625]), **kept)
        >>> print(budget_table(Comparison([], {"mapl": [trial]}, True), budget=2))
        method  mean test accuracy (%)  messages  of all pairs (%)   sent  within 2 messages (%)  in round
        ------  ----------------------  --------  ----------------  -----  ---------------------  --------
        mapl                     62.50         3              75.0  200 B                  50.00         1
    """
    scale, digits, percent = shown_in(comparison.share, 2)
    digits = digits or 4
    columns = [
        Column("method"),
        Column(f"mean test {comparison.metric}{percent}", "number", digits),
        Column("messages", "count"),
        Column("of all pairs (%)", "number", 1),
        Column("sent", "bytes"),
    ]
    if budget is not None:
        limit = f"{budget:,.0f} messages" if unit == "messages" else byte_size(budget)
        columns += [Column(f"within {limit}{percent}", "number", digits), Column("in round", "count")]
    rows = []
    for name, trials in comparison.chosen.items():
        if failed := failures(comparison, name):
            rows.append([Cell(name), Cell(failed)])
            continue
        messages, sent = (column([[math.nan, *t.total(u)][-1] for t in trials]) for u in ("messages", "bytes"))
        pairs = column([len(t.per_node) * (len(t.per_node) - 1) * t.curve[0][-1] or math.nan for t in trials])
        share = (100 * (messages - column([t.prepared for t in trials])) / pairs).mean()
        final = mean_cell(scale * column(comparison.values(name)))
        cells = [Cell(name), final, *(Cell(float(one)) for one in (messages.mean(), share, sent.mean()))]
        if budget is not None:
            found = column([trial.within(budget, unit) or (math.nan, math.nan) for trial in trials])  # [S, 2]
            cells += [mean_cell(scale * found[:, 1]), Cell(float(found[:, 0].mean()))]
        rows.append(cells)
    return table_text(Table(columns, rows, [*spread_note(comparison), *unequal_terms(comparison)]))
