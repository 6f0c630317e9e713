"""Common checks and conversions of edges for graph metrics and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from graphcollab._base.documentation import checked_with
from graphcollab._base.errors import NotFiniteError
from graphcollab.nn.functional import edges

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
    """Check that nodes exist and that there is one number per edge, not NaN unless only ``partly`` known.

    Messages begin with ``where``, such as ``"round 3: "``.
    """
    edges.check_edges(edge_index, count, where)
    edges.check_weights(edge_weight, edge_index, where, partly)


def pair_weights(edge_index: Tensor, edge_weight: Tensor, count: int, where: str = "", partly: bool = False) -> Tensor:
    """Return the weights of all ordered pairs, [K, K], float64: receivers in rows, NaN if unknown."""
    check_edges(edge_index, edge_weight, count, where, partly)
    if bool(edge_weight.isinf().any()):
        raise NotFiniteError(
            "edge_weight", f"{where}the weight of edge {int(edge_weight.isinf().nonzero()[0])} is not finite"
        )
    edges.check_distinct(edge_index, count, where)
    sender, receiver = edge_index.long()
    weights = edge_weight.new_full((count, count), torch.nan, dtype=torch.float64)
    weights[receiver, sender] = edge_weight.detach().double()
    return weights
