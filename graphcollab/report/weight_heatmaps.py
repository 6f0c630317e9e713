"""Mixing weights as pictures (Fig. 4 and 5 of L2C)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.metrics import class_overlap
from graphcollab.report._heatmaps import Reference, draw_heatmaps, edge_matrix
from graphcollab.settings import Count, checked

__all__ = ["weight_heatmaps"]


@checked
def weight_heatmaps(
    graphs: Mapping[int, tuple[Tensor, Tensor]],
    num_nodes: Count,
    order: Tensor | None = None,
    cluster: Tensor | None = None,
    title: str | None = None,
    classes: Tensor | None = None,
) -> Figure:
    """Draw K x K heat maps of the mixing weights at several rounds side by side.

    It is Fig. 4 and 5 of
    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_.
    A row is a receiver, a column a sender; a pair without an edge stays white. All panels share one colour scale, in
    which colour follows the square root of the weight, so that uniform weights of many nodes and the few large ones
    that are learned can both be seen. Where weights are negative, the scale is linear and symmetric about 0 instead.

    With ``classes`` the first panel is the share of the receiver's classes that the sender has too (`class_overlap`),
    as in Fig. 4 of `MAPL <https://arxiv.org/abs/2403.19792>`_: what the weights should look like, if nodes with the
    same classes are to collaborate.

    Args:
        graphs: Edges j -> i and what i gives to j, by round, such as ``history.graphs``.
        num_nodes: K.
        order: The nodes from top to bottom and from left to right. Default: as they are, or sorted by ``cluster``.
        cluster: The true cluster of each node, or which classes each node has, as in ``tasks.classes``. Nodes are
            sorted by it (classes: by their first, then by their second class, and so on) and lines are drawn between
            the clusters (between nodes of different first classes).
        title: Title of the whole figure.
        classes: Which classes each node has, such as ``tasks.classes``, for the first panel. Default: there is none.

    Shapes:
        graphs: [2, E] and [E] for each round.
        order: [K].
        cluster: [K] of integers, or [K, C] of bool.
        classes: [K, C], bool.

    Raises:
        ValueError: If there is no graph, an edge is out of range, a weight is not finite, or ``order``, ``cluster`` or
            ``classes`` are not for K nodes.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
        >>> graphs = {1: (edge_index, torch.tensor([0.5, 0.5, 1.0])), 10: (edge_index, torch.tensor([0.9, 0.1, 1.0]))}
        >>> figure = weight_heatmaps(graphs, num_nodes=2)
        >>> [axes.get_title() for axes in figure.axes[:2]]
        ['round 1', 'round 10']
    """
    if not graphs:
        raise ValueError("expected the graph of at least one round, got none: record them with RecordGraph(rounds)")
    matrices = {f"round {r}": edge_matrix(*graphs[r], num_nodes, f"round {r}") for r in sorted(graphs)}
    norm, colours = _scale(list(matrices.values()))
    reference = None if classes is None else _overlap(classes.cpu(), num_nodes)
    return draw_heatmaps(matrices, order, cluster, norm, colours, "mixing weight", title, reference)[0]


def _overlap(classes: Tensor, num_nodes: int) -> Reference:
    shares = 100 * class_overlap(classes)
    if len(shares) != num_nodes:
        raise ValueError(f"classes must be [K, C] for K = {num_nodes} nodes, got shape {list(classes.shape)}")
    return Reference("common classes", shares, Normalize(0, 100), "YlGnBu", "share of the receiver's classes (%)")


def _scale(matrices: list[Tensor]) -> tuple[Normalize, str]:
    low = min(float(matrix.nan_to_num(0.0).min()) for matrix in matrices)
    high = max(float(matrix.nan_to_num(0.0).max()) for matrix in matrices)
    if low < 0:
        return Normalize(-max(high, -low), max(high, -low)), "PuOr_r"
    return PowerNorm(0.5, 0.0, high or 1.0), "magma_r"
