"""The state: fields that the loop keeps in the ``Data``, their lifetime, and their distribution over processes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.piece import Field, Piece
from graphcollab.comm.lists import concat_edges
from graphcollab.comm.plane import Plane
from graphcollab.engine.stack import Stacks

LOOP = (
    Field("x", "models", "models now", "run", "owner"),
    Field("x_init", "models", "models at the start of the run", "run"),
    Field("edge_index", "per_edge", "the graph: senders and receivers, [2, E]", "run"),
    Field("edge_weight", "per_edge", "what every receiver gives its sender", "run", "receiver"),
    Field("node_id", "per_node", "identity of every node, which its randomness is keyed by", "run"),
    Field("num_nodes", "scalar", "K", "run"),
    Field("allowed", "relation", "who may hear whom, where a graph was given", "run"),
    Field("component", "per_node", "strongly connected component, where a graph was given", "run"),
    Field("round", "scalar", "rounds played", "run"),
    Field("phase_start", "scalar", "rounds played when the method started", "run"),
    Field("trains", "per_node", "mask: who trains", "run"),
    Field("serves", "per_node", "mask: whose model is used by others", "run"),
    Field("present", "per_node", "mask: who belongs to the collaboration in the round to come", "run"),
    Field("isolated", "per_node", "mask: who was left behind", "run"),
    Field("isolated_because", "scalar", "why nodes were isolated, by node", "run"),
    Field("train_loss", "per_node", "mean loss of the last local update", "run", "owner"),
    Field("bad_step", "per_node", "local step at which a loss was not finite; -1: none", "run", "owner"),
    Field("bytes_sent", "per_node", "bytes sent so far", "run", "parts"),
    Field("messages_sent", "per_node", "messages sent so far", "run", "parts"),
    Field("loss_bound", "per_node", "bound of every node's loss, where nodes are isolated", "run", "owner"),
    Field("raised", "per_node", "in which of the last rounds an update raised the loss, a bit each", "run", "owner"),
    Field("good", "rows", "last good models by field, where nodes are isolated", "run", "owner"),
    Field("refused", "per_node", "mask: who sent this process what can be no model", "round", "owner"),
    Field("as_left", "models", "models of nodes that have left, as they were judged then", "run", "owner"),
    Field("val_loss", "per_node", "validation loss of the mixed model, where weights learn from it", "round", "owner"),
    Field("x_start", "models", "models when the round began", "round", "owner"),
    Field("x_local", "models", "models after the local update, before the exchange", "round", "owner"),
    Field("last_graph", "relation", "edges and weights of the last exchange, if others come next", "round", "receiver"),
)
"""Fields that the loop keeps, whatever the method."""


def fields_of(pieces: Iterable[Piece]) -> tuple[Field, ...]:
    """Return the fields that pieces keep, each once."""
    return tuple(dict.fromkeys(field for piece in pieces for field in piece.keeps))


def start_round(data: Data, fields: Collection[Field]) -> Data:
    """Return the graph without leftovers of the last round."""
    return _without(data, [field for field in (*LOOP, *fields) if field.lifetime == "round"])


def end_round(data: Data, fields: Collection[Field], reads: Collection[str], last: Data, rested: Tensor) -> Data:
    """Drop the round's models except those the judge ``reads``; ``rested`` nodes [K] keep theirs of ``last``."""
    large = [field for field in (*LOOP, *fields) if field.lifetime == "round" and field.kind in ("models", "rows")]
    data = _without(data, [field for field in large if field.name not in reads])
    for name in reads:
        if name in data and name in last and any(field.covers(name) for field in large):
            data[name] = data[name].where(rested, last[name])
    return data


def end_phase(data: Data, before: Collection[Field], after: Collection[Field]) -> Data:
    """Return the graph without fields that a phase kept and the next one does not declare."""
    return _without(data, [field for field in before if field.lifetime != "run"], after)


def to_device(data: Data, fields: Collection[Field], device: torch.device) -> Data:
    """Return the graph with rows and replicated parameters on a device; the control plane stays on the CPU."""

    def moved(field: Field, value: Any, values: Values) -> Any:
        if field.kind not in (*ROWS, "replicated"):
            return value
        return {key: some.to(device) for key, some in value.items()} if isinstance(value, Mapping) else value.to(device)

    return Data(**_each(data.to_dict(), [*LOOP, *fields], moved))


def _without(data: Data, fields: Collection[Field], kept: Collection[Field] = ()) -> Data:
    data = copy.copy(data)
    dropped, stays = _named(fields), _named(kept)
    for name in [*data.keys()]:
        if dropped(name) and not stays(name):
            del data[name]
    return data


def _named(fields: Collection[Field]) -> Callable[[str], bool]:
    names = {field.name for field in fields}
    starts = tuple(name[:-1] for name in names if name.endswith("*"))
    return lambda name: name in names or name.startswith(starts)


