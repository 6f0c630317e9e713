"""Graphs as people have them: who may hear whom, as edges j -> i between the nodes' positions."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab.checks import issue
from graphcollab.errors import (
    AmbiguousError,
    ConflictError,
    FormatError,
    InvalidValueError,
    MissingError,
    ShapeError,
)
from graphcollab.files import of_cell
from graphcollab.method import Method
from graphcollab.naming import few, find_nodes, numbered
from graphcollab.phases import Phases
from graphcollab.settings import Finite, Natural, SettingError
from graphcollab.tasks import Tasks
from graphcollab.train.learned_graph import LearnedGraph
from graphcollab.transforms import Complete, WithSelfLoops
from graphcollab.transforms._edges import edge_weights

GRAPH = (
    "a Data, an edge_index [2, E], a topology such as Ring(), a matrix [K, K] of NumPy or PyTorch, a list of pairs "
    "(sender, receiver) or of (sender, receiver, weight), the path of a CSV file with the columns sender and receiver, "
    "or None"
)
_ENDS = ("sender", "receiver")


Pairs: TypeAlias = Annotated[
    Sequence[Sequence[Natural | str | Finite]], "a list of pairs (sender, receiver), such as [('Bern', 'Genf')]"
]
"""Pairs (sender, receiver) of nodes, each by its name or its position (`Node`).

Tuples, and lists of names, may have a weight behind.
"""

Graph: TypeAlias = Annotated[Data | Tensor | np.ndarray | Pairs | str | os.PathLike[str] | BaseTransform | None, GRAPH]
"""Who may hear whom. An edge goes from the sender to the receiver, who hears it.

