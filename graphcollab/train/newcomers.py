"""Nodes that join after training: the methods that can serve them, and rounds that only they play."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.settings import Natural
from graphcollab.comm.plane import Plane
from graphcollab.components import (
    Env,
    Exchange,
    Formula,
    NeighborhoodMeans,
    NoExchange,
    Participation,
    SampleCounts,
    ThroughCenters,
    ThroughServer,
    Uniform,
)
from graphcollab.data.samples import Pool, Split
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Engine
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method, last_graph
from graphcollab.methods.phases import Phases
from graphcollab.nn.functional.by_receiver import receives
from graphcollab.train.result import Result
from graphcollab.train.start import build_graph


def played(method: Method | Phases, rounds: int) -> list[Method]:
    """Return the phases that were reached within a number of rounds."""
    if isinstance(method, Method):
        return [method]
    return played(method.method, rounds) + (played(method.next, rounds) if rounds > method.until else [])


def served(method: Method) -> bool:
    """Return whether a server gives nodes the average of all models, or of those of similar nodes."""
    exchange = method.exchange
    if not isinstance(exchange, Exchange) or exchange.against is not None or method.local.crosses:
        return False
    means = isinstance(exchange.route, NeighborhoodMeans) and isinstance(method.weigh, Formula)
    return means or isinstance(exchange.route, ThroughServer | ThroughCenters)


def at_server(method: Method, result: Result, newcomers: Tasks, edges: Tensor, new: Data, env: Env) -> Tensor:
    """Return weights in a server's averages, [E] as in `Weigher.for_newcomers`; without senders, models are kept."""
    old, known, route = result.data, result.data.num_nodes, cast(Exchange, method.exchange).route
    (sender, receiver), weigher = edges, cast(Formula, method.weigh)
    if isinstance(route, ThroughServer | ThroughCenters):
        weigher = SampleCounts() if route.weights == "counts" else Uniform()
    together = _together(result.tasks.to(old.x.device), newcomers)
    both = env._replace(engine=_engine(result, together))
    heard = (sender < known).nonzero().flatten()
    near = method.rewire.near_newcomers(old, new, env, both, edges[:, heard])
    if isinstance(route, ThroughServer) and route.within:
        cluster = together.require_cluster()
        near = near & (cluster[sender[heard]] == cluster[known + receiver[heard]])
    used = torch.zeros_like(sender, dtype=torch.bool).index_copy(0, heard, near)
    used |= (sender >= known) & ~receives(used, receiver, new.num_nodes)[receiver]
    ends = torch.stack([sender[used], known + receiver[used]])
    share = weigher.weights(Data(x=new.x, edge_index=ends, num_nodes=together.num_nodes), both)
    return torch.zeros(len(sender), dtype=new.x.dtype).masked_scatter(used, share.to(new.x.dtype))


def cannot_join(phases: Sequence[Method]) -> str | None:
    """Return why nodes cannot join after these phases; None if they can."""
    heard = [one for one in phases if one.along_edges or not isinstance(one.exchange, NoExchange)]
    if not heard:
        return "its nodes hear nobody, so newcomers learn alone: run it on their tasks"
    for one in heard:
        if one.local.crosses:
            return "its nodes compute gradients of each other's models in every round, and the old ones are at rest"
        if served(one):
            continue
        if not one.exchange.along_edges:
            return "its nodes hear no models, only what a server makes of those at work, and the old ones are at rest"
        if isinstance(one.exchange, Exchange) and one.exchange.message == "update":
            return "its nodes send what a round has changed, and the old ones change nothing any more"
        if any(field.kind == "per_edge" and field.known_to == "ends" for field in one.weigh.keeps):
            return "both nodes of an edge compute its weight, round after round, and the old ones are at rest"
    return None


