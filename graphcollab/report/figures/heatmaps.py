"""K x K heat maps side by side, receivers in rows and senders in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, TypeAlias

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from graphcollab.errors import EmptyError, MissingError, ShapeError
from graphcollab.metrics import class_overlap, contact_counts, never_sampled
from graphcollab.metrics.edges import Graphs, pair_weights
from graphcollab.report._text import require_some, shown
from graphcollab.report.figures._style import COLOURS, GRID, TEXT, figure_names, leftmost, new_panels, quiet
from graphcollab.settings import Count
from graphcollab.train import History, Joined, LearnedGraph, Result

__all__ = ["contact_heatmap", "weight_heatmaps"]

NUMBERED = 20  # labels at an axis at most
WRITTEN = 10  # nodes up to which numbers are written into cells
LETTER = 0.08  # inches
COUNTS, COMMON = "rounds listened to", "common classes"

OfRun: TypeAlias = Annotated[
    Graphs | History | Result | LearnedGraph | Joined,
    "graphs by round, a history, what run or join returns, or a learned graph, such as load(folder).graph()",
]
OfRuns: TypeAlias = Annotated[
    Graphs | History | Result | Mapping[str, Graphs | History | Result],
    "graphs by round, a history, or what run returns, or several of these by name",
]


@shown
def weight_heatmaps(
    graphs: OfRun,
    num_nodes: Count | None = None,
    cluster: Tensor | None = None,
    title: str | None = None,
    classes: Tensor | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw K x K heat maps of the mixing weights at several rounds side by side.

    It is Fig. 4 and 5 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR
    2022) <https://doi.org/10.1109/CVPR52688.2022.00954>`_. A row is a receiver, a column a sender; a pair without an
    edge stays white. All panels share one colour scale, in which colour follows the square root of the weight, so that
    uniform weights of many nodes and the few large ones that are learned can both be seen. Where weights are negative,
    the scale is linear and symmetric about 0 instead. Of up to ten nodes the weights are written into the cells.
    Between sites each knows the weights of its own node only; those of other receivers are grey.

    With ``classes`` the first panel is the share of the receiver's classes that the sender has too (`class_overlap`),
    as in Fig. 4 of `MAPL <https://arxiv.org/abs/2403.19792>`_: what the weights should look like, if nodes with the
    same classes are to collaborate.

    Args:
        graphs: Edges j -> i, [2, E], and what i gave to j, [E], by round; or a history, or what `run` returns, which
            know the nodes' names. A result without recorded graphs shows that of its last round. Or a learned graph by
            itself, such as ``load(folder).graph()``, or what `join` returns.
        num_nodes: K. Default: a history knows it.
        cluster: The true cluster of each node, [K] of integers, or which classes each node has, [K, C] of bool, as in
            ``tasks.classes``. Nodes are sorted by it (classes: by their first, then by their second class, and so on)
            and lines are drawn between the clusters (between nodes of different first classes), which are numbered
            where nodes are many or have no names.
        classes: Which classes each node has, [K, C] of bool, such as ``tasks.classes``, for the first panel. Default:
            there is none.
    """
    if isinstance(graphs, LearnedGraph | Joined):
        graph = graphs if isinstance(graphs, LearnedGraph) else graphs.graph()
        matrices, num_nodes, names = {"learned graph": graph.matrix()}, graph.num_nodes, names or graph.name
        unknown = {"learned graph": _unknown(graph.edge_index, graph.edge_weight, num_nodes)}
    else:
        rounds, num_nodes, names = _of_run(graphs, num_nodes, names)
        if not rounds:
            raise EmptyError(
                "graphs", "expected the graph of at least one round, got none: record them with RecordGraph(rounds)"
            )
        matrices, unknown = {}, {}
        for r in sorted(rounds):
            edges, weights = rounds[r]
            matrices[f"round {r}"] = pair_weights(edges, weights, num_nodes, f"round {r}: ", partly=True).cpu()
            unknown[f"round {r}"] = _unknown(edges, weights, num_nodes)
    every = torch.stack([matrix.nan_to_num(0.0) for matrix in matrices.values()])
    most, first = float(every.abs().max()) or 1.0, None
    if bool((every < 0).any()):
        scale = ScalarMappable(Normalize(-most, most), "PuOr_r")
    else:
        scale = ScalarMappable(PowerNorm(0.5, 0.0, most), "magma_r")
    if classes is not None:
        first = 100 * class_overlap(classes.cpu())
        if len(first) != num_nodes:
            raise ShapeError(
                "classes", f"classes must be [K, C] for K = {num_nodes} nodes, got shape {list(classes.shape)}"
            )
    return _draw(matrices, scale, "mixing weight", cluster, title, names, first, unknown)[0]


