"""`join`: personalized models for nodes that arrive after training."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import MismatchError, UnsupportedError
from graphcollab._base.naming import Node, few, find_node
from graphcollab._base.settings import Natural, checked
from graphcollab.analysis.metrics import Scores
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, score_nodes
from graphcollab.comm.plane import Plane
from graphcollab.components import Env, Exchange
from graphcollab.components.at_work import membership
from graphcollab.components.exchange.exchange import buffers_travel
from graphcollab.components.guard import settle
from graphcollab.data import Preparation
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Engine, Rows
from graphcollab.engine.modules import copy_module
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method
from graphcollab.nn.functional import edge_products, mix
from graphcollab.persistence.learned_graph import LearnedGraph
from graphcollab.persistence.save_models import save_models
from graphcollab.train.check_outputs import check_outputs
from graphcollab.train.graph_input import Pairs, read_pairs
from graphcollab.train.newcomers import at_server, cannot_join, names_among, play_newcomers, played, served
from graphcollab.train.result import Result
from graphcollab.train.start import build_graph
from graphcollab.transforms import Isolated


@dataclass(frozen=True)
class Joined:
    """Models of nodes that joined, the nodes they listen to, and a local-training baseline.

    In ``edge_index`` [2, E] senders are among the old nodes (then the new ones), receivers among the new ones.
    ``alone`` holds the models after as many rounds of purely local training; ``tasks`` are the newcomers' data, and
    ``run`` is the run that they joined.
    """

    stacks: Stacks = field(repr=False)
    edge_index: Tensor = field(repr=False)
    edge_weight: Tensor = field(repr=False)
    tasks: Tasks = field(repr=False)
    run: Result = field(repr=False)
    alone: Stacks = field(repr=False)
    engine: Engine = field(repr=False)

    def __repr__(self) -> str:
        sizes = self.tasks.sizes("test").tolist()
        told = [f"{name} ({n or 'no'} test samples)" for name, n in zip(self.names, sizes, strict=True)]
        if any(sizes):
            with own_filter("ignore"):  # `scores` warns of undefined metrics
                ours, alone = (self.scores(alone=one) for one in (False, True))
            name = ours.metrics[0].name
            pairs = [*zip(ours[name].tolist(), alone[name].tolist(), strict=True)]
            judged = [f": {name} {a:.4g}, alone {b:.4g}" if n else "" for n, (a, b) in zip(sizes, pairs, strict=True)]
            told = [one + more for one, more in zip(told, judged, strict=True)]
        return f"Joined({self.run.method.name}; {few(told, '; ')})"

    @property
    def names(self) -> tuple[str, ...]:
        """The new nodes."""
        return self.tasks.names

    def graph(self) -> LearnedGraph:
        """Return the graph of the nodes that newcomers listen to; its nodes are the old ones, then the new ones.

        A newcomer with the name of an old node is called "new" and that name in the graph.
        """
        old = self.run.tasks
        ends = self.edge_index + torch.tensor([[0], [old.num_nodes]], device=self.edge_index.device)
        names = [*old.names, *names_among(self.names, old.names)]
        graph = LearnedGraph(edge_index=ends, edge_weight=self.edge_weight, num_nodes=len(names), name=names)
        graph.node_id = torch.cat([old.ids, self.tasks.ids])
        return graph

    def save(self, folder: str | Path) -> Path:
        """Save the newcomers' models and everything needed to predict, but no other models; see `Result.save`."""
        about = {**self.run.about(), "values": {}, "best": None}  # those were measured at other nodes
        return save_models(folder, self.stacks, self.run.modules, self.tasks, self.graph(), about)

    def scores(self, metrics: AnyMetrics = None, split: str = "test", alone: bool = False) -> Scores:
        """Return metrics of the newcomers' models, or of those trained alone, as `Result.scores` does."""
        models = self.alone if alone else self.stacks
        return score_nodes(self.engine, models, split, as_metrics(metrics, self.engine.tasks.metric))

    def model(self, node: Node) -> nn.Module:
        """Return a joined node's model as a plain module, by name or position among the new nodes (see `Node`)."""
        spec, row = self.stacks.row(find_node(node, self.names, "new node"))
        return spec.load_into(copy_module(self.run.modules[0]), row).eval()


