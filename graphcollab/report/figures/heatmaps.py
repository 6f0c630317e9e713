"""K x K heat maps side by side, receivers in rows and senders in columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, TypeAlias

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab._base.errors import EmptyError, MissingError, ShapeError
from graphcollab._base.settings import Count
from graphcollab.analysis.metrics.edges import Graph, Graphs, pair_weights
from graphcollab.persistence import History, LearnedGraph
from graphcollab.report.figures._style import GRAY, figure_names, new_panels
from graphcollab.report.values import shown
from graphcollab.train import Joined, Result

NUMBERED = 20  # maximum number of labels at an axis
WRITTEN = 10  # maximum number of nodes for which numbers are written into cells
LETTER = 0.08  # inches

OfRun: TypeAlias = Annotated[
    Graphs | History | Result | LearnedGraph | Joined,
    "graphs by round, a history, what run or join returns, or a learned graph, such as load(folder).graph()",
]


@shown
def weight_heatmaps(
    graphs: OfRun,
    num_nodes: Count | None = None,
    cluster: Tensor | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw K x K heat maps of the mixing weights at several rounds side by side.

    It reproduces Fig. 4 and 5 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al.,
    CVPR 2022) <https://doi.org/10.1109/CVPR52688.2022.00954>`_. A row is a receiver, a column a sender; pairs without
    an edge stay white. All panels share one color scale of the square root of the weight, so that both many uniform
    weights and a few large ones are visible; with negative weights, it is linear and symmetric about 0. For up to ten
    nodes, the weights are written into the cells. With sites, each site knows its own node's weights only; those of
    other receivers are gray.

    Args:
        graphs: Edges j -> i, [2, E], and the weight of j at i, [E], by round; or a history, or the output of `run`,
            which contain the nodes' names (the last round's graph if none were recorded); or a learned graph, such as
            ``load(folder).graph()``, or the output of `join`.
        num_nodes: K. Default: taken from a history.
        cluster: The true cluster of each node, [K] of integers, or the classes of each, [K, C] of bool, as in
            ``tasks.classes``. Nodes are sorted by it (by their first class, then by their second, and so on), with
            lines between clusters (first classes), which are numbered if there are many nodes or they have no names.
    """
    rounds, num_nodes, names = _of_run(graphs, num_nodes, names)
    if not rounds:
        raise EmptyError(
            "graphs", "expected the graph of at least one round, got none: record them with RecordGraph(rounds)"
        )
    order, group = _arranged(cluster, num_nodes)
    matrices = {name: pair_weights(*graph, num_nodes, f"{name}: ", partly=True).cpu() for name, graph in rounds.items()}
    every = torch.stack([*matrices.values()])
    most, signed = float(every.nan_to_num(0.0).abs().max()) or 1.0, bool((every < 0).any())
    norm = Normalize(-most, most) if signed else PowerNorm(0.5, 0.0, most)
    scale = ScalarMappable(norm, "PuOr_r" if signed else "magma_r")
    if names is not None and len(names) != num_nodes:
        raise ShapeError("names", f"names must have one for each of the {num_nodes} nodes, got {len(names)}")
    labels = figure_names([str(k) if names is None else names[k] for k in order.tolist()])
    each = num_nodes <= NUMBERED and (group is None or sorted(labels) != sorted(map(str, range(num_nodes))))
    room = LETTER * max(map(len, labels)) * each
    figure, panels = new_panels(len(matrices), 2.9, 3.4 + room, room + 1.2, title)
    what = "" if cluster is None else ", by first class" if cluster.dim() == 2 else ", by cluster"
    for panel, (name, matrix) in zip(panels, matrices.items(), strict=True):
        picture = matrix[order][:, order].numpy()
        panel.imshow(picture, norm=scale.norm, cmap=scale.cmap, interpolation="nearest")  # type: ignore[arg-type]
        panel.set(title=name, xlabel=f"sender{what}", ylabel=f"receiver{what}")
        _write(panel, picture, scale)
        edges, weights = rounds[name]
        unknown = pair_weights(edges, weights.isnan().float(), num_nodes).cpu() == 1  # known to the receiver only
        if bool(unknown.any()):
            _mark(panel, unknown[order][:, order])
        _ticks(panel, labels if each else None, group)
        place = panel.get_subplotspec()
        if place is not None and not place.is_first_col():
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
    if bool(every.isfinite().any()):
        figure.colorbar(scale, ax=panels, label="mixing weight", fraction=0.05, pad=0.02)
    return figure