In a matrix the receiver is the row and the sender the column, as in w_ij: an entry above 0 is an edge, and one below 0
is refused. A CSV file with columns ``sender`` and ``receiver``, such as `LearnedGraph.to_csv` writes, is a list of
pairs. (Whole numbers of shape [2, E] are always an ``edge_index``, of positions; where nodes' names are other whole
numbers it is refused, since there a number is a name, see `Node`: give pairs, or a ``Data``, which always holds
positions.) Weights that are given are those of the run where its method keeps them (`graphcollab.weigh.KeepWeights` in
the first phase); else they say only where there is an edge, and a warning says so where they differ from each other.
"""


def read_graph(graph: Graph, tasks: Tasks) -> Data:
    """Return a graph's edges between positions, their weights where it has some, and a ``Data``'s fields of edges."""
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
        return _from_numbers(graph, tasks)
    return _of_pairs(_read_csv(graph) if isinstance(graph, str | os.PathLike) else graph, tasks)


def _of_pairs(pairs: Pairs, tasks: Tasks) -> Data:
    """Return the edges of pairs, and their weights where all of them have one behind."""
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
    """Return the weights that edges begin with, [E]: those that were given where they are kept, else 0.

    A ValueError says that there are none to keep.
    """
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
            f"{first.name} keeps the weights that the graph's edges come with, and they have none: give edge_weight in "
            "a Data, the entries of a matrix, or pairs (sender, receiver, weight); weigh=Uniform() gives all alike",
        )
    return torch.zeros(data.num_edges, dtype=dtype)


def _keeps_none(method: Method) -> bool:
    """Tell whether a method mixes by weights that nothing gives edges which come without."""
    given = method.prepare is not None and not isinstance(method.prepare, WithSelfLoops)
    return method.weigh.origin == "kept" and not method.local.crosses and not given


def _read_csv(path: str | os.PathLike[str]) -> list[tuple[Any, ...]]:
    """Return the pairs of a CSV file, with their weights if it has a column of them."""
    if Path(path).suffix.lower() != ".csv":
        raise SettingError("graph", GRAPH, path)
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        try:
            columns = rows.fieldnames or ()
            if not {*_ENDS} <= {*columns}:
                raise MissingError(
                    f"file {path}", f"{path} has the columns {few(columns)}, and a graph needs sender and receiver"
                )
            pairs = [(of_cell(row["sender"] or ""), of_cell(row["receiver"] or ""), row.get("weight")) for row in rows]
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(
                f"file {path}", f"{path} cannot be read as a CSV file in UTF-8 ({error}; line {rows.line_num})"
            ) from error
    return [(j, i, _weight(weight, path)) for j, i, weight in pairs] if "weight" in columns else [p[:2] for p in pairs]


def _weight(cell: str | None, path: object) -> float:
    try:
        return float(cell or "")
    except ValueError as error:
        raise FormatError(f"file {path}", f"{path} has the weight {cell!r}, expected a number") from error


def read_pairs(name: str, what: str, pairs: Pairs, senders: Sequence[str], receivers: Sequence[str]) -> Tensor:
    """Return pairs of nodes as ``edge_index`` [2, E], each once; a `SettingError` names the argument."""
    return _ends(name, what, pairs, senders, receivers).unique(dim=1)


def _ends(name: str, what: str, pairs: Pairs, senders: Sequence[str], receivers: Sequence[str]) -> Tensor:
    if not all(map(_is_edge, pairs)):
        raise SettingError(name, what, pairs)
    nodes: list[list[Any]] = [[pair[end] for pair in pairs] for end in (0, 1)]
    j, i = (find_nodes(some, names) for some, names in zip(nodes, (senders, receivers), strict=True))
    return torch.tensor([j, i], dtype=torch.int64)


def _is_edge(pair: Sequence[object]) -> bool:
    """Tell a pair of nodes, or of names with a weight behind (`LearnedGraph.named_edges`), from the row of a matrix."""
    ends, weight = pair[:2], pair[2:]
    if weight:
        kinds = str | int if isinstance(pair, tuple) else str  # a matrix of lists may have rows of whole numbers
        named = all(isinstance(end, kinds) for end in ends)
        return len(weight) == 1 and not isinstance(weight[0], str) and named
    return len(ends) == 2 and not any(isinstance(end, float) for end in ends)


def _from_numbers(graph: Tensor | np.ndarray, tasks: Tasks) -> Data:
    """Return the edges of an ``edge_index``, or of a matrix, and its entries as weights."""
    count = tasks.num_nodes
    try:
        matrix = torch.as_tensor(np.array(graph, order="C") if isinstance(graph, np.ndarray) else graph).detach().cpu()
    except TypeError as error:
        raise SettingError("graph", GRAPH, graph) from error
    if matrix.is_complex():
        raise SettingError("graph", GRAPH, graph)
    whole = not (matrix.is_floating_point() or matrix.dtype == torch.bool)
    if matrix.dim() != 2 or len(matrix) != matrix.shape[1] or (whole and len(matrix) == 2):
        if numbered(tasks.names) and list(tasks.names) != [*map(str, range(count))]:
            raise AmbiguousError(
                "graph",
                f"the graph is an edge_index, whose numbers are positions, and the names of the nodes are numbers, "
                f"too: {few(tasks.names)}. Give pairs (sender, receiver) of names, such as graph=edge_index.T.tolist() "
                f"if they are names, or Data(edge_index=edge_index, num_nodes={count}) if they are positions",
            )
        return Data(num_nodes=count, edge_index=matrix)  # or what is refused as one
    if len(matrix) != count:
        raise ShapeError(
            "graph",
            f"the graph is a matrix {list(matrix.shape)}, and the tasks have {count} nodes: give [{count}, {count}], a "
            "row for every receiver and a column for every sender",
        )
    matrix = matrix.double().to_sparse_coo().coalesce()
    (receiver, sender), weight = matrix.indices(), matrix.values()
    if bool((bad := weight.isnan() | (weight < 0)).any()):
        one, two = (tasks.names[int(ends[bad][0])] for ends in (receiver, sender))
        raise InvalidValueError(
            "graph",
            f"the graph's matrix has {float(weight[bad][0]):g} where {one!r} may hear {two!r}: give 0 "
            "where there is no edge, and a number above 0 where there is one",
        )
    there = weight != 0  # a sparse matrix may store zeros
    return Data(num_nodes=count, edge_index=torch.stack([sender, receiver])[:, there], edge_weight=weight[there])