@checked
def join(
    result: Result,
    newcomers: Tasks,
    *,
    allowed: Tensor | Pairs | None = None,
    warmup: Natural = 1,
    finetune: Natural = 4,
) -> Joined:
    """Give nodes that were absent during training a personalized model. Old nodes' models stay unchanged.

    The procedure depends on the method:

    - A method that has learned to weigh models it has never seen (meta-L2C): a newcomer trains alone for ``warmup``
      rounds from the run's initial model. Attention between its change and those of the old nodes gives its weights.
      Its model becomes the initial one plus the weighted sum of all changes since the run's start, and is trained for
      ``finetune`` rounds on its own data. (The paper says that meta-L2C serves new nodes but not how; this is our
      interpretation.)
    - A method that learns a weight for every edge (L2C): the same, with weights that the newcomer learns on its own
      validation samples, in as many steps as the run has taken; the old nodes' models stay fixed. (Also our
      interpretation.)
    - A method in which a server averages whole models: a newcomer starts from that average and trains it for
      ``finetune`` rounds. The average is over all old nodes' models (FedAvg), those whose center fits the newcomer's
      training data best (IFCA), or those whose tasks are close to its own (FLT).
    - A method in which a server averages a part of models (FedSim, FedClassAvg) or nodes train a personal model beside
      the average (Ditto): newcomers play ``warmup + finetune`` rounds as clients of that server, which sends them the
      same part in every round.
    - A method in which models travel along edges and a node finds the weights of its in-neighbors (D-PSGD, DAC, PENS,
      FedFomo, FedAMP, pFedGraph, pFedSim, MAPL, the directed collaboration graph): newcomers play ``warmup + finetune``
      rounds of the method, from its first round; old nodes are at rest and serve their evaluated models. All phases
      except the last take ``warmup`` rounds, at least one; if a server averages, they take none, and newcomers start
      from its average.

    Args:
        result: A run with a single architecture.
        newcomers: The new nodes' data.
        allowed: Pairs of an old node and a new one that may hear it, by name or position; or both by position, [2, E].
            Default: all pairs. A newcomer never hears another newcomer, nor a node that was isolated, has left, or has
            not joined. If unconnected parts of the graph trained mixers of their own, a newcomer may only hear nodes of
            one part, and uses its mixer.
        warmup: Rounds of local training before mixing, or further rounds as described above.
        finetune: Rounds after mixing.

    Raises:
        ValueError: If joining is not defined for the method (the message explains why), the newcomers' data do not fit
            the models or were prepared from a table differently than the run's, an edge is out of range, or a newcomer
            would hear nodes with different mixers.
        NonFiniteLossError: If the loss of a new node is not finite.
    """
    old = result.data
    if result.env.plane.cross_silo:
        raise UnsupportedError(
            "result", "nodes join in one process, which needs the models of all: no site has those of others"
        )
    if not result.env.plane.alone:
        raise UnsupportedError(
            "result",
            "nodes join in one process: start the run again without torchrun from its checkpoint, and join that result",
        )
    method = result.method.last(old.round)
    if len(old.x.specs) > 1:
        raise UnsupportedError("result", "nodes can join runs of one architecture only")
    start = old.x_init.tensors[0][:1]
    _refuse_other_preparation(result.tasks, newcomers)
    _warn_of_known(newcomers, result.tasks)
    newcomers = newcomers.to(old.x.device)
    heard = _allowed_edges(allowed, result.tasks.names, newcomers.names)
    member, _ = membership(old, result.env)
    heard = heard[:, ~(old.isolated | ~member)[heard[0]]]
    known, count = old.num_nodes, newcomers.num_nodes
    receiver = torch.arange(count)
    edges = torch.cat([heard, torch.stack([known + receiver, receiver])], 1)
    names = (*result.tasks.names, *names_among(newcomers.names, result.tasks.names))
    weigh = method.weigh.for_newcomers(old, edges, names)
    phases = played(result.method, old.round)
    if weigh is None and (reason := cannot_join(phases)):
        raise UnsupportedError(
            "result",
            f"nodes cannot join {result.method.name}: {reason}. Use another method, such as l2c, meta_l2c, fedavg, "
            "ditto or dac; or run with them from the start, participation=Participation(joins=...)",
        )
    method.check(newcomers)
    check_outputs(newcomers, result.modules)
    engine = Engine(newcomers, result.modules, old.x.specs, plans=result.env.engine.plans)
    env = Env(engine, Plane(), result.env.seed)
    new = build_graph(newcomers, result.modules, Isolated())
    new.x = new.x_init = Stacks.single(old.x.specs[0], start.expand(new.num_nodes, -1))

    arrival = _Arrival(method, old, env, edges)
    warm = arrival.train(method.local.init(new, env), warmup)
    alone = arrival.train(copy.copy(warm), finetune).x
    if weigh is not None:
        weight = weigh(warm, env, partial(arrival.gradient, warm.x))
        warm.x = arrival.mixed(warm.x, weight)
        models = arrival.train(warm, finetune).x
    elif served(method):
        weight = at_server(method, result, newcomers, edges, new, env)
        new.x = arrival.mixed(new.x, weight)
        given = method.local.init(new, env)
        whole = method.part == "all" and method.judge.field == "x"
        trained = arrival.train(given, finetune) if whole else arrival.train(given, warmup + finetune, weight)
        models = trained.x if whole else method.models(trained, env)
        edges, weight = edges[:, weight != 0], weight[weight != 0]
    else:
        for one in filter(served, phases):
            new.x = replace(arrival, method=one).mixed(new.x, at_server(one, result, newcomers, edges, new, env))
        models, edges, weight = play_newcomers(result, newcomers, new.x, heard, warmup, finetune)
    return Joined(models, edges, weight, newcomers, result, alone, engine)


