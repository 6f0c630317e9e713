"""`ControlPlane`: ownership of nodes, and values that processes publish to each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

import torch
from torch import Tensor

from graphcollab._base.device import beside
from graphcollab.comm.relation import Relation
from graphcollab.comm.transport import Transport, raise_on_all
from graphcollab.engine.stack import Stacks

__all__ = ["ControlPlane"]


class ControlPlane:
    """Public values of a process, over any `Transport`: small numbers, never rows of models.

    Values have an entry for every node, [K], or edge, [E], in every process; entries known only to a receiver are NaN
    elsewhere. ``kind`` is every node's architecture, [K], None if there is one; a single process need not know
    ``count``, K.
    """

    def __init__(self, count: int = 0, transport: Transport | None = None, kind: Tensor | None = None) -> None:
        self.count, self.kind = count, kind
        self.transport = transport or Transport()
        self.own = self.transport.own(count)
        self.local_values, self.broadcast = self.transport.local_values, self.transport.broadcast
        self.all_reduce, self.all_reduce_disjoint = self.transport.all_reduce, self.transport.all_reduce_disjoint
        self.all_gather_object, self.where = self.transport.all_gather_object, self.transport.where
        self.begin, self.play, self.commit = self.transport.begin, self.transport.play, self.transport.commit
        self.cross_silo, self.party = self.transport.cross_silo, self.transport.party
        self.is_main = self.transport.is_main

    @property
    def alone(self) -> bool:
        """Whether all nodes are owned."""
        return self.transport.local_mask(self.own) is None

    @property
    def there(self) -> Tensor:
        """Nodes of processes that are present, a mask [K]: all, unless sites may be lost."""
        there = self.transport.there(self.count)
        return torch.ones(self.count, dtype=torch.bool) if there is None else there

    @property
    def complete(self) -> bool:
        """Whether all nodes are present."""
        return self.transport.there(self.count) is None

    def raise_on_all(self) -> AbstractContextManager[None]:
        """Make an error in one process fail all of them, with the same error."""
        return raise_on_all(self.transport)

    def local(self, nodes: Tensor) -> Tensor:
        """Return the owned ones among the nodes, in their order."""
        here = self.transport.local_mask(nodes)
        return nodes if here is None else nodes[here]

    def is_local(self, nodes: Tensor) -> Tensor:
        """Return which of the nodes are owned, a mask of their shape."""
        here = self.transport.local_mask(nodes)
        return torch.ones_like(nodes, dtype=torch.bool) if here is None else here

    def from_local(self, values: Tensor, count: int) -> Tensor:
        """Return values of owned nodes, [k, ...], as a control-plane value, [K, ...]: NaN for other nodes."""
        if self.alone:
            return values
        return values.new_full((count, *values.shape[1:]), torch.nan).index_copy(0, self.own, values)

    def kinds(self, models: Stacks, nodes: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield every architecture among the nodes, whoever owns them, and the mask of its nodes, [m]."""
        if self.kind is None:
            for stack, where, _ in models.locate(nodes):
                yield stack, where
            return
        for stack in range(len(models.specs)):
            yield stack, (self.kind[nodes] == stack).nonzero().flatten()

    def all_gather_nodes(self, values: Tensor) -> Tensor:
        """Return the values [K, ...] of all nodes, given those of owned ones, [k, ...]."""
        (found,) = self.transport.all_gather_nodes(values)
        return found

    def zero_remote(self, values: Tensor) -> Tensor:
        """Return values [K, ...] with 0 at nodes that are not owned, so that a sum over processes is complete."""
        if self.alone:
            return values
        return torch.zeros_like(values).index_copy(0, self.own, values[self.own])

    def publish(self, values: Tensor) -> Tensor:
        """Publish a control-plane value, [K, ...], of which each process knows the entries of its own nodes."""
        return self.all_gather_nodes(self.local_values(values))

    def collect(self, values: Tensor, own: Tensor, nodes: Tensor) -> Tensor:
        """Return the values of local nodes, ``own`` [n], merged for all of ``nodes``, [N, ...].

        They are published to all processes, so they are neither models (``whole``) nor samples.
        """
        if self.transport.local_mask(nodes) is None:
            return values
        every, found = self.transport.all_gather(beside(own, values), values)
        place = torch.empty(self.count, dtype=torch.int64).index_copy(0, every.cpu(), torch.arange(len(every)))
        return found[beside(place[nodes], found)]

    def merge_edges(self, relation: Relation) -> Relation:
        """Return the merged edges that processes have found for their receivers; values of other receivers are NaN."""
        if self.transport.local_mask(relation.edge_index[1]) is None:
            return relation
        _, pairs = self.transport.all_gather(relation.edge_index[1], relation.edge_index.T.contiguous())
        own, every = relation.in_order(), replace(relation, edge_index=pairs.T, values=pairs).in_order()
        values = own.values.new_full((len(pairs),), torch.nan if own.values.is_floating_point() else 0)
        return replace(every, values=values.masked_scatter(self.is_local(every.edge_index[1]), own.values))

    def concat_edges(self, relation: Relation) -> Relation:
        """Return the edges that processes have found for their own receivers, each in its own order, concatenated."""
        if self.transport.local_mask(relation.edge_index[1]) is None:
            return relation
        receiver, sender, values = self.transport.all_gather(*relation.edge_index.flip(0), relation.values)
        return replace(relation, edge_index=torch.stack([sender, receiver]), values=values)

    def neighbor_all_gather(self, relation: Relation, edge_index: Tensor) -> Relation:
        """Return the edges of local receivers and of their in-neighbors, given each process's own receivers' edges."""
        if self.transport.local_mask(edge_index[1]) is None:
            return relation
        sender, receiver = relation.edge_index
        knows, of, values = self.transport.neighbor_all_gather(receiver, edge_index, sender, relation.values)
        both = torch.cat([relation.edge_index, torch.stack([of, knows])], 1)
        return replace(relation, edge_index=both, values=torch.cat([relation.values, values])).in_order()

    def gather_texts(self, texts: Mapping[int, str]) -> dict[int, str]:
        """Publish texts of processes about their own nodes, {node: text}; return all, in the order of nodes."""
        if self.alone:
            return dict(texts)
        letters = [(node, letter) for node, text in texts.items() for letter in text.encode()]
        owner, letter = torch.tensor(letters, dtype=torch.int64).view(-1, 2).unbind(1)
        owner, letter = self.transport.all_gather(owner, letter.to(torch.uint8))
        found = {node: bytes(letter[owner == node].tolist()) for node in owner.unique().tolist()}
        return {node: text.decode(errors="replace") for node, text in found.items()}

    def gather_scores(self, values: Tensor) -> Tensor:
        """Return values [..., k] of owned nodes for all nodes, [..., K], published to all processes."""
        return values if self.alone else self.all_gather_nodes(values.movedim(-1, 0).contiguous()).movedim(0, -1)
