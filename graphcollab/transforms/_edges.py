"""Common parts of transforms: checked settings, and the checks, fields, order and ranks of the edges of a ``Data``.

An edge j -> i has its sender j in ``edge_index[0]`` and its receiver i in ``edge_index[1]``. Every tensor of a ``Data``
whose name contains "edge" belongs to the edges: ``edge_index`` along its last dimension, all others along their first.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab._base.errors import DuplicateError, MissingError, ShapeError
from graphcollab._base.settings import checked
from graphcollab.nn.functional import edges
from graphcollab.nn.functional.by_receiver import by_receiver, turns


class Transform(BaseTransform):
    """Base class: attributes are settings, checked by the annotations of ``__init__`` and printed by ``__repr__``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]

    def __repr__(self) -> str:
        settings = {name: value for name, value in vars(self).items() if value is not None}
        shown = (f"{k}={list(v.shape) if isinstance(v, Tensor) else v}" for k, v in settings.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def node_count(data: Data) -> int:
    """Return K, given by ``num_nodes`` or a node field (``node_id``, ``x``)."""
    if not any(name in data for name in ("num_nodes", "node_id", "x")):
        raise MissingError("num_nodes", "this Data has none of num_nodes, node_id and x: set Data(num_nodes=K, ...)")
    return int(data.num_nodes)


def node_ids(data: Data) -> Tensor:
    """Return the stable identities of the nodes, [K] int64: ``data.node_id``, or 0..K-1 if it is not set."""
    count = node_count(data)
    if "node_id" not in data:
        return torch.arange(count, device=data.edge_index.device if "edge_index" in data else None)
    node_id = data.node_id
    if node_id.shape != (count,) or node_id.is_floating_point():
        raise ShapeError(
            "node_id",
            f"node_id must hold {count} integers, one per node, got {node_id.dtype} of shape {tuple(node_id.shape)}",
        )
    values, repeats = node_id.unique(return_counts=True)
    if values.numel() < count:
        raise DuplicateError(
            "node_id",
            f"node_id must be distinct, but {int(values[repeats > 1][0])} is used by {int(repeats.max())} nodes",
        )
    return node_id.long()


def check_edges(data: Data, distinct: bool = False) -> None:
    """Check that ``data`` has edges, [2, E], that their nodes exist, and, if asked, that no edge occurs twice."""
    count = node_count(data)
    if "edge_index" not in data or data.edge_index is None:
        raise MissingError(
            "edge_index", "this Data has no edge_index: apply a topology first, for instance transforms.Complete()"
        )
    edges.check_edges(data.edge_index, count)
    if distinct:
        edges.check_distinct(data.edge_index, count)


def edge_keys(edge_index: Tensor, count: int) -> Tensor:
    """Return one number per edge, ``receiver * K + sender``, which sorts edges in CSR order."""
    return edge_index[1].long() * count + edge_index[0].long()


def edge_fields(data: Data) -> dict[str, Tensor]:
    """Return all tensors of ``data`` that belong to its edges, with ``edge_index``, after checking their lengths."""
    fields = {name: value for name, value in data if "edge" in name and isinstance(value, Tensor) and value.dim() > 0}
    count = data.edge_index.size(1)
    for name, value in fields.items():
        if (size := value.size(data.__cat_dim__(name, value))) != count:
            raise ShapeError(name, f"{name}, a field of edges by its name, must have {count} entries, got {size}")
    return fields


def edge_weights(data: Data) -> Tensor:
    """Return ``data.edge_weight`` [E] after checking that it has one number per edge and no NaN."""
    weight = data.edge_weight if "edge_weight" in data else None
    if weight is None:
        raise MissingError(
            "edge_weight",
            "this Data has no edge_weight: weigh the edges first, or set data.edge_weight to one per edge",
        )
    edges.check_weights(weight, data.edge_index)
    return weight


def select_edges(data: Data, index: Tensor) -> Data:
    """Return a shallow copy of ``data`` with selected edges, given ordered positions [E'] or a mask [E]."""
    if index.dtype == torch.bool:
        index = index.nonzero().view(-1)
    out = copy.copy(data)
    for name, value in edge_fields(data).items():
        plain = value.as_tensor() if isinstance(value, EdgeIndex) else value  # its known sort order is lost
        out[name] = plain.index_select(data.__cat_dim__(name, value), index)
    return out


def with_edges(data: Data, others: Data) -> Data:
    """Return a shallow copy of ``data`` with the sorted edges of another graph with the same nodes and fields."""
    out = copy.copy(data)
    for name, value in edge_fields(data).items():
        out[name] = torch.cat([value, others[name]], dim=data.__cat_dim__(name, value))
    return sort_edges(out)


def sort_edges(data: Data) -> Data:
    """Return a shallow copy of ``data`` with its edges sorted by receiver, then sender, as in a CSR matrix."""
    return select_edges(data, edge_keys(data.edge_index, node_count(data)).argsort(stable=True))


def neighbor_rank(data: Data) -> tuple[Tensor, Tensor]:
    """Return the rank of every edge among its receiver's neighbors, 0 for the strongest, and their number.

    Self-loops have rank -1. Both are [E], int64. For equal weights, the sender with the smaller ``node_id`` comes
    first, so the order of edges and nodes in memory does not matter.
    """
    weight = edge_weights(data).detach()
    sender, receiver = data.edge_index.long()
    neighbors = (sender != receiver).nonzero().view(-1)
    order = neighbors[by_receiver(receiver[neighbors], -weight[neighbors], node_ids(data)[sender[neighbors]])]
    rank = torch.full_like(sender, -1)
    rank[order] = turns(receiver[order], node_count(data))
    return rank, torch.bincount(receiver[order], minlength=node_count(data))[receiver]
