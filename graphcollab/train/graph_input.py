"""Graphs as people have them: who may hear whom, as edges j -> i between the nodes' positions."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

import networkx
import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab.files import of_cell
from graphcollab.naming import few, find_nodes, numbered
from graphcollab.settings import Finite, Natural, SettingError
from graphcollab.tasks import Tasks
from graphcollab.train.learned_graph import LearnedGraph
from graphcollab.transforms import Complete

__all__ = ["Graph", "Pairs", "read_graph", "read_pairs"]

GRAPH = (
    "a Data, an edge_index [2, E], a topology such as Ring(), a matrix [K, K] of NumPy, SciPy or PyTorch, a NetworkX "
    "graph, a list of pairs (sender, receiver) or of (name, name, weight), a frame with names or with columns "
    "sender and receiver, the path of such a CSV file, or None"
)
_ENDS = ("sender", "receiver")


@runtime_checkable
class Frame(Protocol):
    """A frame of pandas or polars."""

    columns: Any

    def to_numpy(self) -> np.ndarray: ...


Pairs: TypeAlias = Annotated[
    Sequence[Sequence[Natural | str | Finite]], "a list of pairs (sender, receiver), such as [('Bern', 'Genf')]"
]
"""Pairs (sender, receiver) of nodes, each by its name or its position (`Node`).

Tuples, and lists of names, may have a weight behind.
"""

Graph: TypeAlias = Annotated[
    Data
    | Tensor
    | np.ndarray
    | sparse.sparray
    | sparse.spmatrix
    | networkx.Graph
    | Pairs
    | Frame
    | str
    | os.PathLike[str]
    | BaseTransform
    | None,
    GRAPH,
]
"""Who may hear whom. An edge goes from the sender to the receiver, who hears it.

In a matrix the receiver is the row and the sender the column, as in w_ij: an entry above 0 is an edge, and one below 0
is refused. A frame of pandas may be one, with the nodes' names in its index and its columns, in any order. A frame or a
CSV file with columns ``sender`` and ``receiver``, such as `LearnedGraph.to_csv` writes, is a list of pairs. (Whole
numbers of shape [2, E] are always an ``edge_index``, of positions; where nodes' names are other whole numbers it is
refused, since there a number is a name, see `Node`: give pairs, or a ``Data``, which always holds positions.) Edges of
an undirected NetworkX graph go both ways; its nodes are the tasks' names or positions (`Node`), and nodes that it lacks
have no edges. Weights that are given say only where there is an edge: those of a run are the method's to find.
"""


def read_graph(graph: Graph, tasks: Tasks) -> Data:
    """Return a graph's edges between positions, and of a ``Data`` the other fields that belong to edges."""
    count = tasks.num_nodes
    if graph is None or isinstance(graph, BaseTransform):
        found: Data = (graph or Complete())(Data(num_nodes=count, node_id=tasks.ids))
        return found
    if isinstance(graph, Data):
        fields = {name: graph[name] for name in graph.keys() if "edge" in name and name != "edge_weight"}  # noqa: SIM118
        if isinstance(graph, LearnedGraph) and list(graph.name) != list(tasks.names):
            place = torch.tensor(find_nodes(graph.name, tasks.names), dtype=torch.int64)
            return Data(num_nodes=count, **{**fields, "edge_index": place[graph.edge_index.cpu()]})
        return Data(num_nodes=graph.num_nodes, **fields).cpu()
    if isinstance(graph, networkx.Graph):
        ends = graph.edges(keys=False) if graph.is_multigraph() else graph.edges
        pairs = [*ends] if graph.is_directed() else [*ends, *((j, i) for i, j in ends)]
        find_nodes(graph, tasks.names)  # those without edges as well, which may be misspelt
        return Data(num_nodes=count, edge_index=read_pairs("graph", GRAPH, pairs, tasks.names, tasks.names))
    if isinstance(graph, str | os.PathLike):
        graph = _read_csv(graph)
    elif isinstance(graph, Frame):
        graph = _of_frame(graph, tasks)
    if isinstance(graph, Tensor | np.ndarray | sparse.sparray | sparse.spmatrix):
        return Data(num_nodes=count, edge_index=_from_numbers(graph, tasks))
    return Data(num_nodes=count, edge_index=read_pairs("graph", GRAPH, graph, tasks.names, tasks.names))


