"""What each process has of the state: its own nodes' rows, and what all may know of the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Field
from graphcollab.plane import Plane
from graphcollab.stack import Stacks

ROWS = ("models", "rows", "per_sample")  # kinds of which every process has those of its own nodes
SHARED_EDGES = ("last_graph",)  # relations whose edges all processes have, and only receivers their values

Values = Mapping[str, Any]


def tell_all(data: Data, fields: Collection[Field], plane: Plane) -> Data:
    """Tell all processes the control plane, also what only a node or a receiver knew; between sites nobody is told."""
    if plane.alone or plane.private:
        return data
    parts: list[Tensor] = []  # of what is told as sums: what a process does not know is 0 there

    def part(field: Field, value: Any, values: Values) -> Any:
        if field.known_to == "public" or field.kind in ROWS:
            return value
        if field.kind == "relation" and field.name not in SHARED_EDGES:
            return plane.one_after_the_other(value.select(plane.known(value.edge_index[1])))
        if field.kind == "per_node":
            parts.append(value if field.known_to == "parts" else plane.part(value))
            return value
        alone = value.values if field.kind == "relation" else value
        edge_index = value.edge_index if field.kind == "relation" else values["edge_index"]
        known = plane.known(edge_index[1])
        parts.append(torch.zeros_like(alone).index_put((known,), alone[known]))
        return value

    def whole(field: Field, value: Any, values: Values) -> Any:
        shared = field.kind != "relation" or field.name in SHARED_EDGES
        if field.known_to == "public" or field.kind in ROWS or not shared:
            return value
        return replace(value, values=next(sums)) if field.kind == "relation" else next(sums)

    found = _each(data.to_dict(), fields, part)
    sums = iter(plane.fill_in("what callbacks are shown: weights, similarities", (), [*parts, torch.zeros(1)]))
    return Data(**_each(found, fields, whole))


def keep_own(data: Data, fields: Collection[Field], plane: Plane) -> Data:
    """Return the data with what is known here, given that of all: own nodes' rows, own relations, a share of sums."""

    def own(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: own(one) for key, one in value.items()}
        return value.held(plane.own) if isinstance(value, Stacks) else value[plane.own]

    def kept(field: Field, value: Any, values: Values) -> Any:
        if field.kind == "relation" and field.known_to == "receiver" and field.name not in SHARED_EDGES:
            return value.select(plane.known(value.edge_index[1]))
        if field.known_to == "parts":
            return plane.part(value)
        return own(value) if field.kind in ROWS else value

    return data if plane.alone else Data(**_each(data.to_dict(), fields, kept))


def split_rows(values: Values, fields: Collection[Field]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what all processes have alike, and the rows, of which each has its own; a mapping inside stays one."""
    alike: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    for name, value in values.items():
        field = _declared(name, fields)
        if field is None and isinstance(value, Mapping):
            alike[name], inside = split_rows(value, fields)
            rows |= {name: inside} if inside else {}
        else:
            (rows if field is not None and field.kind in ROWS else alike)[name] = value
    return alike, rows


def with_rows(alike: Values, rows: Values) -> dict[str, Any]:
    """Undo `split_rows`."""
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
    """Change what is declared, by name; in what is not declared, such as the best state, look for fields."""
    found = dict(values)
    for name in sorted(values):
        field = _declared(name, fields)
        if field is not None:
            found[name] = change(field, values[name], values)
        elif isinstance(values[name], Mapping):
            found[name] = _each(values[name], fields, change)
    return found


def _declared(name: str, fields: Collection[Field]) -> Field | None:
    covering = [field for field in fields if field.covers(name)]
    return min(covering, key=lambda field: field.name != name, default=None)
