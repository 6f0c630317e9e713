"""Graphs in user-facing forms, converted to edges j -> i between the nodes' positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab._base.checks import issue
from graphcollab._base.errors import AmbiguousError, ConflictError, MissingError
from graphcollab._base.naming import few, find_nodes, numbered
from graphcollab._base.settings import Finite, Natural, SettingError
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.persistence.learned_graph import LearnedGraph
from graphcollab.transforms import Complete, WithSelfLoops
from graphcollab.transforms._edges import edge_weights

GRAPH = (
    "a Data, an edge_index [2, E], a topology such as Ring(), a list of pairs (sender, receiver) or of tuples (sender, "
    "receiver, weight), or None; a file is read by LearnedGraph.from_csv, and a matrix W with receivers in rows by "
    "torch_geometric.utils.dense_to_sparse(W.T)"
)

Pairs: TypeAlias = Annotated[
    Sequence[Sequence[Natural | str | Finite]], "a list of pairs (sender, receiver), such as [('Bern', 'Genf')]"
]
"""Pairs (sender, receiver) of nodes, each given by its name or its position (`Node`).

Tuples may have a weight as a third entry.
"""

Graph: TypeAlias = Annotated[Data | Tensor | np.ndarray | Pairs | BaseTransform | None, GRAPH]
"""The edges along which nodes may hear each other, directed from the sender to the receiver.

An ``edge_index`` holds positions. If nodes' names are whole numbers other than their positions, it is rejected, since
a number is then a name, see `Node`: pass pairs, or a ``Data``, which always holds positions. Given weights become those
of the run if its method keeps them (`KeepWeights` in the first phase); otherwise they only mark the edges, and a
warning is issued if they differ from each other.
"""


def read_graph(graph: Graph, tasks: Tasks) -> Data:
    """Return a graph's edges between positions, their weights if it has any, and a ``Data``'s edge fields."""
    count = tasks.num_nodes
    if graph is None or isinstance(graph, BaseTransform):
        found: Data = (graph or Complete())(Data(num_nodes=count, node_id=tasks.ids))
        return found
    if isinstance(graph, Data):
        fields = {name: graph[name] for name in graph.keys() if "edge" in name}  # noqa: SIM118
        if isinstance(graph, LearnedGraph) and list(graph.name) != list(tasks.names):
            place = torch.tensor(find_nodes(graph.name, tasks.names), dtype=torch.int64)
            return Data(num_nodes=count, **{**fields, "edge_index": place[graph.edge_index.cpu()]})
        return Data(num_nodes=graph.num_nodes, **fields).cpu()
    if isinstance(graph, Tensor | np.ndarray):
        return _of_index(graph, tasks)
    return _of_pairs(graph, tasks)


def _of_pairs(pairs: Pairs, tasks: Tasks) -> Data:
    found, place = _ends("graph", GRAPH, pairs, tasks.names, tasks.names).unique(dim=1, return_inverse=True)
    data = Data(num_nodes=tasks.num_nodes, edge_index=found)
    if len(pairs) and all(len(pair) == 3 for pair in pairs):
        given: list[Any] = [pair[2] for pair in pairs]
        weight = torch.tensor(given, dtype=torch.float64)
        data.edge_weight = weight.new_empty(found.shape[1]).index_copy_(0, place, weight)
        if bool((apart := (data.edge_weight[place] != weight) & ~weight.isnan()).any()):
            edge = place[apart][0]
            j, i = (tasks.names[k] for k in found[:, edge].tolist())
            raise ConflictError(
                "graph", f"the graph has the edge from {j!r} to {i!r} more than once, with different weights"
            )
    return data


def begin_weights(data: Data, method: Method | Phases | None, dtype: torch.dtype) -> Tensor:
    """Return the initial edge weights, [E]: the given ones if the method keeps them (else a ValueError), or else 0."""
    first = None if method is None else method.last(0)
    if "edge_weight" in data and first is not None:
        if first.weigh.origin == "kept" and not first.local.crosses:
            return edge_weights(data).to(dtype)
        if not bool((data.edge_weight == data.edge_weight[:1]).all()):
            issue(
                "no-effect",
                "graph",
                f"the weights of the graph's edges are not read: {first.name} finds its own, and those say only where "
                "there is an edge. A method with weigh=KeepWeights() in its first phase mixes by them",
            )
    elif first is not None and _keeps_none(first) and data.num_edges:
        raise MissingError(
            "graph",
            f"{first.name} needs a graph with weights: give a Data with edge_weight, or (sender, receiver, weight)",
        )
    return torch.zeros(data.num_edges, dtype=dtype)


def _keeps_none(method: Method) -> bool:
    """Return whether a method mixes by weights but does not set them on edges that come without."""
    given = method.prepare is not None and not isinstance(method.prepare, WithSelfLoops)
    return method.weigh.origin == "kept" and not method.local.crosses and not given


def read_pairs(name: str, what: str, pairs: Pairs, senders: Sequence[str], receivers: Sequence[str]) -> Tensor:
    """Return pairs of nodes as ``edge_index`` [2, E], each once; a `SettingError` names the argument."""
    return _ends(name, what, pairs, senders, receivers).unique(dim=1)


def _ends(name: str, what: str, pairs: Pairs, senders: Sequence[str], receivers: Sequence[str]) -> Tensor:
    # lists of three are the rows of a matrix
    if not all(len(pair) == 2 or (len(pair) == 3 and isinstance(pair, tuple)) for pair in pairs):
        raise SettingError(name, what, pairs)
    nodes: list[list[Any]] = [[pair[end] for pair in pairs] for end in (0, 1)]
    j, i = (find_nodes(some, names) for some, names in zip(nodes, (senders, receivers), strict=True))
    return torch.tensor([j, i], dtype=torch.int64)


def _of_index(graph: Tensor | np.ndarray, tasks: Tasks) -> Data:
    """Return the edges of an ``edge_index``; `build_graph` checks its shape and type."""
    index = torch.as_tensor(np.array(graph, order="C") if isinstance(graph, np.ndarray) else graph).detach().cpu()
    if index.dim() != 2 or len(index) != 2:
        raise SettingError("graph", GRAPH, graph)
    if numbered(tasks.names) and list(tasks.names) != [*map(str, range(tasks.num_nodes))]:
        raise AmbiguousError(
            "graph",
            f"the graph is an edge_index, whose numbers are positions, and the names of the nodes are numbers, "
            f"too: {few(tasks.names)}. Give pairs (sender, receiver) of names, such as graph=edge_index.T.tolist() "
            f"if they are names, or Data(edge_index=edge_index, num_nodes={tasks.num_nodes}) if they are positions",
        )
    return Data(num_nodes=tasks.num_nodes, edge_index=index)