def _of_run(
    graphs: OfRun, num_nodes: int | None, names: Sequence[str] | None
) -> tuple[dict[str, Graph], int, Sequence[str] | None]:
    """Return graphs by panel title, in order, K, and the names of nodes, if any."""
    graphs = graphs.graph() if isinstance(graphs, Joined) else graphs
    if isinstance(graphs, LearnedGraph):
        return {"learned graph": (graphs.edge_index, graphs.edge_weight)}, graphs.num_nodes, names or graphs.name
    if isinstance(graphs, Result):
        last, history = graphs.graph(), graphs.history
        found = history.graphs or {graphs.data.round: (last.edge_index, last.edge_weight)}
        num_nodes, names = len(history.names), names or history.names
    elif isinstance(graphs, History):
        found, num_nodes, names = graphs.graphs, len(graphs.names), names or graphs.names
    elif num_nodes is None:
        raise MissingError(
            "num_nodes", "num_nodes must say how many nodes graphs by round have: a history or a result knows it"
        )
    else:
        found = graphs
    return {f"round {r}": found[r] for r in sorted(found)}, num_nodes, names


def _write(panel: Axes, picture: Any, colors: ScalarMappable) -> None:
    for i, j in zip(*picture.nonzero(), strict=True) if len(picture) <= WRITTEN else ():
        if isfinite(value := float(picture[i, j])):
            dark = sum(colors.to_rgba(picture[[i], j])[0][:3]) < 1.5
            size = 9 if len(picture) <= 5 else 6.5
            ink = "white" if dark else "black"
            panel.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=size, color=ink)
    if not any(map(isfinite, picture.flat)):
        panel.text(0.5, 0.5, "no edges", transform=panel.transAxes, ha="center", va="center")


def _mark(panel: Axes, unknown: Tensor) -> None:
    """Draw cells gray if only the receiver knows the weight, and add a note to the label."""
    gray = torch.full(unknown.shape, torch.nan).masked_fill(unknown, 0.0)
    panel.imshow(gray.numpy(), cmap=ListedColormap([GRAY]), interpolation="nearest")
    few = len(unknown) <= WRITTEN
    for i, j in unknown.nonzero().tolist() if few else ():
        panel.text(j, i, "?", ha="center", va="center")
    panel.set_xlabel(f"{panel.get_xlabel()}\n{'?' if few else 'gray'}: known to the receiver alone")


def _arranged(cluster: Tensor | None, count: int) -> tuple[Tensor, Tensor | None]:
    """Return the nodes in display order, and the groups to separate by lines: by cluster, or by first class."""
    if cluster is None:
        return torch.arange(count), None
    if cluster.shape == (count,):
        group = cluster.cpu()
        order = group.argsort(stable=True)
    elif cluster.shape[:1] == (count,) and cluster.dim() == 2 and cluster.dtype == torch.bool:
        group = cluster.cpu().int().argmax(1)
        keys = [tuple(row.nonzero().flatten().tolist()) for row in cluster.cpu()]
        order = torch.tensor(sorted(range(count), key=keys.__getitem__))
    else:
        raise ShapeError(
            "cluster",
            f"expected [{count}] integers or [{count}, C] bool, got {cluster.dtype} of shape {list(cluster.shape)}",
        )
    return order, group[order]


def _ticks(panel: Axes, labels: Sequence[str] | None, group: Tensor | None) -> None:
    named = None if labels is None else dict[float, str](enumerate(labels))
    if group is not None:
        ends = [0, *((group[1:] != group[:-1]).nonzero().flatten() + 1).tolist(), len(group)]
        for end in ends[1:-1]:
            panel.axhline(end - 0.5, color="black", linewidth=0.4, alpha=0.6)
            panel.axvline(end - 0.5, color="black", linewidth=0.4, alpha=0.6)
        spans = [(first, last) for first, last in pairwise(ends) if last - first >= len(group) / NUMBERED]
        named = named or {(first + last - 1) / 2: str(int(group[first])) for first, last in spans}
    if named is not None:
        long = any(len(label) > 2 for label in named.values())
        panel.set_xticks([*named], named.values(), rotation=90 if long else 0)
        panel.set_yticks([*named], named.values())
    panel.tick_params(length=0)