ROWS = ("models", "rows", "per_sample")  # kinds that every process only has for its own nodes
SHARED_EDGES = ("last_graph",)  # relations with edges known to all processes, and values only to receivers

Values = Mapping[str, Any]


def tell_all(data: Data, fields: Collection[Field], plane: Plane) -> Data:
    """Publish the control plane to all processes, including values that only their owners know; not between sites."""
    if plane.alone or plane.cross_silo:
        return data
    parts: list[Tensor] = []  # of values that are published as sums: unknown ones are 0 in a process

    def part(field: Field, value: Any, values: Values) -> Any:
        if field.known_to == "public" or field.kind in ROWS:
            return value
        if field.kind == "relation" and field.name not in SHARED_EDGES:
            return concat_edges(plane, value.select(plane.is_local(value.edge_index[1])))
        if field.kind == "per_node":
            parts.append(value if field.known_to == "parts" else _own_or_zero(value, plane))
            return value
        alone = value.values if field.kind == "relation" else value
        edge_index = value.edge_index if field.kind == "relation" else values["edge_index"]
        known = plane.is_local(edge_index[1])
        parts.append(torch.zeros_like(alone).index_put((known,), alone[known]))
        return value

    def whole(field: Field, value: Any, values: Values) -> Any:
        shared = field.kind != "relation" or field.name in SHARED_EDGES
        if field.known_to == "public" or field.kind in ROWS or not shared:
            return value
        return replace(value, values=next(sums)) if field.kind == "relation" else next(sums)

    found = _each(data.to_dict(), fields, part)
    sums = iter(plane.all_reduce(*parts, torch.zeros(1)))
    return Data(**_each(found, fields, whole))


def _own_or_zero(values: Tensor, plane: Plane) -> Tensor:
    """Return values [K, ...] with 0 for nodes that are not owned, so that a sum over processes is complete."""
    return plane.from_local(plane.local_values(values), 0)


def keep_own(data: Data, fields: Collection[Field], plane: Plane) -> Data:
    """Return the part of the full data that is known here: own nodes' rows, own relations, a share of sums."""

    def own(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: own(one) for key, one in value.items()}
        return value.held(plane.own) if isinstance(value, Stacks) else value[plane.own]

    def kept(field: Field, value: Any, values: Values) -> Any:
        if field.kind == "relation" and field.known_to == "receiver" and field.name not in SHARED_EDGES:
            return value.select(plane.is_local(value.edge_index[1]))
        if field.known_to == "parts":
            return _own_or_zero(value, plane)
        return own(value) if field.kind in ROWS else value

    return data if plane.alone else Data(**_each(data.to_dict(), fields, kept))


def split_rows(values: Values, fields: Collection[Field]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that are equal in all processes, and the rows, which differ; nested mappings stay nested."""
    alike: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    for name, value in values.items():
        field = declared(name, fields)
        if field is None and isinstance(value, Mapping):
            alike[name], inside = split_rows(value, fields)
            rows |= {name: inside} if inside else {}
        else:
            (rows if field is not None and field.kind in ROWS else alike)[name] = value
    return alike, rows


def with_rows(alike: Values, rows: Values) -> dict[str, Any]:
    """Invert `split_rows`."""
    found = dict(alike)
    for name, value in rows.items():
        found[name] = with_rows(alike[name], value) if name in alike else value
    return found


def join_rows(parts: Sequence[tuple[Tensor, Any]]) -> Any:
    """Return the rows of all nodes, given those of some nodes, ascending, from every process."""
    nodes, values = [one for one, _ in parts], [value for _, value in parts]
    first = values[0]
    if isinstance(first, Mapping):
        return {key: join_rows([(one, value[key]) for one, value in parts]) for key in first}
    if isinstance(first, Stacks):
        every = [torch.cat([v.members[s] for v in values]) for s in range(len(first.specs))]
        tensors = [_in_order(m, [v.tensors[s] for v in values]) for s, m in enumerate(every)]
        return Stacks(first.specs, tuple(tensors), tuple(m.sort().values for m in every))
    return _in_order(torch.cat(nodes), values)


def _in_order(nodes: Tensor, rows: Sequence[Tensor]) -> Tensor:
    return torch.cat([*rows])[nodes.argsort()]


def _each(values: Values, fields: Collection[Field], change: Callable[[Field, Any, Values], Any]) -> dict[str, Any]:
    """Change declared fields, by name; search undeclared mappings, such as the best state, for fields."""
    found = dict(values)
    for name in sorted(values):
        field = declared(name, fields)
        if field is not None:
            found[name] = change(field, values[name], values)
        elif isinstance(values[name], Mapping):
            found[name] = _each(values[name], fields, change)
    return found


def declared(name: str, fields: Collection[Field]) -> Field | None:
    """Return the declaration of a name of the state; None if there is none."""
    covering = [field for field in fields if field.covers(name)]
    return min(covering, key=lambda field: field.name != name, default=None)
