"""Mixing weights as pictures (Fig. 4 and 5 of L2C)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.report._style import TEXT, new_figure, quiet

__all__ = ["weight_heatmaps"]

PANELS = 4  # in a row
NUMBERED = 20  # labels at an axis at most


def weight_heatmaps(
    graphs: Mapping[int, tuple[Tensor, Tensor]],
    num_nodes: int,
    order: Tensor | None = None,
    cluster: Tensor | None = None,
    title: str | None = None,
) -> Figure:
    """Draw K x K heat maps of the mixing weights at several rounds side by side.

    It is Fig. 4 and 5 of
    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_.
    A row is a receiver, a column a sender; a pair without an edge stays white. All panels share one colour scale, in
    which colour follows the square root of the weight, so that uniform weights of many nodes and the few large ones
    that are learned can both be seen. Where weights are negative, the scale is linear and symmetric about 0 instead.

    Args:
        graphs: Edges j -> i and what i gives to j, by round, such as ``history.graphs``.
        num_nodes: K.
        order: The nodes from top to bottom and from left to right. Default: as they are, or sorted by ``cluster``.
        cluster: The true cluster of each node, or which classes each node has, as in ``tasks.classes``. Nodes are
            sorted by it (classes: by their first, then by their second class, and so on) and lines are drawn between
            the clusters (between nodes of different first classes).
        title: Title of the whole figure.

    Shapes:
        graphs: [2, E] and [E] for each round.
        order: [K].
        cluster: [K] of integers, or [K, C] of bool.

    Raises:
        ValueError: If there is no graph, an edge is out of range, a weight is not finite, or ``order`` or ``cluster``
            are not for K nodes.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
        >>> graphs = {1: (edge_index, torch.tensor([0.5, 0.5, 1.0])), 10: (edge_index, torch.tensor([0.9, 0.1, 1.0]))}
        >>> figure = weight_heatmaps(graphs, num_nodes=2)
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['round 1', 'round 10']
    """
    if not graphs:
        raise ValueError("expected the graph of at least one round, got none: record them with RecordGraph(rounds)")
    group = _groups(cluster, num_nodes)
    shown = _order(order, cluster, num_nodes)
    matrices = [_matrix(*graphs[r], num_nodes, f"round {r}")[shown][:, shown] for r in sorted(graphs)]
    norm, colours = _scale(matrices)
    lines = math.ceil(len(matrices) / PANELS)
    columns = math.ceil(len(matrices) / lines)
    figure = new_figure(2.9 * columns + 1.2, 3.4 * lines + (0.4 if title else 0.1), title)
    panels = figure.subplots(lines, columns, squeeze=False).flatten().tolist()
    image = None
    for panel, round_, matrix in zip(panels, sorted(graphs), matrices, strict=False):
        image = panel.imshow(matrix.numpy(), norm=norm, cmap=colours, interpolation="nearest")
        panel.set_title(f"round {round_}")
        _ticks(panel, shown, None if group is None else group[shown])
    for panel in panels[len(matrices) :]:
        panel.set_visible(False)
    what = "" if cluster is None else ", by first class" if cluster.dim() == 2 else ", by cluster"
    for n, panel in enumerate(panels[: len(matrices)]):
        panel.set(xlabel=f"sender{what}", ylabel="" if n % columns else f"receiver{what}")
        panel.tick_params(labelleft=n % columns == 0)
        quiet(panel)
    bar = figure.colorbar(image, ax=panels, label="mixing weight", fraction=0.05, pad=0.02)  # type: ignore[arg-type]
    bar.outline.set_visible(False)
    quiet(bar.ax)
    return figure


def _matrix(edge_index: Tensor, edge_weight: Tensor, count: int, where: str) -> Tensor:
    """Return the weights as [K, K]: receivers in rows, senders in columns, NaN where there is no edge."""
    edge_index, edge_weight = edge_index.detach().cpu().long(), edge_weight.detach().cpu().float()
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_weight.shape != edge_index.shape[1:]:
        raise ValueError(
            f"{where}: expected edge_index [2, E] and edge_weight [E], "
            f"got {list(edge_index.shape)} and {list(edge_weight.shape)}"
        )
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < count:
        raise ValueError(
            f"{where}: edges join nodes {int(edge_index.min())} to {int(edge_index.max())}, "
            f"expected 0 to {count - 1} for {count} nodes"
        )
    if not bool(edge_weight.isfinite().all()):
        raise ValueError(f"{where}: the weight of edge {int((~edge_weight.isfinite()).nonzero()[0])} is not finite")
    matrix = torch.full((count, count), torch.nan)
    matrix[edge_index[1], edge_index[0]] = edge_weight
    return matrix


def _scale(matrices: list[Tensor]) -> tuple[Normalize, str]:
    low = min(float(matrix.nan_to_num(0.0).min()) for matrix in matrices)
    high = max(float(matrix.nan_to_num(0.0).max()) for matrix in matrices)
    if low < 0:
        return Normalize(-max(high, -low), max(high, -low)), "PuOr_r"
    return PowerNorm(0.5, 0.0, high or 1.0), "magma_r"


def _groups(cluster: Tensor | None, count: int) -> Tensor | None:
    """Return the group between which lines are drawn: a node's cluster, or the first of its classes."""
    if cluster is None:
        return None
    if cluster.shape[:1] != (count,) or cluster.dim() > 2 or (cluster.dim() == 2 and cluster.dtype != torch.bool):
        raise ValueError(
            f"cluster must be [K] integers or [K, C] bool for K = {count} nodes, "
            f"got {cluster.dtype} of shape {list(cluster.shape)}"
        )
    return cluster.cpu() if cluster.dim() == 1 else cluster.cpu().int().argmax(1)


def _order(order: Tensor | None, cluster: Tensor | None, count: int) -> Tensor:
    if order is not None:
        order = torch.as_tensor(order).cpu().long()
        if order.shape != (count,) or not torch.equal(order.sort().values, torch.arange(count)):
            raise ValueError(f"order must hold every node 0 to {count - 1} once, got {order.tolist()[:10]}")
        return order
    if cluster is None:
        return torch.arange(count)
    if cluster.dim() == 1:
        return cluster.cpu().argsort(stable=True)
    keys = [tuple(row.nonzero().flatten().tolist()) for row in cluster.cpu()]
    return torch.tensor(sorted(range(count), key=keys.__getitem__))


def _ticks(panel: Axes, shown: Tensor, group: Tensor | None) -> None:
    """Draw lines between groups and name all but tiny ones; without groups, number the nodes if they are few."""
    count = len(shown)
    if group is not None:
        ends = [0, *((group[1:] != group[:-1]).nonzero().flatten() + 1).tolist(), count]
        for end in ends[1:-1]:
            panel.axhline(end - 0.5, color=TEXT, linewidth=0.4, alpha=0.6)
            panel.axvline(end - 0.5, color=TEXT, linewidth=0.4, alpha=0.6)
        named = [(first, last) for first, last in pairwise(ends) if last - first >= count / NUMBERED]
        centres = [(first + last - 1) / 2 for first, last in named]
        names = [str(int(group[first])) for first, _ in named]
        panel.set_xticks(centres, names)
        panel.set_yticks(centres, names)
    elif count <= NUMBERED:
        panel.set_xticks(range(count), map(str, shown.tolist()))
        panel.set_yticks(range(count), map(str, shown.tolist()))
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
