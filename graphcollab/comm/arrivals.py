"""`Arrivals`: rows of remote nodes, each fetched once per round; `plausible`: which rows can be models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab._base.device import beside
from graphcollab._base.errors import ContractError
from graphcollab._base.memory import new_rows
from graphcollab.comm.transport import Transport
from graphcollab.engine.stack import Stacks

__all__ = ["Arrivals", "plausible"]

FACTOR = 1e4  # maximum norm of a row relative to the receiver's own


@dataclass
class _Heard:
    """Remote rows, [r, P], of ``nodes`` [r], ascending, that arrived along edges of all processes, [2, E]."""

    rows: Tensor
    edge_index: Tensor
    nodes: Tensor
    others: Tensor

    def add(self, edge_index: Tensor, nodes: Tensor, others: Tensor) -> None:
        every, order = torch.cat([self.nodes, nodes]).sort()
        self.edge_index = torch.cat([self.edge_index, edge_index], 1)
        self.nodes, self.others = every, torch.cat([self.others, others])[beside(order, others)]

    def of(self, nodes: Tensor) -> Tensor:
        """Return the rows of some nodes, ascending, [m, P]."""
        if len(nodes) == len(self.nodes):
            return self.others
        return self.others[beside(torch.searchsorted(self.nodes, nodes), self.others)]


class Arrivals:
    """Rows received in a round, so that no row is sent twice, since several pieces read the same models.

    Rows are identified by their address in memory, and kept as long as they are remembered. All processes must remember
    the same rows, or they would meet in different verbs: what is new in one is new in all. With several architectures
    nothing is remembered. Between parties, rows are checked on arrival (`plausible`): an implausible row is set to 0,
    or to NaN where it would meet data, and its sender is ``refused`` for the round, {node: why}, in this process only,
    since no process can accuse another. Processes of one party check their own rows, in ``settle``.
    """

    def __init__(self, transport: Transport, own: Tensor) -> None:
        self.transport, self.own = transport, own
        self.alone = transport.local_mask(own) is None
        self.refused: dict[int, str] = {}
        self.forget()

    def forget(self) -> None:
        """Forget the received rows, at the end of a round."""
        self._heard: dict[object, _Heard] = {}
        self._changes: dict[object, tuple[Tensor, Tensor, Tensor]] = {}

    def start_round(self) -> None:
        """Forget the nodes refused in the last round, except those that all processes refuse in this one."""
        self.refused.clear()
        self.refused.update(self.transport.refused)

    def change(self, new: Tensor, old: Tensor) -> Tensor:
        """Return new rows minus old ones, [k, P]; in a multi-process run one tensor per round, so it travels once."""
        key = (_place(new), _place(old))
        if key in self._changes:
            return self._changes[key][0]
        change = torch.sub(new, old, out=new_rows(new, *new.shape))
        if not self.alone:
            self._changes[key] = change, new, old
        return change

    def prefetch(self, edge_index: Tensor, rows: Callable[[], Iterable[Tensor]]) -> None:
        """Fetch several kinds of rows, [k, P] each, along the same edges [2, E] in one meeting."""
        if self.alone:
            return
        kinds = {_place(one): one for one in rows()}
        new = [one for place, one in kinds.items() if place not in self._heard]
        for dtype in dict.fromkeys(one.dtype for one in new):
            some = [one for one in new if one.dtype == dtype]
            every = some[0] if len(some) == 1 else torch.cat(some, 1)
            found, nodes = self.transport.fetch(every, self.own, edge_index), self._remote(edge_index)
            for one, others in zip(some, found.split([one.shape[1] for one in some], 1), strict=True):
                self._heard[_place(one)] = _Heard(one, edge_index, nodes, self._checked(one, nodes, others))

    def fetch(self, rows: Tensor, edge_index: Tensor, kept: bool = True) -> tuple[Tensor, Tensor]:
        """Return the remote nodes that owned receivers hear along edges [2, E], [r] ascending, and their rows [r, P].

        Rows that are not ``kept`` are always fetched.
        """
        if rows.requires_grad:
            raise ContractError("rows", "gradients do not go back to other processes: detach the rows first")
        nodes = self._remote(edge_index)
        if not kept:
            return nodes, self._checked(rows, nodes, self.transport.fetch(rows, self.own, edge_index))
        if _place(rows) not in self._heard:
            self.prefetch(edge_index, lambda: [rows])
        heard = self._heard[_place(rows)]
        if heard.edge_index is not edge_index:
            more = self.transport.missing(edge_index, heard.edge_index)
            if more.shape[1]:
                others = self.transport.fetch(rows, self.own, more)
                heard.add(more, self._remote(more), self._checked(rows, self._remote(more), others))
        return nodes, heard.of(nodes)

    def models(self, models: Stacks, edge_index: Tensor, part: str | None, kind: Tensor | None) -> Stacks:
        """Return the models of owned nodes, and of the nodes that they hear along edges [2, E].

        With a ``part``, the rest of remote models is NaN. ``kind`` is every node's architecture, [K]; None if there is
        only one.
        """
        tensors, members = [], []
        for s, (spec, tensor, known) in enumerate(zip(models.specs, models.tensors, models.members, strict=True)):
            columns = slice(0, spec.num_columns) if part is None else spec.columns(part)
            if kind is None:
                remote, others = self.fetch(tensor[:, columns], edge_index)
            else:
                edges = edge_index[:, kind[edge_index[0]] == s]
                own, remote = tensor[:, columns], self._remote(edges)
                others = self._checked(own, remote, self.transport.fetch(own, known, edges))
            if self.refused:
                others = others.masked_fill(beside(self.is_refused(remote)[:, None], others), torch.nan)
            if others.shape[1] < spec.num_columns:
                whole = others.new_full((len(others), spec.num_columns), torch.nan)
                whole[:, columns] = others
                others = whole
            both, order = torch.cat([known, remote]).sort()
            tensors.append(torch.cat([tensor, others])[beside(order, tensor)])
            members.append(both)
        return Stacks(models.specs, tuple(tensors), tuple(members))

    def whole(self, models: Stacks) -> Stacks:
        """Return the models of all nodes, gathered in every process; a ValueError between parties, which share none."""
        if self.alone:
            return models
        tensors, members = [], []
        for tensor, known in zip(models.tensors, models.members, strict=True):
            every, found = self.transport.all_gather_models(beside(known, tensor), tensor)
            tensors.append(found[every.argsort()])
            members.append(every.sort().values.cpu())
        return Stacks(models.specs, tuple(tensors), tuple(members))

    def refuse(self, nodes: Tensor) -> None:
        """Treat nodes with implausible models as away, here and in this round."""
        why = f"sent {self.transport.party} values that are not finite or too large for a model"
        self.refused.update({node: why for node in nodes.tolist() if node not in self.refused})

    def is_refused(self, nodes: Tensor) -> Tensor:
        """Return which of the nodes have sent implausible rows, a mask [M]."""
        return torch.isin(nodes, torch.tensor([*self.refused], dtype=torch.int64))

    def _checked(self, own: Tensor, nodes: Tensor, others: Tensor) -> Tensor:
        """Return remote rows, [r, P], with 0 for implausible ones, whose nodes are refused."""
        if not self.transport.cross_silo or not len(nodes):
            return others
        there = self.transport.there(int(nodes.max()) + 1)
        bad = ~plausible(others, own)
        bad = bad if there is None else bad & there[nodes]
        if not bool(bad.any()):
            return others
        self.refuse(nodes[bad])
        return others.masked_fill(beside(bad[:, None], others), 0)

    def _remote(self, edge_index: Tensor) -> Tensor:
        """Return the remote nodes that owned receivers hear, ascending, [r]."""
        here = self.transport.local_mask(edge_index[1])
        heard = edge_index[0, here].unique()
        known = self.transport.local_mask(heard)
        return heard[:0] if known is None else heard[~known]


def _place(rows: Tensor) -> tuple[object, ...]:
    """Return an identifier of rows among all that exist at the same time; views of the same numbers are the same."""
    return rows.data_ptr(), rows.shape, rows.stride(), rows.dtype, rows.device, rows._version


def plausible(rows: Tensor, own: Tensor | None = None) -> Tensor:
    """Return which rows [r, P] can be models, or changes or gradients of models: a mask [r], on the CPU.

    The squared norm of a plausible row is finite in its number type, so products with it and distances to it are, too.
    Given the receiver's ``own`` rows, [k, P], its norm is at most 10⁴ times the larger of 1 and their largest norm.
    """
    length = _lengths(rows)
    if own is None:
        return length.isfinite()
    return length.isfinite() & (length <= FACTOR * max([1.0, *_lengths(own).nan_to_num(0.0, 0.0).tolist()]))


def _lengths(rows: Tensor) -> Tensor:
    """Return norms [r]; infinite if their squares are, in single precision at least."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    return torch.linalg.vector_norm(rows.detach().flatten(1), dim=1, dtype=dtype).cpu()
