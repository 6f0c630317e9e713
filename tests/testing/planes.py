"""Check that a method accesses models and data of other nodes through operators only."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.piece import Field
from graphcollab.comm.plane import Plane
from graphcollab.comm.transport import Halo
from graphcollab.components import Env
from graphcollab.components.state import LOOP, SHARED_EDGES
from graphcollab.engine import Rows
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.testing.claims import TOLERANCE, AnyMethod, close, require
from graphcollab.testing.scene import Scene
from tests.testing.lockstep import Lockstep, begin, in_lockstep, poison

OWNERS = (torch.tensor([0, 3, 4]), torch.tensor([1, 2, 5]))


def check_planes(
    method: AnyMethod,
    scene: Scene | None = None,
    owners: Sequence[Tensor] = OWNERS,
    rounds: int = 2,
    tolerance: float = TOLERANCE,
) -> None:
    """Check that isolated processes compute the same models, weights, bytes and messages as a single process.

    The samples of other processes' nodes are poisoned, and so is, before the first round and after each, everything
    that the declarations hide from a process. Raises AssertionError if a value differs by more than ``tolerance``
    (relative to the greatest, or to 1), if a process receives rows that its nodes do not hear, or if a piece requests
    rows beyond the round's edges.
    """
    scene = scene or Scene.small(embeds=method.embeds)
    alone, env = scene.play(method, rounds)
    fields = [*LOOP, *method.fields]
    watched = watch(method)

    def play(transport: Lockstep) -> tuple[Data, Stacks]:
        data, own_env = begin(scene, watched, transport, Watched)
        data = hide(data, fields, transport.nodes)
        for _ in range(rounds):
            data = hide(watched.play(data, own_env), fields, transport.nodes)
        return data, method.models(data, own_env)

    found, meeting = in_lockstep(owners, play)
    for nodes, (data, judged) in zip(meeting.owners, found, strict=True):
        _same_models(alone.x, data.x, nodes, "models", tolerance)
        _same_models(method.models(alone, env), judged, nodes, "models that nodes are judged by", tolerance)
        require(torch.equal(alone.edge_index, data.edge_index), "processes have other edges than one process has")
        here = torch.isin(data.edge_index[1], nodes)
        close(alone.edge_weight[here], data.edge_weight[here], "edge weights at receivers", tolerance)
        one, many = (d.train_loss[nodes].double().nan_to_num(-1.0) for d in (alone, data))
        close(one, many, "train_loss", tolerance)
        close(alone.bad_step[nodes].double(), data.bad_step[nodes].double(), "bad_step", tolerance)
        for name in ("trains", "serves", "isolated"):
            close(alone[name].double(), data[name].double(), name, tolerance)
    for name in ("bytes_sent", "messages_sent"):
        close(alone[name].double(), sum(data[name].double() for data, _ in found), name, tolerance)


def hide(data: Data, fields: Collection[Field], nodes: Tensor) -> Data:
    """Return the data as the declared fields reveal it to the owner of some nodes, [k]; poison the rest.

    Raises AssertionError if rows of other nodes or relations of other receivers are present, or if declarations differ.
    """
    own = torch.zeros(data.num_nodes, dtype=torch.bool).index_fill(0, nodes, True)
    near = {"receiver": own[data.edge_index[1]], "ends": own[data.edge_index].any(0)}
    data = copy.copy(data)
    for name in [*data.keys()]:
        covering = [field for field in fields if field.covers(name)]
        exact = [field for field in covering if field.name == name]
        declared = {(field.kind, field.known_to) for field in exact or covering}
        require(len(declared) == 1, f"the declarations of {name!r} differ, or there is none: {sorted(declared)}")
        ((kind, known_to),) = declared
        value = data[name]
        if known_to in ("public", "parts"):
            continue
        if kind in ("models", "rows"):
            _only_rows_of(value, nodes, name)
        elif kind == "relation":
            known = own[value.edge_index[1]]
            strange = name not in SHARED_EDGES and not bool(known.all())
            require(not strange, f"{name!r} has edges that only other processes' receivers know")
            data[name] = replace(value, values=_only(value.values, known))
        else:
            known = own if kind == "per_node" else near[known_to]
            data[name] = _only(value, known)
    return data


def _only(values: Tensor, known: Tensor) -> Tensor:
    """Return values [M, ...], poisoned outside of a mask [M]."""
    out = poison(values)
    out[known] = values[known]
    return out


def _only_rows_of(value: object, nodes: Tensor, name: str) -> None:
    if isinstance(value, Mapping):
        for key, some in value.items():
            _only_rows_of(some, nodes, f"{name}[{key!r}]")
    elif isinstance(value, Stacks):
        require(
            value.nodes.tolist() == nodes.tolist(), f"{name!r} has rows of {value.nodes}, this process owns {nodes}"
        )
    elif isinstance(value, Tensor):
        require(len(value) == len(nodes), f"{name!r} has {len(value)} rows, this process owns {len(nodes)} nodes")
    else:
        raise AssertionError(f"{name!r} is declared to be rows, and is a {type(value).__name__}")


class Watching(Method):
    """A method that passes the edges to its `Watched` plane at the start and at the beginning of every round."""

    def start(self, data: Data, env: Env) -> Data:
        cast(Watched, env.plane).edges = data.edge_index
        return super().start(data, env)

    def play(self, data: Data, env: Env) -> Data:
        cast(Watched, env.plane).edges = data.edge_index
        return super().play(data, env)


def watch(method: AnyMethod) -> AnyMethod:
    """Return the method with every phase `Watching`."""
    if isinstance(method, Phases):
        return replace(method, method=watch(method.method), next=watch(method.next))
    return Watching(**vars(method))


class Watched(Plane):
    """A plane for `Lockstep` that allows requests for rows along the round's edges only and delivers no others."""

    edges: Tensor  # those of the round, [2, E], set by `Watching`

    def halo_exchange(self, rows: Tensor, edge_index: Tensor) -> Halo:
        with self._asked(edge_index):
            return super().halo_exchange(rows, edge_index)

    def prefetch(self, edge_index: Tensor, rows: Callable[[], Iterable[Tensor]]) -> None:
        with self._asked(edge_index):
            super().prefetch(edge_index, rows)

    def evaluate_at(self, rows: Rows, *args: Any, **kwargs: Any) -> Tensor:
        index = rows.index.view(len(rows), -1)
        with self._asked(torch.stack([index.flatten(), rows.node.repeat_interleave(index.shape[1])])):
            return super().evaluate_at(rows, *args, **kwargs)

    @contextmanager
    def _asked(self, edge_index: Tensor) -> Iterator[None]:
        transport = cast(Lockstep, self.transport)
        nodes, moved = transport.nodes.tolist(), transport.meeting.moved[transport.process]
        sender, receiver = edge_index[:, edge_index[0] != edge_index[1]]
        beyond = ~torch.isin(sender * self.count + receiver, self.edges[0] * self.count + self.edges[1])
        strange = torch.stack([sender, receiver], 1)[beyond].tolist()
        require(not strange, f"rows were asked for along {strange}, which are no edges of the round")
        before = len(moved)
        yield
        heard = sender[transport.local_mask(receiver) & ~transport.local_mask(sender)].unique().tolist()
        for given in (one.sort().values.tolist() for one in moved[before:]):
            what = f"the owner of {nodes} was given rows of {given}, and its nodes hear {heard}"
            require(len({*given}) == len(given) and {*given} <= {*heard}, what)


def _same_models(alone: Stacks, own: Stacks, nodes: Tensor, what: str, tolerance: float) -> None:
    require(own.nodes.tolist() == nodes.tolist(), f"a process that owns {nodes.tolist()} has {what} of {own.nodes}")
    for one, many in zip(alone.held(nodes).tensors, own.tensors, strict=True):
        close(one, many, what, tolerance)
