"""All figures of a comparison, mixing weights by shared classes, and writing figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from graphcollab.files import write_whole
from graphcollab.metrics import weight_by_overlap
from graphcollab.metrics.edges import Graph
from graphcollab.report._figure import COLOURS, new_figure, quiet, tidy
from graphcollab.report._text import failures
from graphcollab.report.curves import accuracy_curves
from graphcollab.report.heatmaps import weight_heatmaps
from graphcollab.settings import checked
from graphcollab.train import Comparison

__all__ = ["comparison_figures", "save_figure", "weight_by_overlap_figure"]

# What would make two files of the same picture differ.
_DATES = {"pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate", "svg": "Date"}


@checked
def comparison_figures(
    comparison: Comparison,
    weights_of: Sequence[str] = (),
    title: str | None = None,
) -> dict[str, Figure]:
    """Draw how methods did, and whom the nodes listened to on the last seed.

    Args:
        comparison: What `compare` returns.
        weights_of: Names of the methods whose mixing weights are of interest. Their runs must have recorded graphs
            (``compare(..., callbacks=[RecordGraph(rounds)])``).
        title: Title of the accuracy curves. Methods that failed on some seeds have the curve of the others, and it
            says so; those that failed on all have none.

    Returns:
        ``accuracy``; ``weights_<name>`` for each of the names, nodes sorted by cluster or classes where known;
        and ``weight_by_overlap`` at the last two recorded rounds where classes are known.

    Raises:
        ValueError: If a method is unknown or recorded no graph.
    """
    figures, late, classes = {}, {}, None
    for name in weights_of:
        if name in comparison.chosen and name not in comparison.results and failures(comparison, name):
            raise ValueError(f"{name} {failures(comparison, name)}: it has no weights to draw; leave it out")
        if name not in comparison.results:
            raise ValueError(f"there is no method {name!r} in the comparison; there are {sorted(comparison.results)}")
        result = comparison.results[name]
        graphs, classes = result.history.graphs, result.tasks.classes
        if not graphs:
            raise ValueError(f"{name} recorded no graph: pass callbacks=[RecordGraph(rounds)] to compare")
        group = classes if result.tasks.cluster is None else result.tasks.cluster
        heading = f"{name}: who listens to whom"
        figures[f"weights_{name}"] = weight_heatmaps(graphs, result.tasks.num_nodes, cluster=group, title=heading)
        late.update({f"{name}, round {round_}": graphs[round_] for round_ in sorted(graphs)[-2:]})
    if classes is not None:
        heading = "Do nodes listen to those with the same classes?"
        figures["weight_by_overlap"] = weight_by_overlap_figure(late, classes, heading)
    curves = {}
    for name, trials in comparison.chosen.items():
        why = failures(comparison, name)
        if kept := [trial.curve for trial in trials if not trial.failure]:
            curves[f"{name} ({why})" if why else name] = kept
    figures["accuracy"] = accuracy_curves(curves, title, comparison.metric, comparison.share)
    return figures


@checked
def weight_by_overlap_figure(graphs: Mapping[str, Graph], classes: Tensor, title: str | None = None) -> Figure:
    """Draw mean mixing weights against the number of classes that two nodes share, methods side by side.

    It is Fig. 7 of
    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_.
    All ordered pairs of different nodes count, those without an edge with weight 0. Bars reach one standard deviation
    over pairs up and down, but not below 0. The dashed line is the mean weight of all pairs: where a method knows
    nothing, every mean lies on it.

    Args:
        graphs: Edges j -> i, [2, E], and what i gives to j, [E], by the name of the panel.
        classes: Which classes each node has, [K, C] of bool, such as ``tasks.classes``.
        title: Title of the whole figure.

    Raises:
        ValueError: If there is no graph, or edges do not fit the nodes.
    """
    if not graphs:
        raise ValueError("expected the graph of at least one method, got none")
    figure = new_figure(2.9 * len(graphs) + 0.8, 3.7 if title else 3.4, title)
    panels = figure.subplots(1, len(graphs), squeeze=False, sharey=True)[0]
    for panel, (name, (edge_index, edge_weight)) in zip(panels, graphs.items(), strict=True):
        found = weight_by_overlap(edge_index.cpu(), edge_weight.cpu(), classes.cpu())
        overlap, mean, std = (values.numpy() for values in (found.overlap, found.mean, found.std))
        below = std.clip(max=mean.clip(min=0)) if (mean >= 0).all() else std
        panel.errorbar(
            overlap, mean, [below, std], color=COLOURS[0], marker="o", capsize=4, linewidth=1.8, elinewidth=1
        )
        overall = float((found.mean * found.pairs).sum() / found.pairs.sum())
        panel.axhline(overall, color=COLOURS[1], linestyle="--", linewidth=1, label="all pairs")
        panel.set(title=name, xlabel="shared classes\n(number of pairs)", xmargin=0.12)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xticks(overlap, [f"{o}\n({p:,})" for o, p in zip(overlap, found.pairs.tolist(), strict=True)])
        tidy(panel)
    panels[0].set_ylabel("mixing weight (mean ± std)")
    panels[0].legend(fontsize=9, frameon=False, loc="upper left")
    quiet(panels[0])
    return figure


@checked
def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the file name ends with; the file is there whole or not at all.

    Missing folders are made.

    Args:
        figure: The figure.
        path: A name that ends in ``.png``, ``.pdf``, ``.svg`` or another format of matplotlib's.

    Returns:
        The path.

    Raises:
        ValueError: If the name ends in no known format.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if kind not in known:
        raise ValueError(f"the file name must end in one of {', '.join(known)}, got {path.name!r}")
    content = BytesIO()
    metadata = {_DATES[kind]: None} if kind in _DATES else None
    figure.savefig(content, format=kind, dpi=figure.dpi, metadata=metadata)
    return write_whole(path, content.getvalue())