def names_among(new: Sequence[str], old: Sequence[str]) -> list[str]:
    """Return names that distinguish newcomers from old nodes: "new north" if a "north" already exists."""
    taken, found = {*old, *new}, []
    for name in new:
        if name in old:
            name = next(longer for n in itertools.count(1) if (longer := "new " * n + name) not in taken)
            taken.add(name)
        found.append(name)
    return found


def play_newcomers(
    result: Result, newcomers: Tasks, start: Stacks, heard: Tensor, warmup: int, finetune: int
) -> tuple[Stacks, Tensor, Tensor]:
    """Play a method from its first round with newcomers that hear old nodes (``heard`` [2, E]), which are at rest.

    Of ``warmup + finetune`` rounds every phase but the last takes ``warmup``, at least 1; none if a server averages.
    Return the newcomers' evaluated models, and edges and weights of the last exchange: [2, E], from old (then new) to
    new nodes, and [E].
    """
    old, known = result.data, result.data.num_nodes
    *earlier, last = (one for one in played(result.method, old.round) if not served(one))
    method: Method | Phases = last
    for count, one in reversed([*enumerate(earlier, 1)]):
        method = Phases(one, count * max(warmup, 1), method)
    tasks = _together(result.tasks.to(old.x.device), newcomers)
    ends = torch.stack([heard[0], heard[1] + known])
    graph = Data(edge_index=torch.cat([ends, ends.flip(0)], 1), num_nodes=tasks.num_nodes)  # of positions
    data = build_graph(tasks, result.modules, graph, None, method)
    env = Env(
        _engine(result, tasks), Plane(tasks.num_nodes), result.env.seed, participation=_OnlyNewcomers(known=known)
    )
    first = old.x_init.tensors[0][:1].expand(newcomers.num_nodes, -1)
    data.x_init = Stacks.single(old.x.specs[0], torch.cat([old.x_init.tensors[0], first]))
    data.x = Stacks.single(old.x.specs[0], torch.cat([result.stacks.tensors[0], start.tensors[0]]))
    data = method.start(data, env)
    for _ in range(warmup + finetune):
        data = method.play(data, env)
    models = Stacks.single(old.x.specs[0], method.models(data, env).tensors[0][known:])
    edge_index, edge_weight = last_graph(data)
    mine = (edge_index[1] >= known) & (edge_weight != 0)
    return models, edge_index[:, mine] - torch.tensor([[0], [known]]), edge_weight[mine]


@dataclass(frozen=True)
class _OnlyNewcomers(Participation):
    """Participation in which old nodes serve and do not train, and newcomers train and do not serve."""

    known: Natural = 0

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        new = torch.arange(data.num_nodes) >= self.known
        return new, ~new


def _engine(result: Result, tasks: Tasks) -> Engine:
    engine, specs = result.env.engine, result.data.x.specs
    return Engine(tasks, result.modules, specs, plans=engine.plans)


def _together(old: Tasks, new: Tasks) -> Tasks:
    """Return the tasks of old and new nodes; new nodes keep their ``node_id``, which keys their random draws."""
    pools, splits = {}, {}
    for name in old.splits.keys() & new.splits.keys():
        one, two = old.splits[name], new.splits[name]
        first, second = old.pools[one.pool], new.pools[two.pool]
        pools[name] = Pool.joined([first, second])
        index = torch.cat([one.index, two.index + len(first)])
        splits[name] = Split(name, index, torch.cat([one.ptr, two.ptr[1:] + one.ptr[-1]]))
    ids = old.ids.clone()
    taken = torch.isin(ids, new.ids)
    ids[taken] = 1 + max(int(old.ids.max()), int(new.ids.max())) + torch.arange(int(taken.sum()))
    cluster = None if old.cluster is None or new.cluster is None else torch.cat([old.cluster, new.cluster])
    names = (*old.names, *names_among(new.names, old.names))
    return replace(old, pools=pools, splits=splits, names=names, node_id=torch.cat([ids, new.ids]), cluster=cluster)
