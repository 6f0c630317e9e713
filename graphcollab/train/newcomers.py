"""How nodes join that come after training: which methods can serve them, and rounds that only they play."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control import Attendance
from graphcollab.engine import Engine
from graphcollab.exchange import AlongEdges, Exchange, NoExchange, ThroughServer
from graphcollab.method import Method, last_graph
from graphcollab.phases import Phases
from graphcollab.plane import Plane
from graphcollab.settings import Natural
from graphcollab.stack import Stacks
from graphcollab.tasks import Pool, Split, Tasks
from graphcollab.train.result import Result
from graphcollab.train.start import build_graph
from graphcollab.typing import Env

__all__ = ["averages", "cannot_join", "names_among", "play_newcomers"]


def averages(method: Method | Phases, result: Result, edges: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return what weighs the old nodes' models as a server does that averages all of them, [E]; None if none does."""
    one = method.last(result.data.round)
    exchange = one.exchange
    if not (isinstance(exchange, Exchange) and isinstance(exchange.route, ThroughServer) and one.judge.field == "x"):
        return None
    if (exchange.base, exchange.message, exchange.part) != ("zero", "x", "all"):
        return None
    known = result.data.num_nodes
    counts = result.tasks.sizes("train").to(result.data.x.dtype)
    counts = counts if exchange.route.weights == "counts" else torch.ones_like(counts)
    sender, receiver = edges
    given = torch.where(sender < known, counts[sender.clamp(max=known - 1)], 0.0)
    total = torch.zeros(int(receiver.max()) + 1, dtype=given.dtype).index_add(0, receiver, given)
    own = (sender >= known) & (total[receiver] == 0)  # one that hears nobody keeps its model
    weight = torch.where(own, 1.0, given / total[receiver].clamp(min=1e-30))
    return lambda part: weight.to(part)


def cannot_join(method: Method | Phases) -> str | None:
    """Return why no newcomer can play a method's rounds while the others rest; None if it can."""
    silent = [isinstance(one.exchange, NoExchange) and not one.along_edges for one in _phases(method)]
    if all(silent):
        return "its nodes hear nobody, so newcomers learn alone: run it on their tasks"
    for one in itertools.compress(_phases(method), [not hears_nobody for hears_nobody in silent]):
        if one.local.crosses:
            return "its nodes compute gradients for each other in every round, and the old ones are at rest"
        if not isinstance(one.exchange, Exchange) or type(one.exchange.route) is not AlongEdges:
            return "what its nodes hear depends on who takes part in a round, and the old ones are at rest"
        if one.exchange.message == "update":
            return "its nodes send what a round has changed, and the old ones change nothing any more"
        lasting = [field for field in one.weigh.keeps if field.kind == "per_edge" and field.lifetime != "round"]
        if one.weigh.origin != "computed" or lasting:
            return "its weights grow over rounds in which both nodes of an edge train"
    return None


def names_among(new: Sequence[str], old: Sequence[str]) -> list[str]:
    """Return names of newcomers by which they are told from old nodes: "new north" where there is a "north" already."""
    taken, found = {*old, *new}, []
    for name in new:
        if name in old:
            name = next(longer for n in itertools.count(1) if (longer := "new " * n + name) not in taken)
            taken.add(name)
        found.append(name)
    return found


def play_newcomers(result: Result, newcomers: Tasks, heard: Tensor, rounds: int) -> tuple[Stacks, Tensor, Tensor]:
    """Play a method from its first round with newcomers that hear old nodes, who rest with the models they have.

    Args:
        result: The run.
        newcomers: The new nodes' data, on the run's device.
        heard: Edges from an old node to a new one, [2, E].
        rounds: How many.

    Returns:
        The models that newcomers are judged by, the edges of the last exchange, of senders among the old nodes (then
        the new ones) and receivers among the new ones, [2, E], and their weights, [E].
    """
    method, old, known = result.method, result.data, result.data.num_nodes
    tasks = _together(result.tasks.to(old.x.device), newcomers)
    ends = torch.stack([heard[0], heard[1] + known])
    data = build_graph(tasks, result.modules, torch.cat([ends, ends.flip(0)], 1), None, method)
    backend = result.env.engine.backends[0]
    engine = Engine(tasks, result.modules, old.x.specs, plans=result.env.engine.plans, autocast=backend.autocast)
    env = Env(engine, Plane(tasks.num_nodes), result.env.seed, attend=_OnlyNewcomers(known=known))
    start = old.x_init.tensors[0][:1].expand(newcomers.num_nodes, -1)
    data.x_init = Stacks.single(old.x.specs[0], torch.cat([old.x_init.tensors[0], start]))
    data.x = Stacks.single(old.x.specs[0], torch.cat([result.stacks.tensors[0], start]))
    data = method.start(data, env)
    for _ in range(rounds):
        data = method.play(data, env)
    models = Stacks.single(old.x.specs[0], method.models(data, env).tensors[0][known:])
    edge_index, edge_weight = last_graph(data)
    mine = (edge_index[1] >= known) & (edge_weight != 0)
    return models, edge_index[:, mine] - torch.tensor([[0], [known]]), edge_weight[mine]


@dataclass(frozen=True)
class _OnlyNewcomers(Attendance):
    """Old nodes serve and do not train, newcomers train and do not serve."""

    known: Natural = 0

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Return who trains and whose models are heard."""
        new = torch.arange(data.num_nodes) >= self.known
        return new, ~new


def _phases(method: Method | Phases) -> Iterator[Method]:
    if isinstance(method, Phases):
        yield from _phases(method.method)
        yield from _phases(method.next)
    else:
        yield method


def _together(old: Tasks, new: Tasks) -> Tasks:
    """Return the tasks of old and new nodes; of new ones with the ``node_id`` they have, which keys what they draw."""
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
