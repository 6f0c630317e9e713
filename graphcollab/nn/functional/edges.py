"""Checks of edges j -> i and their weights, which transforms and metrics share; messages begin with ``where``."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab._base.errors import DuplicateError, NotFiniteError, RangeError, ShapeError


def check_edges(edge_index: Tensor, count: int, where: str = "") -> None:
    """Check that edges are integers, [2, E], and that their K nodes exist."""
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype not in (torch.int64, torch.int32):
        kind = f"{edge_index.dtype} of shape {list(edge_index.shape)}"
        raise ShapeError("edge_index", f"{where}edge_index must hold integers, [2, E], got {kind}")
    outside = ((edge_index < 0) | (edge_index >= count)).any(0)
    if bool(outside.any()):
        edge = int(outside.nonzero()[0])
        sender, receiver = edge_index[:, edge].tolist()
        what = f"edge {edge} ({sender} -> {receiver}) is out of range for {count} nodes, numbered from 0"
        raise RangeError("edge_index", f"{where}{what}")


def check_weights(edge_weight: Tensor, edge_index: Tensor, where: str = "", partly: bool = False) -> None:
    """Check that there is one weight per edge, not NaN unless only ``partly`` known."""
    if edge_weight.shape != edge_index.shape[1:]:
        want, got = list(edge_index.shape[1:]), list(edge_weight.shape)
        raise ShapeError("edge_weight", f"{where}edge_weight must have one number per edge, shape {want}, got {got}")
    if not partly and bool(edge_weight.isnan().any()):
        edge = int(edge_weight.isnan().nonzero()[0])
        sender, receiver = edge_index[:, edge].tolist()
        what = f"edge_weight of edge {edge} ({sender} -> {receiver}) is NaN: between sites, only its receiver knows it"
        raise NotFiniteError("edge_weight", f"{where}{what}")


def check_distinct(edge_index: Tensor, count: int, where: str = "") -> None:
    """Check that no edge between K nodes occurs twice."""
    keys, repeats = (edge_index[1].long() * count + edge_index[0].long()).unique(return_counts=True)
    if len(keys) < edge_index.size(1):
        receiver, sender = divmod(int(keys[repeats.argmax()]), count)
        what = f"edge {sender} -> {receiver} occurs {int(repeats.max())} times: merge by data.coalesce()"
        raise DuplicateError("edge_index", f"{where}{what}")
