"""State that a site has missed when it comes back into a run: the public state, handed over by another site."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import ConflictError, ContractError, FormatError, RangeError, ShapeError
from graphcollab._base.packed import damage_of, pack, unpack
from graphcollab._base.piece import Field
from graphcollab.components.state import ROWS, declared
from graphcollab.persistence.folder import decode, encode
from graphcollab.persistence.history import History

OWN = ("refused", "graphs", "scores", "observed", "findings")  # parts of a history that each site records by itself
KIND, VERSION = "graphcollab-state", 1


def hand_over(data: Data, history: History, fields: Collection[Field]) -> bytes:
    """Return the public state: fields that are declared public, except rows of nodes, and the history's public part."""
    tensors: dict[str, Tensor] = {}
    told = {name: value for name, value in vars(history).items() if name not in OWN}
    told["values"] = {name: values for name, values in history.values.items() if name not in history.observed}
    public = {name: data[name] for name in sorted(data.keys()) if _is_public(name, fields)}
    code = {"data": encode(public, "data", tensors), "history": encode(told, "history", tensors)}
    return pack(KIND, VERSION, code, tensors)


def take_over(
    content: bytes, data: Data, fields: Collection[Field], own: History | None = None
) -> tuple[Data, History]:
    """Return the other sites' state together with what only this site knows: its models, and what it has learned."""
    subject = "state of the run"
    code, tensors = unpack(content, KIND, VERSION, subject)
    with damage_of(subject):
        told, measured = decode(code["data"], tensors), decode(code["history"], tensors)
        history = History(**{name: value for name, value in measured.items() if name not in OWN})
        edge_index, phase_start = told["edge_index"], told["phase_start"]
        _require_public(told, data, fields)
    if phase_start != data.phase_start:
        raise ConflictError(
            "phase",
            "the run has come to another phase since, so this site cannot come back: let all start afresh",
        )
    back = Data()
    for name, value in data.to_dict().items():
        field = declared(name, fields)
        if field is not None and field.kind == "per_edge" and field.known_to != "public":
            back[name] = _moved(value, data.edge_index, edge_index)
        elif field is None or ((field.known_to != "public" or field.kind in ROWS) and not _is_old(field)):
            back[name] = copy.copy(value)
    for name, value in told.items():
        back[name] = value
    return back, history if own is None else _with_own(history, own)


def _require_public(told: Mapping[str, Any], data: Data, fields: Collection[Field]) -> None:
    for name, value in told.items():
        if not _is_public(name, fields):
            raise ContractError(name, f"{name!r} is a site's own, and no other site may set it")
        here = data.get(name, value)
        if type(value) is not type(here):
            raise FormatError(name, f"{name!r} is a {type(value).__name__}, and a {type(here).__name__} was due")
        if not isinstance(value, Tensor):
            continue
        field = declared(name, fields)
        free = field is not None and field.kind == "per_edge"  # edges may have changed in the meantime
        axis = 1 if name == "edge_index" else 0
        sizes = [[*one.shape[:axis], *one.shape[axis + 1 :]] if free else [*one.shape] for one in (value, here)]
        if value.dtype != here.dtype or sizes[0] != sizes[1]:
            raise ShapeError(
                name, f"{name!r} is {value.dtype} {[*value.shape]}, and {here.dtype} {[*here.shape]} was due"
            )
    edges = told["edge_index"]
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < int(data.num_nodes or 0):
        raise RangeError(
            "edge_index", f"edges lead to nodes from {int(edges.min())} to {int(edges.max())}, of {data.num_nodes}"
        )


def _with_own(history: History, own: History) -> History:
    """Return a history with a site's own records, by evaluation; NaN for evaluations it missed."""
    for name in OWN:
        setattr(history, name, getattr(own, name))
    nothing = torch.full((len(history.names),), torch.nan, dtype=torch.float64)
    for name in own.observed.keys() & own.values.keys():
        seen = dict(zip(own.rounds, own.values[name], strict=True))
        history.values[name] = [seen.get(round_, nothing) for round_ in history.rounds]
    return history


def _moved(values: Tensor, before: Tensor, now: Tensor) -> Tensor:
    """Return the values of edges [E] for other edges, [E']: NaN for new edges."""
    place = {pair: e for e, pair in enumerate(zip(*before.tolist(), strict=True))}
    kept = [(e, place[pair]) for e, pair in enumerate(zip(*now.tolist(), strict=True)) if pair in place]
    there, held = torch.tensor(kept, dtype=torch.int64, device=values.device).view(-1, 2).T
    out = values.new_full((now.shape[1], *values.shape[1:]), torch.nan if values.is_floating_point() else 0)
    out[there] = values[held]
    return out


def _is_old(field: Field) -> bool:
    """Return whether a field describes the last round that this site has played."""
    return field.lifetime == "round" and field.kind == "relation"


def _is_public(name: str, fields: Collection[Field]) -> bool:
    covering = [field for field in fields if field.covers(name)]
    return bool(covering) and all(field.known_to == "public" and field.kind not in ROWS for field in covering)
