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

from graphcollab.checks import issue
from graphcollab.errors import (
    AmbiguousError,
    ConflictError,
    FormatError,
    InvalidValueError,
    MismatchError,
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

__all__ = ["Graph", "Pairs", "begin_weights", "read_graph", "read_pairs"]

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
have no edges. Weights that are given are those of the run where its method keeps them (`graphcollab.weigh.KeepWeights`
in the first phase); else they say only where there is an edge, and a warning says so where they differ from each other.
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
    if isinstance(graph, networkx.Graph):
        weighs = networkx.is_weighted(graph) and graph.number_of_edges() > 0
        ends = [(j, i, weight) if weighs else (j, i) for j, i, weight in graph.edges(data="weight")]
        pairs = ends if graph.is_directed() else [*ends, *((i, j, *weight) for j, i, *weight in ends)]
        find_nodes(graph, tasks.names)  # those without edges as well, which may be misspelt
        return _of_pairs(pairs, tasks)
    if isinstance(graph, str | os.PathLike):
        graph = _read_csv(graph)
    elif isinstance(graph, Frame):
        graph = _of_frame(graph, tasks)
    if isinstance(graph, Tensor | np.ndarray | sparse.sparray | sparse.spmatrix):
        return _from_numbers(graph, tasks)
    return _of_pairs(graph, tasks)


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
                "graph",
                f"the graph has the edge from {j!r} to {i!r} more than once, with different weights",
                public=True,
            )
    return data


def _number(text: Any) -> float:
    """Return a weight in a file, NaN where it is no number; it is refused where weights are read."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return float("nan")


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
            public=True,
        )
    return torch.zeros(data.num_edges, dtype=dtype)


def _keeps_none(method: Method) -> bool:
    """Tell whether a method mixes by weights that nothing gives edges which come without."""
    given = method.prepare is not None and not isinstance(method.prepare, WithSelfLoops)
    return method.weigh.origin == "kept" and not method.local.crosses and not given


def _read_csv(path: str | os.PathLike[str]) -> list[tuple[Any, ...]]:
    """Return the pairs of a CSV file."""
    if Path(path).suffix.lower() != ".csv":
        raise SettingError("graph", GRAPH, path)
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        try:
            weighs = "weight" in (rows.fieldnames or ())
            pairs = [
                (*(of_cell(row.get(end) or "") for end in _ENDS), *([_number(row["weight"])] if weighs else []))
                for row in rows
            ]
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(
                f"file {path}", f"{path} cannot be read as a CSV file in UTF-8 ({error}; line {rows.line_num})"
            ) from error
        if not {*_ENDS} <= {*(rows.fieldnames or ())}:
            raise MissingError(
                f"file {path}",
                f"{path} has the columns {few(rows.fieldnames or ())}, and a graph needs sender and receiver",
            )
        return pairs


def _of_frame(frame: Any, tasks: Tasks) -> np.ndarray | list[tuple[Any, ...]]:
    """Return the pairs of a frame, or its matrix in the order of the nodes."""
    columns, index = [*map(str, frame.columns)], [*map(str, getattr(frame, "index", ()))]
    if {*_ENDS} <= {*columns}:
        weights = [[*map(_number, frame["weight"])]] if "weight" in columns else []
        return [*zip(*(map(str, frame[end]) for end in _ENDS), *weights, strict=True)]
    if not sorted(columns) == sorted(index) == sorted(tasks.names):
        raise MismatchError(
            "graph",
            "a frame as a graph needs the names of all nodes as its index, for receivers, and as its columns, for "
            f"senders, or columns sender and receiver; the nodes are {few(tasks.names)}, its index {few(index)} and "
            f"its columns {few(columns)}",
            public=True,
        )
    rows, places = ([labels.index(name) for name in tasks.names] for labels in (index, columns))
    return np.asarray(frame.to_numpy(), np.float64)[np.ix_(rows, places)]


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


def _from_numbers(graph: Tensor | np.ndarray | sparse.sparray | sparse.spmatrix, tasks: Tasks) -> Data:
    """Return the edges of an ``edge_index``, or of a matrix, and its entries as weights."""
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
            raise AmbiguousError(
                "graph",
                f"the graph is an edge_index, whose numbers are positions, and the names of the nodes are numbers, "
                f"too: {few(tasks.names)}. Give pairs (sender, receiver) of names, such as graph=edge_index.T.tolist() "
                f"if they are names, or Data(edge_index=edge_index, num_nodes={count}) if they are positions",
                public=True,
            )
        return Data(num_nodes=count, edge_index=matrix)  # or what is refused as one
    _require_size(matrix.shape, count)
    if matrix.layout == torch.strided:
        found = matrix.nonzero().T
        return _entries(found, matrix[found[0], found[1]], tasks)
    matrix = matrix.to_sparse_coo().coalesce()
    return _entries(matrix.indices(), matrix.values(), tasks)


def _entries(places: Tensor, values: Tensor, tasks: Tasks) -> Data:
    """Return the edges of entries of a matrix, at [receivers, senders], that are above 0; others must be 0."""
    real = values.real if values.is_complex() else values
    bad = values.isnan() if values.dtype == torch.bool else values.isnan() | (real < 0)
    if bool(bad.any()):
        one, two = (tasks.names[k] for k in places[:, bad][:, 0].tolist())
        raise InvalidValueError(
            "graph",
            f"the graph's matrix has {_said(values[bad][0])} where {one!r} may hear {two!r}: give 0 "
            "where there is no edge, and a number above 0 where there is one",
            public=True,
        )
    there = values != 0
    return Data(num_nodes=tasks.num_nodes, edge_index=places.flip(0)[:, there], edge_weight=real[there])


def _said(value: Tensor) -> str:
    return "NaN" if bool(value.isnan()) else f"{value.item():g}"


def _require_size(shape: Sequence[int], count: int) -> None:
    if tuple(shape) != (count, count):
        raise ShapeError(
            "graph",
            f"the graph is a matrix {list(shape)}, and the tasks have {count} nodes: give [{count}, {count}], a row "
            "for every receiver and a column for every sender",
            public=True,
        )
