"""The table at the end of a comparison (Table 3 of L2C)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab.report._text import MISSING, byte_size, failed_on, number, text_table
from graphcollab.settings import checked
from graphcollab.train import Comparison

__all__ = ["results_table"]


@checked
def results_table(
    comparison: Comparison | Mapping[str, Mapping[str, Any]],
    metric: str = "accuracy",
    percent: bool = True,
    settings: bool = True,
    markdown: bool = False,
    reference: str | None = None,
) -> str:
    """Return mean test metric, worst 10 %, worst 20 % and spread over nodes, bytes and seconds of every method.

    Methods that failed on a seed are shown as failed, and have no means. Where the metric of some nodes is not defined,
    "nodes" says over how many the means are (the least on any seed). Where nodes were left behind since they diverged,
    "isolated" says how many (the most on any seed); they count with their last good model.

    Args:
        comparison: What `compare` returns, which knows its metric; or rows as ``comparison.rows()`` returns them.
        metric: Name of the metric, where rows are given.
        percent: Whether values are shares to be shown in percent, where rows are given.
        settings: Whether to add the chosen settings, if there was anything to choose. Settings that were chosen on only
            some of the seeds are separated by "or".
        markdown: Write the table in Markdown.
        reference: Name of a method, such as ``"local"``. Adds the mean test loss, and the share of nodes whose test
            metric is better than with the reference on the same seed ("Imp. (%)" in Table 2 of `CoBo
            <https://arxiv.org/abs/2409.05539>`_), mean over seeds. Needs what `compare` returns.

    Raises:
        ValueError: If there is no method of the reference's name, or rows are given and a reference.

    Example:
        >>> row = {"mean": 0.9, "mean_std_over_seeds": 0.012, "worst10": 0.7, "worst20": 0.75, "std": 0.1,
        ...        "bytes_per_node": 1_234_567, "seconds": 2.5, "settings": [{"lr": 0.01}, {"lr": 0.01}]}
        >>> print(results_table({"l2c": row}))
        method  mean test accuracy (%)  worst 10 %  worst 20 %  std over nodes  sent per node  seconds  setting
        ------  ----------------------  ----------  ----------  --------------  -------------  -------  -------
        l2c               90.00 ± 1.20       70.00       75.00           10.00         1.2 MB      2.5  lr=0.01
    """
    rows: Mapping[str, Mapping[str, Any]] = comparison.rows() if isinstance(comparison, Comparison) else comparison
    if isinstance(comparison, Comparison):
        metric, percent = comparison.metric, comparison.share
    unit, scale, digits = (" (%)", 100.0, 2) if percent else ("", 1.0, None)
    header = [f"mean test {metric}{unit}", "worst 10 %", "worst 20 %", "std over nodes", "sent per node", "seconds"]
    lines = []
    for name, row in rows.items():
        mean, spread, *others = (
            number(scale * row[key], digits) for key in ("mean", "mean_std_over_seeds", "worst10", "worst20", "std")
        )
        failed = failed_on(row.get("failed", 0), len(row["settings"]))
        shown = failed or (mean if spread == MISSING else f"{mean} ± {spread}")
        sent = MISSING if math.isnan(row["bytes_per_node"]) else byte_size(row["bytes_per_node"])
        lines.append([name, shown, *others, sent, number(row["seconds"], 1)])
    if any(row.get("nodes", 0) < row.get("of_nodes", 0) for row in rows.values()):
        header.insert(1, "nodes")
        for line, row in zip(lines, rows.values(), strict=True):
            known = row.get("nodes", math.nan)
            line.insert(2, MISSING if math.isnan(known) else f"{known} of {row['of_nodes']}")
    if any(row.get("isolated", 0) for row in rows.values()):
        header.insert(1, "isolated")
        for line, row in zip(lines, rows.values(), strict=True):
            line.insert(2, str(row.get("isolated", 0)))
    if reference is not None:
        if not isinstance(comparison, Comparison):
            raise ValueError("a reference needs what compare returns, got rows, which do not hold how each node did")
        header[1:1] = ["test loss", "improved (%)"]
        lines = [[*line[:2], *_beside(comparison, line[0], reference), *line[2:]] for line in lines]
    if settings and any(any(row["settings"]) for row in rows.values()):
        header.append("setting")
        lines = [[*line, _setting(row["settings"])] for line, row in zip(lines, rows.values(), strict=True)]
    return text_table(["method", *header], lines, markdown)


def _beside(comparison: Comparison, name: str, reference: str) -> list[str]:
    """Return a method's test loss and its share of improved nodes, means over seeds."""
    losses, gains = [trial.test_loss for trial in comparison.chosen[name]], comparison.improved(name, reference)
    share = MISSING if name == reference else number(100 * sum(gains) / len(gains), 1)
    return [number(sum(losses) / len(losses), None), share]


def _setting(chosen: Sequence[Mapping[str, Any]]) -> str:
    texts = [", ".join(f"{key}={value}" for key, value in setting.items()) for setting in chosen]
    return " or ".join(dict.fromkeys(text or MISSING for text in texts))
