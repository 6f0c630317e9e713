"""How much methods send, and how good they are for as much (Table 4 of MAPL)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from graphcollab.report._text import MISSING, byte_size, failures, mean_spread, number, text_table
from graphcollab.settings import NonNegative, checked
from graphcollab.train import Comparison, Trial

__all__ = ["budget_table"]

UNITS = ("messages", "bytes")


@checked
def budget_table(
    comparison: Comparison,
    budget: NonNegative | None = None,
    unit: Literal["messages", "bytes"] = "messages",
    markdown: bool = False,
) -> str:
    """Return how many messages and bytes nodes sent, and how good models were when a budget was spent.

    It is Table 4 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_. A message is one
    edge used in one round, however much travels along it (see ``messages_sent`` in `graphcollab.train.History`); "of
    all pairs" is their share of the K (K - 1) messages in every round that all pairs of K nodes would send. What is
    only measured, and not merged, is no message, so methods that try many models (`fomo`, `pens`, `fc`) look cheaper
    here than by their bytes. Bytes are of all nodes together. All values are means over seeds.

    The last two columns are the mean test metric at the last evaluation before which no more than the budget was sent,
    and its round. Nothing is interpolated, so evaluate every round where it matters. A method that spends less than the
    budget is shown at its last evaluation; where more than the budget was sent before the first, or on some of the
    seeds, there is none.

    Args:
        comparison: What `compare` returns, or `Comparison.from_results` of what `run` returns.
        budget: Messages or bytes of all nodes together. Default: there is no budget, and its columns are left out.
        unit: ``"messages"`` or ``"bytes"``.
        markdown: Write the table in Markdown.

    Raises:
        ValueError: If the budget is negative, the unit is neither of the two, or trials do not hold what was sent.

    Example:
        >>> from graphcollab.train import Trial
        >>> kept = dict(per_node=(0.5, 0.75), sent=(50, 100), messages=(2, 3))
        >>> trial = Trial("mapl", 0, {}, 0, {"mean": 0.625}, ([1, 2], [0.5, 0.625]), **kept)
        >>> print(budget_table(Comparison([], {"mapl": [trial]}, True), budget=2))
        method  mean test accuracy (%)  messages  of all pairs (%)   sent  within 2 messages (%)  in round
        ------  ----------------------  --------  ----------------  -----  ---------------------  --------
        mapl                     62.50         3              75.0  200 B                  50.00         1
    """
    scale, percent, digits = (100.0, " (%)", 2) if comparison.share else (1.0, "", 4)
    header = [f"mean test {comparison.metric}{percent}", "messages", "of all pairs (%)", "sent"]
    if budget is not None:
        limit = f"{budget:,.0f} messages" if unit == "messages" else byte_size(budget)
        header += [f"within {limit}{percent}", "in round"]
    rows = []
    for name, trials in comparison.chosen.items():
        if failed := failures(comparison, name):
            rows.append([name, failed, *[MISSING] * (len(header) - 1)])
            continue
        final = scale * _column([trial.summary["mean"] for trial in trials])
        messages, sent = (_column([_last(trial, what) for trial in trials]) for what in UNITS)
        share = 100 * messages / _column([_all_pairs(trial) for trial in trials])
        size = float(sent.mean())
        cells = [mean_spread(final, digits), _count(messages), number(float(share.mean()), 1)]
        cells.append(MISSING if math.isnan(size) else byte_size(size))
        if budget is not None:
            found = [trial.within(budget, unit) or (math.nan, math.nan) for trial in trials]
            rounds, values = (_column(list(column)) for column in zip(*found, strict=True))
            cells += [mean_spread(scale * values, digits), _count(rounds)]
        rows.append([name, *cells])
    return text_table(["method", *header], rows, markdown)


def _column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _last(trial: Trial, unit: str) -> float:
    """Return what had been sent at the last evaluation, NaN where it was not kept."""
    sent = trial.total(unit)
    return sent[-1] if sent else math.nan


def _all_pairs(trial: Trial) -> float:
    """Return how many messages all pairs of nodes would have sent, NaN for a single node."""
    nodes, rounds = len(trial.per_node), trial.curve[0]
    return nodes * (nodes - 1) * rounds[-1] or math.nan


def _count(values: Tensor) -> str:
    """Write the mean of whole numbers, with one decimal where it is not whole."""
    mean = float(values.mean())
    return MISSING if math.isnan(mean) else f"{mean:,.{0 if mean == round(mean) else 1}f}"
