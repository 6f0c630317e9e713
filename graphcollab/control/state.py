"""What the loop itself keeps in the ``Data``, and when fields are forgotten."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Field, Piece

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
"""What the loop keeps, whatever the method is."""


def fields_of(pieces: Iterable[Piece]) -> tuple[Field, ...]:
    """Return what pieces keep, each field once."""
    return tuple(dict.fromkeys(field for piece in pieces for field in piece.keeps))


def start_round(data: Data, fields: Collection[Field]) -> Data:
    """Return the graph without what was left of the last round to be looked at."""
    return _without(data, [field for field in (*LOOP, *fields) if field.lifetime == "round"])


def end_round(data: Data, fields: Collection[Field], reads: Collection[str], last: Data, rested: Tensor) -> Data:
    """Drop the round's models but those the judge ``reads``; ``rested`` nodes [K] keep theirs of the ``last`` round."""
    large = [field for field in (*LOOP, *fields) if field.lifetime == "round" and field.kind in ("models", "rows")]
    data = _without(data, [field for field in large if field.name not in reads])
    for name in reads:
        if name in data and name in last and any(field.covers(name) for field in large):
            data[name] = data[name].where(rested, last[name])
    return data


def end_phase(data: Data, before: Collection[Field], after: Collection[Field]) -> Data:
    """Return the graph without what a phase kept and the next one does not declare."""
    return _without(data, [field for field in before if field.lifetime != "run"], after)


def to_device(data: Data, fields: Collection[Field], device: torch.device) -> Data:
    """Return the graph with rows and replicated parameters on a device; the control plane stays on the CPU."""
    return Data(**_moved(data.to_dict(), [*LOOP, *fields], device))


def _moved(values: Mapping[str, Any], fields: Collection[Field], device: torch.device) -> dict[str, Any]:
    """Move what is declared to be moved; in what is not declared, such as the best state, look for fields."""
    moved = dict(values)
    for name, value in values.items():
        covering = sorted((field for field in fields if field.covers(name)), key=lambda field: field.name != name)
        if not covering and isinstance(value, Mapping):
            moved[name] = _moved(value, fields, device)
        elif covering and covering[0].kind in ("models", "rows", "per_sample", "replicated"):
            many = isinstance(value, Mapping)
            moved[name] = {key: some.to(device) for key, some in value.items()} if many else value.to(device)
    return moved


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
