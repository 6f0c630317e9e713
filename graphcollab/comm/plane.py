"""`Plane`: the only operators through which pieces of a method access models and data of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import StateError
from graphcollab._base.piece import updated
from graphcollab.comm.arrivals import Arrivals
from graphcollab.comm.control_plane import ControlPlane
from graphcollab.comm.transport import Halo, Transport
from graphcollab.engine import Rows
from graphcollab.nn.functional import edge_products
from graphcollab.nn.functional.distances import edge_cosines, edge_distances
from graphcollab.nn.mix_conv import MixConv

__all__ = ["Plane"]

BYTES_PER_FLOAT = 4
_MIX = MixConv()


class Plane(ControlPlane):
    """Operators on models and data across nodes, over any `Transport`.

    Rows of models, [k, P], are those of the nodes that this process owns, in the order of nodes; values of nodes and
    edges, and arguments, are as in a `ControlPlane`.
    """

    def __init__(self, count: int = 0, transport: Transport | None = None, kind: Tensor | None = None) -> None:
        super().__init__(count, transport, kind)
        self._arrivals = Arrivals(self.transport, self.own)
        self.change, self.whole, self.forget = self._arrivals.change, self._arrivals.whole, self._arrivals.forget
        self.refused, self.refuse = self._arrivals.refused, self._arrivals.refuse
        self.is_refused, self.start_round = self._arrivals.is_refused, self._arrivals.start_round

    def halo_exchange(self, rows: Tensor, edge_index: Tensor) -> Halo:
        """Return the rows [k, P] that owned receivers hear, each remote one once; edges [2, E] are equal everywhere."""
        sender, receiver = edge_index
        here = self.transport.local_mask(receiver)
        if here is None:
            return Halo(rows, edge_index, None, self.own)
        edges = here.nonzero().flatten()
        wanted = sender[edges]
        remote, others = self._arrivals.fetch(rows, edge_index, kept=self.kind is None)
        nodes, both = torch.cat([self.own, remote]), torch.cat([rows, others])
        place = torch.empty(self.count, dtype=torch.int64)
        place[nodes] = torch.arange(len(nodes))
        return Halo(both, torch.stack([place[wanted], place[receiver[edges]]]), edges, nodes)

    def prefetch(self, edge_index: Tensor, rows: Callable[[], Iterable[Tensor]]) -> None:
        """Fetch kinds of rows, [k, P] each, along edges [2, E] in one meeting; ``rows`` is called if they travel."""
        if self.kind is None:
            self._arrivals.prefetch(edge_index, rows)

    def mix(
        self,
        rows: Tensor,
        weight: Tensor,
        edge_index: Tensor,
        base: Tensor | None = None,
        against: Tensor | None = None,
        layer: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] | None = None,
    ) -> Tensor:
        r"""Return :math:`b_i + \sum_j w_{ij} (x_j - a_i)` at every owned receiver, [k, P]; b and a are 0 by default.

        A ``layer`` computes something else of them: it is called with the received rows, [k + r, P], owned rows first,
        the owned rows [k, P], the edges between the two, and their weights.
        """
        layer = layer or partial(_mixed, base=base, against=against)
        if not self.complete:
            there = self.there[edge_index[0]]
            if bool((weight[self.is_local(edge_index[1]) & ~there] != 0).any()):
                raise StateError("graph", "models of nodes that are not there would be mixed")
            weight, edge_index = weight[there], edge_index[:, there]
        halo = self.halo_exchange(rows, edge_index)
        edges = halo.edge_index
        if self.refused:  # a receiver's weight on them goes to its own row
            edges = torch.where(self.is_refused(halo.nodes)[edges[0]], edges[1], edges)
        return layer(halo.rows, rows, edges, halo.take(weight))

    def products(self, a: Tensor, b: Tensor, edge_index: Tensor) -> Tensor:
        r"""Return :math:`\langle a_i, b_j \rangle` of every edge j → i, [E], known at the receiver."""
        halo = self.halo_exchange(b, edge_index)
        return halo.put(edge_products(a, halo.rows, halo.edge_index), edge_index.shape[1])

    def cosines(
        self, a: Tensor, b: Tensor, edge_index: Tensor, group: Tensor | None = None, origin: Tensor | None = None
    ) -> Tensor:
        r"""Return :math:`\cos(a_i, b_j)` of every edge j → i, float64 [E], known at the receiver.

        With an ``origin``, a row [1, P] known to all, angles are measured from there.
        """
        return self._compare(edge_cosines, a, b, edge_index, group, origin)

    def distances(self, a: Tensor, b: Tensor, edge_index: Tensor, group: Tensor | None = None) -> Tensor:
        r"""Return :math:`\lVert a_i - b_j \rVert` of every edge j → i, float64 [E], known at the receiver."""
        return self._compare(edge_distances, a, b, edge_index, group)

    def _compare(
        self,
        compare: Callable[..., Tensor],
        a: Tensor,
        b: Tensor,
        edge_index: Tensor,
        group: Tensor | None,
        origin: Tensor | None = None,
    ) -> Tensor:
        halo = self.halo_exchange(b, edge_index)
        groups: Any = group if group is None or halo.edges is None else (self.local_values(group), group[halo.nodes])
        rows = halo.rows
        if origin is not None:
            a, rows = a - origin, rows - origin
        found = halo.put(compare(a, rows, halo.edge_index, groups), edge_index.shape[1])
        return found.masked_fill(self.is_refused(edge_index[0]), torch.nan) if self.refused else found

    def group_sums(
        self, rows: Sequence[Tensor], weights: Sequence[Tensor], links: Tensor, count: int
    ) -> Sequence[Tensor]:
        """Return weighted sums of rows of owned nodes, [G, P] each, for all processes, in one meeting.

        Several kinds of rows, [k, P] each, go along links from nodes to sums, [2, L], each with its weights, [L].
        """
        here = self.transport.local_mask(links[0])
        if here is not None:
            weights, links = [weight[here] for weight in weights], links[:, here]
            links = torch.stack([torch.searchsorted(self.own, links[0]), links[1]])
        sums = (_MIX((one, None), links, weight, (len(one), count)) for one, weight in zip(rows, weights, strict=True))
        return self.transport.all_reduce(*sums)

    def evaluate_at(
        self, rows: Rows, answer: Callable[[Rows], Tensor], to: Literal["data", "model", "public"] = "data"
    ) -> Tensor:
        """Send models (``source``: of owned nodes) to the nodes whose data they meet; return answers [R, ...].

        ``answer`` is called once, with the rows whose data are local. ``to`` defines who learns an answer besides the
        node of the data: no one else, the node of the model (of several that are combined, the last of ``index``), or
        all processes.
        """
        here = self.transport.local_mask(rows.node)
        if here is None:
            return answer(rows)
        place = here.nonzero().flatten()
        index = rows.index.view(len(rows), -1)
        edges = torch.stack([index.flatten(), rows.node.repeat_interleave(index.shape[1])])
        own = bool((index[:, 0] == rows.node).all())  # models of which only a part comes from others
        part = rows.part if own and not rows.buffers else None
        source = self._arrivals.models(rows.source, edges, part, self.kind)
        coefficient = None if rows.coefficient is None else rows.coefficient[place]
        some = replace(rows, source=source, node=rows.node[place], index=rows.index[place], coefficient=coefficient)
        found = answer(some)
        out = found.new_full((len(rows), *found.shape[1:]), torch.nan)
        out[place] = found
        if to == "data":
            return out
        owner = rows.index if rows.index.dim() == 1 else rows.index[:, -1]
        return self.broadcast(out, rows.node, owner if to == "model" else None)

    def charge(self, data: Data, senders: Tensor, floats: float | Tensor, at: Tensor | None = None) -> Data:
        """Add the messages of ``senders`` [M] to ``data.bytes_sent`` [K]: ``floats`` floats of 4 bytes each.

        A message is counted where it is known to be sent: ``at`` a node, such as its receiver, [M]; by default at its
        sender.
        """
        here = self.transport.local_mask(senders if at is None else at)
        if here is not None:
            senders = senders[here]
            floats = floats[here] if isinstance(floats, Tensor) else floats
        sent = torch.zeros_like(data.bytes_sent)
        sent.index_add_(0, senders, torch.ones_like(senders, dtype=sent.dtype) * (BYTES_PER_FLOAT * floats))
        return updated(data, bytes_sent=data.bytes_sent + sent)


def _mixed(
    rows: Tensor, own: Tensor, edge_index: Tensor, weight: Tensor, base: Tensor | None, against: Tensor | None
) -> Tensor:
    mixed: Tensor = _MIX((rows, own), edge_index, weight, base=base, against=against)
    return mixed