def _unknown(edges: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return between which pairs there is an edge whose weight only its receiver knows, receivers in rows, [K, K]."""
    unknown = torch.zeros(count, count, dtype=torch.bool)
    sender, receiver = edges[:, weights.isnan()].cpu()
    unknown[receiver, sender] = True
    return unknown


@shown
def contact_heatmap(
    graphs: OfRuns,
    num_nodes: Count | None = None,
    cluster: Tensor | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw K x K heat maps of how often nodes listened to each other over a run, methods side by side.

    They are Fig. 4.2 and 4.9 of *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning
    Strategies* (Hagander & Ihre-Thomason, Lund University, 2024). A row is a receiver, a column a sender; pairs that
    never met stay white. All panels share one colour scale, in which colour follows the square root of the count, so
    that peers met once can be seen beside those met every round. Triangles above a panel mark nodes that nobody ever
    listened to, whose columns are empty.

    Args:
        graphs: Edges j -> i, [2, E], and what i gave to j, [E], by round; or a history, or what `run` returns, which
            know the nodes' names; or several such, by name.
        num_nodes: K. Default: a history knows it.
        cluster: The true cluster of each node, or which classes each node has; see `weight_heatmaps`.
    """
    one = not isinstance(graphs, Mapping) or any(isinstance(value, tuple) for value in graphs.values())
    given: Mapping[str, Any] = {"": graphs} if one else graphs  # type: ignore[assignment]
    named: dict[str, Graphs] = {}
    count = 0
    for name, graphs_of in given.items():
        named[name], count, names = _of_run(graphs_of, num_nodes, names)
    require_some(named, "the graph of at least one round of each run", ": record with RecordGraph")
    matrices, unheard = {}, {}
    for name, rounds in named.items():
        matrices[name] = pair_weights(*contact_counts(rounds, count), count)
        unheard[name] = never_sampled(rounds, count)
    most = max(float(matrix.nan_to_num(0.0).max()) for matrix in matrices.values())
    scale = ScalarMappable(PowerNorm(0.5, 0.0, most or 1.0), "magma_r")
    figure, panels, nodes_shown = _draw(matrices, scale, COUNTS, cluster, title, names)
    for panel, (name, nodes) in zip(panels, unheard.items(), strict=True):
        if 0 < len(nodes) < count:
            columns = nodes_shown.argsort()[nodes].sort().values.tolist()
            above = panel.get_xaxis_transform()
            panel.plot(
                columns, [1.02] * len(columns), "v", color=COLOURS[1], markersize=3, transform=above, clip_on=False
            )
        note = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''} never listened to" if len(nodes) else ""
        if any(map(len, unheard.values())):  # all titles have two lines then, so that names stand at one height
            panel.set_title(f"{name}\n{note or ' '}" if name else note, pad=9)
    return figure


def _of_run(
    graphs: Graphs | History | Result, num_nodes: int | None, names: Sequence[str] | None
) -> tuple[Graphs, int, Sequence[str] | None]:
    """Return graphs by round, how many nodes they have, and the nodes' names where they are known."""
    if isinstance(graphs, Result):
        last = graphs.graph()
        rounds = graphs.history.graphs or {graphs.data.round: (last.edge_index, last.edge_weight)}
        return rounds, len(graphs.history.names), names or graphs.history.names
    if isinstance(graphs, History):
        return graphs.graphs, len(graphs.names), names or graphs.names
    if num_nodes is None:
        raise MissingError(
            "num_nodes", "num_nodes must say how many nodes graphs by round have: a history or a result knows it"
        )
    return graphs, num_nodes, names


def _draw(
    matrices: Mapping[str, Tensor],
    scale: ScalarMappable,
    label: str,
    cluster: Tensor | None,
    title: str | None,
    names: Sequence[str] | None,
    common: Tensor | None = None,
    unknown: Mapping[str, Tensor] | None = None,
) -> tuple[Figure, list[Axes], Tensor]:
    """Draw matrices [K, K] on one colour scale, and shares of common classes before them on one of its own.

    What is ``unknown`` of a matrix, [K, K] of bool, is grey.
    """
    drawn = [(name, matrix, scale) for name, matrix in matrices.items()]
    if common is not None:
        drawn.insert(0, (COMMON, common, ScalarMappable(Normalize(0, 100), "YlGnBu")))
    shown, group = _arranged(cluster, len(drawn[0][1]))
    if names is not None and len(names) != len(shown):
        raise ShapeError("names", f"names must have one for each of the {len(shown)} nodes, got {len(names)}")
    labels = figure_names([str(k) if names is None else names[k] for k in shown.tolist()])
    told = names is not None and any(names[k] != str(k) for k in range(len(names)))
    each = len(labels) <= NUMBERED and (group is None or told)
    room = LETTER * max(map(len, labels)) * each
    figure, panels = new_panels(len(drawn), 2.9, 3.4 + room, room + (1.2 if common is None else 1.9), title)
    every = list(figure.axes)
    what = "" if cluster is None else ", by first class" if cluster.dim() == 2 else ", by cluster"
    for panel, (name, matrix, colours) in zip(panels, drawn, strict=True):
        picture = matrix[shown][:, shown].numpy()
        panel.imshow(picture, norm=colours.norm, cmap=colours.cmap, interpolation="nearest")  # type: ignore[arg-type]
        panel.set(title=name, xlabel=f"sender{what}", ylabel=f"receiver{what}" if leftmost(panel) else "")
        _write(panel, picture, colours, ".0f" if label == COUNTS or name == COMMON else ".2f")
        if unknown is not None and name in unknown and bool(unknown[name].any()):
            _mark(panel, unknown[name][shown][:, shown])
        _ticks(panel, labels if each else None, group)
        panel.tick_params(labelleft=leftmost(panel))
        quiet(panel)
    bars = [(drawn[0][2], "share of the receiver's classes (%)", "left")] if common is not None else []
    if any(bool(matrix.isfinite().any()) for matrix in matrices.values()):
        bars.insert(0, (scale, label, "right"))
    for colours, text, side in bars:
        bar = figure.colorbar(colours, ax=every, label=text, fraction=0.05, pad=0.02, location=side)
        bar.outline.set_visible(False)
        bar.ax.yaxis.set_major_locator(MaxNLocator(6, integer=text == COUNTS))
        quiet(bar.ax)
    return figure, panels, shown


