"""K x K heat maps side by side, receivers in rows and senders in columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from graphcollab.report._style import TEXT, new_figure, quiet

PANELS = 4  # in a row
NUMBERED = 20  # labels at an axis at most


class Reference(NamedTuple):
    """A matrix that others are to be compared with, and its colours.

    Args:
        name: Title of its panel.
        matrix: [K, K], NaN where the picture stays white.
        norm: The scale of its colours.
        colours: Name of its colours.
        label: What they mean.
    """

    name: str
    matrix: Tensor
    norm: Normalize
    colours: str
    label: str


def draw_heatmaps(
    matrices: Mapping[str, Tensor],
    order: Tensor | None,
    cluster: Tensor | None,
    norm: Normalize,
    colours: str,
    label: str,
    title: str | None,
    reference: Reference | None = None,
) -> tuple[Figure, list[Axes], Tensor]:
    """Draw matrices on one colour scale.

    Args:
        matrices: [K, K] by the title of their panel, NaN where the picture stays white.
        order: The nodes from top to bottom and from left to right. Default: as they are, or sorted by ``cluster``.
        cluster: [K] of integers, or [K, C] of bool, between which lines are drawn.
        norm: The scale of the colours.
        colours: Name of the colours.
        label: What the colours mean.
        title: Title of the whole figure.
        reference: A matrix in front of the others, on a scale of its own.

    Returns:
        The figure, its panels, and the nodes in the order in which they are shown.
    """
    count = next(iter(matrices.values())).shape[0]
    group = groups(cluster, count)
    shown = node_order(order, cluster, count)
    drawn = [Reference(name, matrix, norm, colours, label) for name, matrix in matrices.items()]
    drawn = drawn if reference is None else [reference, *drawn]
    lines = math.ceil(len(drawn) / PANELS)
    columns = math.ceil(len(drawn) / lines)
    figure = new_figure(
        2.9 * columns + (1.2 if reference is None else 1.9), 3.4 * lines + (0.4 if title else 0.1), title
    )
    panels = figure.subplots(lines, columns, squeeze=False).flatten().tolist()
    image = None
    what = "" if cluster is None else ", by first class" if cluster.dim() == 2 else ", by cluster"
    for n, (panel, one) in enumerate(zip(panels, drawn, strict=False)):
        matrix = one.matrix[shown][:, shown].numpy()
        image = panel.imshow(matrix, norm=one.norm, cmap=one.colours, interpolation="nearest")
        panel.set(title=one.name, xlabel=f"sender{what}", ylabel="" if n % columns else f"receiver{what}")
        _ticks(panel, shown, None if group is None else group[shown])
        panel.tick_params(labelleft=n % columns == 0)
        quiet(panel)
    for panel in panels[len(drawn) :]:
        panel.set_visible(False)
    _colour_bar(figure, image, panels, label)
    if reference is not None:
        _colour_bar(figure, panels[0].images[0], panels, reference.label, "left")
    return figure, panels[: len(drawn)], shown


def _colour_bar(
    figure: Figure, image: AxesImage | None, panels: list[Axes], label: str, location: str = "right"
) -> None:
    """Say what colours mean, beside the panels."""
    bar = figure.colorbar(image, ax=panels, label=label, fraction=0.05, pad=0.02, location=location)  # type: ignore[arg-type]
    bar.outline.set_visible(False)
    quiet(bar.ax)


def edge_matrix(edge_index: Tensor, edge_weight: Tensor, count: int, where: str) -> Tensor:
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


def groups(cluster: Tensor | None, count: int) -> Tensor | None:
    """Return the group between which lines are drawn: a node's cluster, or the first of its classes."""
    if cluster is None:
        return None
    if cluster.shape[:1] != (count,) or cluster.dim() > 2 or (cluster.dim() == 2 and cluster.dtype != torch.bool):
        raise ValueError(
            f"cluster must be [K] integers or [K, C] bool for K = {count} nodes, "
            f"got {cluster.dtype} of shape {list(cluster.shape)}"
        )
    return cluster.cpu() if cluster.dim() == 1 else cluster.cpu().int().argmax(1)


def node_order(order: Tensor | None, cluster: Tensor | None, count: int) -> Tensor:
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
