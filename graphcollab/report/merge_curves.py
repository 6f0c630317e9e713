"""Does merging help? (Fig. 4.3 and 4.6 of *With a Little Help from My Friends*)."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.report._panels import legend_right, panels_over_rounds
from graphcollab.report._style import COLOURS, TEXT
from graphcollab.settings import checked
from graphcollab.train import History
from graphcollab.train.comparison import SHARES

__all__ = ["merge_curves"]


@checked
def merge_curves(
    history: History,
    cluster: Tensor | None = None,
    percent: bool | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the validation metric before and after merging over rounds, cluster by cluster.

    It is the lower part of Fig. 4.3 to 4.5, and Fig. 4.6, of *With a Little Help from My Friends: A Comparative Study
    of Decentralized Deep Learning Strategies* (Hagander & Ihre-Thomason, Lund University, 2024). Means over nodes; what
    lies between the curves is shaded where merging made models worse. A vertical line is where `HealthCheck` found that
    a cluster, or some of its nodes, die. The scale is logarithmic for metrics other than shares that are positive and
    span more than two powers of ten.

    Args:
        history: Of a run that watched merging (``callbacks=[WatchMerging()]``).
        cluster: The true cluster of each node, a panel each. Default: one panel for all nodes.
        percent: Whether values are shares to be shown in percent. Default: as the metric's name says.
        title: Title of the whole figure.

    Shapes:
        cluster: [K].

    Raises:
        ValueError: If merging was not watched, or ``cluster`` is not for K nodes.

    Example:
        >>> history = History(("a", "b"))
        >>> both = {"val_metric_before": torch.tensor([0.5, 0.7]), "val_metric_after": torch.tensor([0.6, 0.8])}
        >>> history.add(1, 0.0, both)
        >>> [[round(float(y)) for y in line.get_ydata()] for line in merge_curves(history).axes[0].lines]
        [[60], [70]]
    """
    if not {"val_metric_before", "val_metric_after"} <= history.values.keys():
        raise ValueError("the run did not watch merging: give it callbacks=[WatchMerging()]")
    cluster = torch.zeros(len(history.names)) if cluster is None else cluster.cpu()
    if cluster.shape != (len(history.names),):
        raise ValueError(f"cluster must be [K] for K = {len(history.names)} nodes, got {list(cluster.shape)}")
    percent = history.metric in SHARES if percent is None else percent
    scale = 100 if percent else 1
    clusters = cluster.unique().tolist()
    names = [f"cluster {one:g}" for one in clusters] if len(clusters) > 1 else ["all nodes"]
    label = f"validation {history.metric}{' (%)' if percent else ''}"
    figure, panels = panels_over_rounds(names, label, title)
    # [T, K]
    tables = [scale * history.table(f"val_metric_{when}") for when in ("before", "after")]
    known = torch.cat(tables)[~torch.cat(tables).isnan()]
    if not percent and len(known) and 0 < 100 * float(known.min()) < float(known.max()):
        panels[0].set_yscale("log")  # the panels share it
        for panel in panels:
            panel.minorticks_off()
    rounds = history.rounds[len(history.rounds) - len(tables[0]) :]
    for panel, one in zip(panels, clusters, strict=True):
        before, after = (table[:, cluster == one].nanmean(1).numpy() for table in tables)
        panel.plot(rounds, before, color=COLOURS[1], linestyle="--", linewidth=1.3, label="before merging")
        panel.plot(rounds, after, color=COLOURS[0], linewidth=1.6, label="after merging")
        worse = after < before if history.higher_is_better else after > before
        panel.fill_between(
            rounds, before, after, where=worse, color=COLOURS[1], alpha=0.2, linewidth=0, label="merging hurts"
        )
        for finding in history.findings:
            if finding.kind == "cluster death" and bool((cluster[list(finding.nodes)] == one).any()):
                panel.axvline(finding.round, color=TEXT, linestyle=":", linewidth=1, label="cluster death")
    legend_right(figure, panels)
    return figure