def _write(panel: Axes, picture: Any, colours: ScalarMappable, form: str) -> None:
    """Write the numbers of few nodes into their cells, and where there are none at all, that there are no edges."""
    for i, j in zip(*picture.nonzero(), strict=True) if len(picture) <= WRITTEN else ():
        if isfinite(value := float(picture[i, j])):
            red, green, blue, _ = colours.to_rgba(picture[[i], j])[0]
            ink = "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else TEXT
            text = format(value, form).replace("-", "−")
            panel.text(j, i, text, ha="center", va="center", fontsize=9 if len(picture) <= 5 else 6.5, color=ink)
    if not any(map(isfinite, picture.flat)):
        panel.text(0.5, 0.5, "no edges", transform=panel.transAxes, ha="center", va="center", fontsize=9, color=TEXT)


def _mark(panel: Axes, unknown: Tensor) -> None:
    """Draw cells grey of which only the receiver knows the weight, and say so."""
    grey = torch.full(unknown.shape, torch.nan).masked_fill(unknown, 0.0)
    panel.imshow(grey.numpy(), cmap=ListedColormap([GRID]), interpolation="nearest")
    for i, j in unknown.nonzero().tolist() if len(unknown) <= WRITTEN else ():
        panel.text(j, i, "?", ha="center", va="center", fontsize=9, color=TEXT)
    panel.set_xlabel(f"{panel.get_xlabel()}\n{'?' if len(unknown) <= WRITTEN else 'grey'}: known to the receiver alone")


def _arranged(cluster: Tensor | None, count: int) -> tuple[Tensor, Tensor | None]:
    """Return the nodes as they are shown, and between whose groups lines are drawn: by cluster, or by first class."""
    if cluster is None:
        shown, group = torch.arange(count), None
    elif cluster.shape == (count,):
        group = cluster.cpu()
        shown = group.argsort(stable=True)
    elif cluster.shape[:1] == (count,) and cluster.dim() == 2 and cluster.dtype == torch.bool:
        group = cluster.cpu().int().argmax(1)
        keys = [tuple(row.nonzero().flatten().tolist()) for row in cluster.cpu()]
        shown = torch.tensor(sorted(range(count), key=keys.__getitem__))
    else:
        raise ShapeError(
            "cluster",
            f"cluster must be [K] integers or [K, C] bool for K = {count} nodes, "
            f"got {cluster.dtype} of shape {list(cluster.shape)}",
        )
    return shown, None if group is None else group[shown]


def _ticks(panel: Axes, labels: Sequence[str] | None, group: Tensor | None) -> None:
    """Draw lines between groups, and name every node, or without names all groups but tiny ones."""
    named = None if labels is None else dict[float, str](enumerate(labels))
    if group is not None:
        ends = [0, *((group[1:] != group[:-1]).nonzero().flatten() + 1).tolist(), len(group)]
        for end in ends[1:-1]:
            panel.axhline(end - 0.5, color=TEXT, linewidth=0.4, alpha=0.6)
            panel.axvline(end - 0.5, color=TEXT, linewidth=0.4, alpha=0.6)
        spans = [(first, last) for first, last in pairwise(ends) if last - first >= len(group) / NUMBERED]
        named = named or {(first + last - 1) / 2: str(int(group[first])) for first, last in spans}
    if named is not None:
        long = any(len(label) > 2 for label in named.values())
        panel.set_xticks([*named], named.values(), rotation=90 if long else 0)
        panel.set_yticks([*named], named.values())
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
