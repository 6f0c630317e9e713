"""Tables of finetune_languages.py: perplexity by language, and whom the parties of a language listen to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import paired_difference
from graphcollab.report.values import text_table


def by_language(trial: Any, cluster: Tensor) -> list[float]:
    """Return the mean over a language's parties of a trial's test perplexity, language by language."""
    per_node = torch.tensor(trial.per_node, dtype=torch.float64)
    return [float(per_node[cluster == c].mean()) for c in cluster.unique()]


def language_table(found: Comparison, cluster: Tensor, names: Sequence[str], reference: str = "local") -> str:
    """Return the mean test perplexity of every method and language, and how it differs from a reference's.

    Intervals (95 %) are of paired differences over seeds. Every seed draws other texts, few of many, so nothing is
    corrected for texts that seeds share.
    """
    values = {
        method: torch.tensor([by_language(trial, cluster) for trial in trials], dtype=torch.float64)  # [seeds, C]
        for method, trials in found.chosen.items()
        if not found.failed(method)
    }
    rows = []
    for method, table in values.items():
        cells = [method]
        for c in range(len(names)):
            text = f"{float(table[:, c].mean()):.1f}"
            if method != reference and reference in values:
                told = paired_difference(table[:, c], values[reference][:, c])
                text += f" ({told.mean:+.1f}" + (f": {told.low:+.1f} to {told.high:+.1f})" if told.n > 1 else ")")
            cells.append(text)
        rows.append(cells)
    return text_table(["perplexity", *names], rows)


def listening(graph: tuple[Tensor, Tensor], cluster: Tensor) -> Tensor:
    """Return what a party of one language gives all other parties of a language together, mean, [C, C] receiver first.

    Args:
        graph: Edges j -> i, [2, E], and weights, [E].
        cluster: Every party's language, [K].
    """
    (sender, receiver), weight = graph
    count = int(cluster.max()) + 1
    other = sender != receiver
    total = torch.zeros(count, count, dtype=torch.float64)
    total.index_put_((cluster[receiver[other]], cluster[sender[other]]), weight[other].double(), accumulate=True)
    return total / torch.bincount(cluster, minlength=count)[:, None]


def listening_table(graphs: Sequence[tuple[Tensor, Tensor]], cluster: Tensor, names: Sequence[str]) -> str:
    """Return whom the parties of a language listen to, receivers in rows: mean and standard deviation over seeds."""
    every = torch.stack([listening(graph, cluster) for graph in graphs])  # [seeds, C, C]

    def cell(values: Tensor) -> str:
        spread = f" ± {float(values.std()):.2f}" if len(values) > 1 else ""
        return f"{float(values.mean()):.2f}{spread}"

    rows = [
        [f"{name} listens to", *(cell(every[:, receiver, sender]) for sender in range(len(names)))]
        for receiver, name in enumerate(names)
    ]
    return text_table(["", *names], rows)
