"""What processes find for their own nodes, published as one list: edges, texts, values of some nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from graphcollab._base.device import beside
from graphcollab._base.errors import InvalidValueError
from graphcollab.comm.control_plane import ControlPlane
from graphcollab.comm.relation import Relation


def merge_edges(plane: ControlPlane, relation: Relation) -> Relation:
    """Return the merged edges that processes have found for their receivers; values of other receivers are NaN."""
    if plane.alone:
        return relation
    _, pairs = plane.transport.all_gather_lists(relation.edge_index[1], relation.edge_index.T.contiguous())
    own, every = relation.in_order(), replace(relation, edge_index=pairs.T, values=pairs).in_order()
    values = own.values.new_full((len(pairs),), torch.nan if own.values.is_floating_point() else 0)
    return replace(every, values=values.masked_scatter(plane.is_local(every.edge_index[1]), own.values))


def concat_edges(plane: ControlPlane, relation: Relation) -> Relation:
    """Return the edges that processes have found for their own receivers, each in its own order, concatenated."""
    receiver, sender, values = plane.transport.all_gather_lists(*relation.edge_index.flip(0), relation.values)
    return replace(relation, edge_index=torch.stack([sender, receiver]), values=values)


def edges_of_neighbors(plane: ControlPlane, relation: Relation, edge_index: Tensor) -> Relation:
    """Return the edges of local receivers and of their in-neighbors, given each process's own receivers' edges.

    Out-neighbors get the edges with their values, which must be finite.
    """
    if not bool(relation.values.isfinite().all()):
        raise InvalidValueError("values", "what a node tells of others must be finite: select the edges with a value")
    if plane.alone:
        return relation
    sender, receiver = relation.edge_index
    knows, of, values = plane.transport.neighbor_all_gather(receiver, edge_index, sender, relation.values)
    both = torch.cat([relation.edge_index, torch.stack([of, knows])], 1)
    return replace(relation, edge_index=both, values=torch.cat([relation.values, values])).in_order()


def gather_texts(plane: ControlPlane, texts: Mapping[int, str]) -> dict[int, str]:
    """Publish texts of processes about their own nodes, {node: text}; return all, in the order of nodes."""
    if plane.alone:
        return dict(texts)
    letters = [(node, letter) for node, text in texts.items() for letter in text.encode()]
    owner, letter = torch.tensor(letters, dtype=torch.int64).view(-1, 2).unbind(1)
    owner, letter = plane.transport.all_gather_lists(owner, letter.to(torch.uint8))
    found = {node: bytes(letter[owner == node].tolist()) for node in owner.unique().tolist()}
    return {node: text.decode(errors="replace") for node, text in found.items()}


def gather_values(plane: ControlPlane, values: Tensor, own: Tensor, nodes: Tensor) -> Tensor:
    """Return the values of local nodes, ``own`` [n], merged for all of ``nodes``, [N, ...].

    They are published to all processes, so they are neither models (``whole``) nor samples.
    """
    if plane.alone:
        return values
    every, found = plane.transport.all_gather_lists(beside(own, values), values)
    place = torch.empty(plane.count, dtype=torch.int64).index_copy(0, every.cpu(), torch.arange(len(every)))
    return found[beside(place[nodes], found)]