def _read_csv(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Return the pairs of a CSV file."""
    if Path(path).suffix.lower() != ".csv":
        raise SettingError("graph", GRAPH, path)
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        try:
            pairs = [(of_cell(row.get("sender") or ""), of_cell(row.get("receiver") or "")) for row in rows]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} cannot be read as a CSV file in UTF-8 ({error}; line {rows.line_num})") from error
        if not {*_ENDS} <= {*(rows.fieldnames or ())}:
            raise ValueError(
                f"{path} has the columns {few(rows.fieldnames or ())}, and a graph needs sender and receiver"
            )
        return pairs


def _of_frame(frame: Any, tasks: Tasks) -> np.ndarray | list[tuple[str, str]]:
    """Return the pairs of a frame, or its matrix in the order of the nodes."""
    columns, index = [*map(str, frame.columns)], [*map(str, getattr(frame, "index", ()))]
    if {*_ENDS} <= {*columns}:
        return [(str(sender), str(receiver)) for sender, receiver in zip(*(frame[end] for end in _ENDS), strict=True)]
    if not sorted(columns) == sorted(index) == sorted(tasks.names):
        raise ValueError(
            "a frame as a graph needs the names of all nodes as its index, for receivers, and as its columns, for "
            f"senders, or columns sender and receiver; the nodes are {few(tasks.names)}, its index {few(index)} and "
            f"its columns {few(columns)}"
        )
    rows, places = ([labels.index(name) for name in tasks.names] for labels in (index, columns))
    return np.asarray(frame.to_numpy(), np.float64)[np.ix_(rows, places)]


def read_pairs(name: str, what: str, pairs: Pairs, senders: Sequence[str], receivers: Sequence[str]) -> Tensor:
    """Return pairs of nodes as ``edge_index`` [2, E], each once; a `SettingError` names the argument."""
    if not all(map(_is_edge, pairs)):
        raise SettingError(name, what, pairs)
    nodes: list[list[Any]] = [[pair[end] for pair in pairs] for end in (0, 1)]
    j, i = (find_nodes(some, names) for some, names in zip(nodes, (senders, receivers), strict=True))
    return torch.tensor([j, i], dtype=torch.int64).unique(dim=1) if j else torch.empty(2, 0, dtype=torch.int64)


def _is_edge(pair: Sequence[object]) -> bool:
    """Tell a pair of nodes, or of names with a weight behind (`LearnedGraph.named_edges`), from the row of a matrix."""
    ends, weight = pair[:2], pair[2:]
    if weight:
        kinds = str | int if isinstance(pair, tuple) else str  # a matrix of lists may have rows of whole numbers
        named = all(isinstance(end, kinds) for end in ends)
        return len(weight) == 1 and not isinstance(weight[0], str) and named
    return len(ends) == 2 and not any(isinstance(end, float) for end in ends)


def _from_numbers(graph: Tensor | np.ndarray | sparse.sparray | sparse.spmatrix, tasks: Tasks) -> Tensor:
    """Return the edges of an ``edge_index`` or a matrix."""
    count = tasks.num_nodes
    if isinstance(graph, sparse.sparray | sparse.spmatrix):
        _require_size(graph.shape, count)
        entries = graph.tocoo()
        return _entries(torch.tensor(np.stack(entries.coords)).long(), torch.tensor(entries.data), tasks)
    try:
        matrix = torch.as_tensor(np.array(graph, order="C") if isinstance(graph, np.ndarray) else graph).detach().cpu()
    except TypeError as error:
        raise SettingError("graph", GRAPH, graph) from error
    whole = not (matrix.is_floating_point() or matrix.is_complex() or matrix.dtype == torch.bool)
    if matrix.dim() != 2 or len(matrix) != matrix.shape[1] or (whole and len(matrix) == 2):
        if numbered(tasks.names) and list(tasks.names) != [*map(str, range(count))]:
            raise ValueError(
                f"the graph is an edge_index, whose numbers are positions, and the names of the nodes are numbers, "
                f"too: {few(tasks.names)}. Give pairs (sender, receiver) of names, such as graph=edge_index.T.tolist() "
                f"if they are names, or Data(edge_index=edge_index, num_nodes={count}) if they are positions"
            )
        return matrix  # an edge_index, or what is refused as one
    _require_size(matrix.shape, count)
    if matrix.layout == torch.strided:
        found = matrix.nonzero().T
        return _entries(found, matrix[found[0], found[1]], tasks)
    matrix = matrix.to_sparse_coo().coalesce()
    return _entries(matrix.indices(), matrix.values(), tasks)


def _entries(places: Tensor, values: Tensor, tasks: Tasks) -> Tensor:
    """Return the edges of entries of a matrix, at [receivers, senders], that are above 0; others must be 0."""
    real = values.real if values.is_complex() else values
    bad = values.isnan() if values.dtype == torch.bool else values.isnan() | (real < 0)
    if bool(bad.any()):
        one, two = (tasks.names[k] for k in places[:, bad][:, 0].tolist())
        raise ValueError(
            f"the graph's matrix has {_said(values[bad][0])} where {one!r} may hear {two!r}: give 0 "
            "where there is no edge, and a number above 0 where there is one"
        )
    return places.flip(0)[:, values != 0]


def _said(value: Tensor) -> str:
    return "NaN" if bool(value.isnan()) else f"{value.item():g}"


def _require_size(shape: Sequence[int], count: int) -> None:
    if tuple(shape) != (count, count):
        raise ValueError(
            f"the graph is a matrix {list(shape)}, and the tasks have {count} nodes: give [{count}, {count}], a row "
            "for every receiver and a column for every sender"
        )
