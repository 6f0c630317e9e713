"""Common checks and conversions of edges for graph metrics and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from graphcollab._base.documentation import checked_with
from graphcollab._base.errors import DuplicateError, NotFiniteError, RangeError, ShapeError

Graph: TypeAlias = tuple[Tensor, Tensor]
"""Edges j -> i, [2, E], and the weight of j at receiver i, [E]."""
Graphs: TypeAlias = Mapping[int, Graph]
"""Graphs by round, such as ``history.graphs``."""

SHARED = {
    "edge_index": "Edges j -> i, [2, E].",
    "edge_weight": "What i gives to j, [E].",
    "graphs": "Edges j -> i, [2, E], and what i gave to j, [E], by round, such as ``history.graphs``.",
    "num_nodes": "K.",
    "num_clusters": "How many clusters to look for, 1 to K. Default: the graph says it.",
    "seed": "Seed of the search.",
    "cluster": "The true cluster of each node, [K].",
    "classes": "Which classes each node has, such as ``tasks.classes``, [K, C], bool.",
    "split": '``"train"``, ``"val"`` or ``"test"``.',
    "per_node": "How many samples of a node at most, drawn at random; None: all.",
    "of": '``"latent"``: what the head reads; ``"projection"``: what contrastive losses compare.',
}
"""Documentation of the common arguments of metrics, tables and figures, unless a function documents them itself."""

measure = checked_with(SHARED)


def check_edges(edge_index: Tensor, edge_weight: Tensor, count: int, where: str = "", partly: bool = False) -> None:
    """Check that there is one number per edge, not NaN unless only ``partly`` known, and that nodes exist.

    Messages begin with ``where``, such as ``"round 3: "``.
    """
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_weight.shape != edge_index.shape[1:]:
        raise ShapeError(
            "edge_index",
            f"{where}expected edge_index [2, E] and edge_weight [E], got {[*edge_index.shape]}, {[*edge_weight.shape]}",
        )
    if bool(edge_weight.isnan().any()) and not partly:
        raise NotFiniteError(
            "edge_weight",
            f"{where}edge_weight of edge {int(edge_weight.isnan().nonzero()[0])} is NaN (between sites only a receiver "
            "knows its weights; weight_heatmaps shows those that are known)",
        )
    outside = ((edge_index < 0) | (edge_index >= count)).any(dim=0)
    if bool(outside.any()):
        edge = int(outside.nonzero()[0])
        sender, receiver = edge_index[:, edge].tolist()
        raise RangeError("edge_index", f"{where}edge {edge} ({sender} -> {receiver}) is out of range for {count} nodes")


def pair_weights(edge_index: Tensor, edge_weight: Tensor, count: int, where: str = "", partly: bool = False) -> Tensor:
    """Return the weights of all ordered pairs, [K, K], float64: receivers in rows, NaN if unknown."""
    check_edges(edge_index, edge_weight, count, where, partly)
    if bool(edge_weight.isinf().any()):
        raise NotFiniteError(
            "edge_weight", f"{where}the weight of edge {int(edge_weight.isinf().nonzero()[0])} is not finite"
        )
    sender, receiver = edge_index.long()
    weights = edge_weight.new_full((count, count), torch.nan, dtype=torch.float64)
    weights[receiver, sender] = edge_weight.detach().double()
    once = len(torch.unique(receiver * count + sender))
    if once < sender.numel():
        raise DuplicateError(
            "edge_index", f"{where}{sender.numel() - once} of {sender.numel()} edges occur more than once"
        )
    return weights
