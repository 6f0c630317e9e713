"""Who listened to whom how often (Fig. 4.2 of *With a Little Help from My Friends*)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from graphcollab.metrics import contact_counts, never_sampled
from graphcollab.report._heatmaps import draw_heatmaps, edge_matrix
from graphcollab.report._style import COLOURS
from graphcollab.settings import Count, checked

__all__ = ["contact_heatmap"]

Graphs = Mapping[int, tuple[Tensor, Tensor]]


@checked
def contact_heatmap(
    graphs: Graphs | Mapping[str, Graphs],
    num_nodes: Count,
    cluster: Tensor | None = None,
    order: Tensor | None = None,
    downloaded: bool = False,
    title: str | None = None,
) -> Figure:
    """Draw K x K heat maps of how often nodes listened to each other over a run, methods side by side.

    They are Fig. 4.2 and 4.9 of *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning
    Strategies* (Hagander & Ihre-Thomason, Lund University, 2024). A row is a receiver, a column a sender; pairs that
    never met stay white. All panels share one colour scale, in which colour follows the square root of the count, so
    that peers met once can be seen beside those met every round. Triangles above a panel mark nodes that nobody ever
    listened to, whose columns are empty.

    Args:
        graphs: Edges j -> i and what i gave to j, by round, such as ``history.graphs``; or several such, by name.
        num_nodes: K.
        cluster: The true cluster of each node, or which classes each node has; see `weight_heatmaps`.
        order: The nodes from top to bottom and from left to right. Default: as they are, or sorted by ``cluster``.
        downloaded: Count every edge, also those of weight 0, whose models were only scored. Default: models that were
            merged.
        title: Title of the whole figure.

    Shapes:
        graphs: [2, E] and [E] for each round.
        cluster: [K] of integers, or [K, C] of bool.
        order: [K].

    Raises:
        ValueError: If there is no graph, an edge is out of range, a weight is NaN, or ``order`` or ``cluster`` are not
            for K nodes.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[1, 0], [0, 1]])
        >>> graphs = {1: (edge_index, torch.ones(2)), 2: (edge_index, torch.tensor([1.0, 0.0]))}
        >>> figure = contact_heatmap({"dac": graphs}, num_nodes=2)
        >>> figure.axes[0].images[0].get_array().filled(0).tolist()
        [[0.0, 2.0], [1.0, 0.0]]
    """
    named: dict[str, Graphs] = {}
    for key, value in graphs.items():
        if isinstance(value, Mapping):
            named[str(key)] = value
        else:
            named.setdefault("", {})[key] = value  # type: ignore[index]
    if not named or not all(named.values()):
        found = {name: len(rounds) for name, rounds in named.items()}
        raise ValueError(f"expected the graph of at least one round of each run, got {found}: record with RecordGraph")
    matrices, unheard = {}, {}
    for name, rounds in named.items():
        edge_index, counts = contact_counts(rounds, num_nodes, downloaded)
        unheard[name] = never_sampled(rounds, num_nodes, downloaded)
        matrices[name] = edge_matrix(edge_index, counts, num_nodes, name)
    most = max(float(matrix.nan_to_num(0.0).max()) for matrix in matrices.values())
    what = "rounds listened to"
    norm = PowerNorm(0.5, 0.0, most or 1.0)
    figure, panels, shown = draw_heatmaps(matrices, order, cluster, norm, "magma_r", what, title)
    figure.axes[-1].yaxis.set_major_locator(MaxNLocator(6, integer=True))  # of the colour bar
    place = shown.argsort()
    noted = any(map(len, unheard.values()))
    for panel, (name, nodes) in zip(panels, unheard.items(), strict=True):
        if len(nodes) and len(nodes) < num_nodes:
            _mark(panel, place[nodes].sort().values.tolist())
        note = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''} never listened to" if len(nodes) else ""
        if noted:  # all titles have two lines then, so that names stand at one height
            panel.set_title(f"{name}\n{note or ' '}" if name else note, pad=9)
    return figure


def _mark(panel: Axes, columns: list[int]) -> None:
    """Put a triangle above columns."""
    above = panel.get_xaxis_transform()
    panel.plot(columns, [1.02] * len(columns), "v", color=COLOURS[1], markersize=3, transform=above, clip_on=False)