@dataclass(frozen=True)
class _Arrival:
    """Newcomers with edges from ``old`` nodes and from themselves; edges as in `Weigher.for_newcomers`."""

    method: Method
    old: Data
    env: Env
    edges: Tensor

    def mixed(self, models: Stacks, weight: Tensor) -> Stacks:
        """Return the newcomers' models with the weighted sums of the terms that the method exchanges."""
        exchange, parts = self.method.exchange, [self.method.part]
        if isinstance(exchange, Exchange):
            parts = exchange.route.parts(exchange.part)
            parts = [*parts, "buffers"] if buffers_travel(self.old.x, exchange.buffers) else parts
        for part in parts:
            origin, changes = self._changes(models, part)
            models = models.with_part(part, origin + mix(changes, weight, self.edges, models.num_nodes))
        return models

    def gradient(self, models: Stacks, weight: Tensor) -> Tensor:
        """Return ∂L_i/∂w_ij of the mixed models' validation losses, [E]."""
        part = self.method.part
        _, cotangent = self.env.engine.grad(Rows.own(self.mixed(models, weight)), "val", part=part)
        return edge_products(cotangent, self._changes(models, part)[1], self.edges)

    def train(self, data: Data, rounds: int, weight: Tensor | None = None) -> Data:
        """Train alone, or, given weights, as clients of a server whose part of the model stays fixed."""
        for _ in range(rounds):
            data.x_start = data.x
            data = settle(self.method.local(data, self.env), self.method.local, self.env)
            if weight is not None:
                data.x_local = data.x
                data.x = self.mixed(data.x, weight)
                if isinstance(self.method.exchange, Exchange):
                    data = self.method.exchange.settle(data, self.env)
            data.round = data.round + 1
        return data

    def _changes(self, models: Stacks, part: str) -> tuple[Tensor, Tensor]:
        """Return the run's initial model, [1, P_part], and all models minus it, [K + K', P_part]."""
        origin = self.old.x_init.part(part)[:1]
        return origin, torch.cat([self.old.x.part(part), models.part(part)]) - origin


def _warn_of_known(newcomers: Tasks, old: Tasks) -> None:
    same = [name for name in newcomers.names if name in old.names]
    if same and old.preparation is not None and newcomers.preparation is not None:
        issue(
            "duplicate",
            "newcomers",
            f"the run has {'sites' if len(same) > 1 else 'a site'} {few([*map(repr, same)])} already: newcomers of "
            "that name are taken for other sites, 'new ...' in graphs, and the models of the old ones stay as they "
            "are. To train an old site further, run again with all its rows",
        )


def _refuse_other_preparation(old: Tasks, new: Tasks) -> None:
    known = old.preparation
    if known is None or new.preparation is None:
        return
    mine, other = (_numbers_of(one, moments=not known.sites) for one in (known, new.preparation))
    if [*mine.items()] == [*other.items()]:
        return
    differing = [name for name in {**mine, **other} if mine.get(name) != other.get(name)] or ["order of columns"]
    cure = "preparation=tasks.preparation" + (', refit=True, pooled="per_site"' if known.sites else "")
    raise MismatchError(
        "newcomers", f"the newcomers' preparation differs in {few(differing)}: use Tasks.from_frame(new, {cure})"
    )


def _numbers_of(preparation: Preparation, moments: bool) -> dict[str, tuple[Any, ...]]:
    """Return the numbers of a table's preparation by column, the target last; with or without means and deviations."""
    made: dict[str, tuple[Any, ...]] = {"classes": preparation.classes}
    made |= {f"column {one.name!r}": one.features for one in preparation.columns}
    if moments:
        every = (*preparation.columns, preparation.target)
        made |= {f"moments of {one.name!r}": (one.mean, one.deviation) for one in every}
    return made


def _allowed_edges(allowed: Tensor | Pairs | None, old: Sequence[str], new: Sequence[str]) -> Tensor:
    """Return the edges from old nodes to new ones, [2, E], sorted by receiver."""
    if allowed is None:
        return torch.cartesian_prod(torch.arange(len(new)), torch.arange(len(old))).T.flip(0)
    if isinstance(allowed, Tensor):  # holds positions, even if names are numbers
        sender, receiver = allowed.tolist()
        allowed = [*zip(sender, receiver, strict=True)]
        old, new = ([*map(str, range(len(names)))] for names in (old, new))
    edges = read_pairs("allowed", "pairs (old node, new node)", allowed, old, new)
    return edges[:, (edges[1] * len(old) + edges[0]).argsort()]
