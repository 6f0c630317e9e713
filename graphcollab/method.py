"""A method is a value with named slots; one round is the slots in order."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab.comm import Relation
from graphcollab.control import attend, dismiss
from graphcollab.control.allowed import forbidden_edges
from graphcollab.control.at_work import count_messages
from graphcollab.control.guard import judge
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.exchange import NoExchange, ServerAverage
from graphcollab.piece import Exchanger, Judge, Local, Rewiring, Stop, Weigher
from graphcollab.rewire import EveryRound, Keep
from graphcollab.stack import Stacks
from graphcollab.stop.watch import NoWatch
from graphcollab.tasks import Tasks
from graphcollab.transforms import select_edges
from graphcollab.typing import Env
from graphcollab.weigh import NoWeights

__all__ = ["Method", "NonFiniteLossError", "OwnModel"]


@dataclass(frozen=True)
class OwnModel(Judge):
    """A node serves and is judged by its own model."""

    def __call__(self, data: Data, env: Env) -> Stacks:
        """Return ``data.x``."""
        return data.x


@dataclass(frozen=True)
class Method:
    """Hyper-parameters of a collaboration method, slot by slot.

    A round is local → weigh → exchange → learn → rewire. Everything that survives a round lives in the ``Data``, made
    by the parts' ``init``, so a method never has state and a checkpoint is the ``Data``.

    Args:
        name: The method's name, for tables.
        local: What a node does on its own data.
        weigh: How edge weights come about; a learned weigher gets ∂L_i/∂w_ij of the validation losses.
        exchange: What is mixed and onto which base.
        rewire: Next round's edges and nodes at work. A PyG transform is applied every round (`EveryRound`).
        personal: The models nodes serve and are judged by.
        watch: What is watched before and after merging; it may stop nodes.
        prepare: Transform applied to the graph before the first round, for example adding self-loops.
        global_state: Whether connected nodes share state other than along edges (a server, a shared encoder).

    Raises:
        ValueError: If the weigher, the local update or the rewiring is about another part of the model than the
            exchange mixes, or does something else with its buffers.
    """

    name: str
    local: Local
    weigh: Weigher = field(default_factory=NoWeights)
    exchange: Exchanger = field(default_factory=NoExchange)
    rewire: Rewiring | BaseTransform = field(default_factory=Keep)
    personal: Judge = field(default_factory=OwnModel)
    watch: Stop = field(default_factory=NoWatch)
    prepare: BaseTransform | None = None
    global_state: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.rewire, BaseTransform):
            object.__setattr__(self, "rewire", EveryRound(self.rewire))
        if self.watch.stops and isinstance(self.exchange, ServerAverage):
            raise ValueError(
                f"{self.name} averages through a server, which gives its model to nodes that have stopped too: stop "
                "the whole run by run(patience=...) instead"
            )
        self._check_parts()

    @property
    def part(self) -> str:
        """Part of the model that is mixed: the exchange's."""
        return self.exchange.part

    @property
    def along_edges(self) -> bool:
        """Whether models travel along the graph's edges; where they do not, a run needs none."""
        return self.exchange.along_edges

    @property
    def finds_peers(self) -> bool:
        """Whether edges are drawn anew every round; a graph that is given then says which may be drawn."""
        return self.rewire.finds_peers

    @property
    def embeds(self) -> bool:
        """Whether a slot, or the objective of one, reads latents, which models need then (`SplitModel` has them)."""
        slots = [getattr(self, one.name) for one in dataclasses.fields(self)]
        return any(
            getattr(part, "embeds", False) for slot in slots for part in (slot, getattr(slot, "objective", None))
        )

    @property
    def stops(self) -> bool:
        """Whether nodes may stop early."""
        return self.watch.stops

    def ends(self, data: Data) -> bool:
        """Tell whether there is nothing left to do, since all nodes have stopped."""
        return self.stops and bool((data.stopped | data.isolated).all())

    def replace(self, **slots: Any) -> Method:
        """Return the method with other slots; no state is shared."""
        return dataclasses.replace(self, **slots)

    def last(self, played: int) -> Method:
        """Return the method that played last: this one; `Phases` have several."""
        return self

    def check(self, tasks: Tasks) -> None:
        """Check that nodes have the data the method needs.

        Raises:
            ValueError: If a node lacks samples of a split.
        """
        for split in self.weigh.needs:
            tasks.require(split, f"{self.name} needs to {'learn' if self.weigh.learns else 'find'} edge weights")
        for split in self.watch.needs:
            tasks.require(split, f"{self.name} needs to watch its nodes")

    def start(self, data: Data, env: Env) -> Data:
        """Create what the parts keep from round to round; all nodes but isolated ones are at work."""
        data = copy.copy(data)
        if env.attend is not None:
            env.attend.check(data)
            data.present = env.attend.members(data, data.round)
        data.trains = data.serves = ~data.isolated
        data.phase_start = data.round
        if "stopped" in data and not self.stops:
            del data.stopped
        if "server" in data:  # of an earlier phase; parts that use servers connect the nodes to theirs
            del data.server
        if self.prepare is not None:
            data = allowed_only(self.prepare(data))
        for part in (self.local, self.weigh, self.exchange, self.watch, self.rewire, self.personal):
            data = part.init(data, env)
        return allowed_only(data)

    def play(self, data: Data, env: Env) -> Data:
        """Play one round."""
        data = copy.copy(data)
        for name in ("scores", "probe"):  # of the last round
            if name in data:
                del data[name]
        data.x_start = data.x
        before = data
        data = began = sift(attend(data, env), self.local, env)
        serves_start, alone = self.exchange.serves_start, not self.local.crosses
        data = settle(self.local(data, env), env, serves_start, alone)
        data = self.watch.before(data, env)
        data = self.weigh(data, env)
        data = self.exchange(count_messages(data, env, self.exchange.at_server(data)), env)
        edge_index, edge_weight = data.edge_index, data.edge_weight
        if self.weigh.learns:
            data = self._learn(data, env)
        data = self.rewire(dismiss(self.watch.after(data, env), before, began, env), env)
        data = copy.copy(data)
        for name in ("x_start", "x_local", "last_graph"):
            if name in data:
                del data[name]
        if data.edge_index is not edge_index:
            data.last_graph = Relation(edge_index, edge_weight, (data.num_nodes, data.num_nodes))
            data = allowed_only(data)
        data.round = data.round + 1
        return data

    def models(self, data: Data, env: Env) -> Stacks:
        """Return the models nodes are judged by."""
        return self.personal(data, env)

    def _check_parts(self) -> None:
        """Check that all slots that name a part of the model name the exchange's."""
        others: list[tuple[str, object, str]] = [("part", self.weigh, "its weigher compares")]
        if not isinstance(self.exchange, NoExchange):  # it names a part for the weigher only
            if getattr(self.local, "mixed", True):  # CrossGradients says so where models and gradients go together
                others.append(("part", self.local, "its local update shares"))
            others.append(("buffers", self.weigh, "its weigher judges"))
            others += [(name, self.rewire, "its rewiring says") for name in ("part", "buffers")]
        for name, slot, does in others:
            wanted = getattr(self.exchange, name, None)
            other = getattr(slot, name, wanted)
            if other != wanted:
                what = "exchanges the part" if name == "part" else "exchanges with buffers"
                raise ValueError(f"{self.name} {what} {wanted!r}, and {does} {other!r}: give both the same {name}")

    def _learn(self, data: Data, env: Env) -> Data:
        """Let the weigher learn from the validation losses of the mixed models."""
        losses, cotangent = env.engine.grad(Rows.own(data.x), "val", part=self.part)
        losses = env.plane.gather(losses)
        bad = (~torch.isfinite(losses) & ~data.isolated).nonzero().flatten()
        if len(bad) and env.isolate:
            data = isolate(data, dict.fromkeys(bad.tolist(), "its loss was not finite on its validation data"))
        elif len(bad):
            raise NonFiniteLossError(
                f"{env.engine.tasks.names[int(bad[0])]}: validation loss is {float(losses[bad[0]])} in round "
                f"{data.round} after the exchange: use a smaller step size"
            )
        cotangent = cotangent.masked_fill(env.plane.mine(data.isolated)[:, None], 0)
        return self.weigh.learn(data, env, self.exchange.weight_gradient(data, env, cotangent))


def allowed_only(data: Data) -> Data:
    """Take out the edges that may not exist, whoever made them."""
    forbidden = forbidden_edges(data)
    return data if forbidden is None else select_edges(data, ~forbidden)


def last_graph(data: Data) -> tuple[Tensor, Tensor]:
    """Return edges [2, E] and weights [E] of the last exchange; the data's own are already the next round's."""
    if "last_graph" in data:
        return data.last_graph.edge_index, data.last_graph.values
    return data.edge_index, data.edge_weight


def sift(data: Data, local: Local, env: Env) -> Data:
    """Isolate nodes whose own step diverges, where nodes hear of each other in the local update already."""
    if not local.crosses or not env.isolate:
        return data
    tried, why = judge(local.alone(data, env), env, serves_start=True)
    data = copy.copy(data)
    data.good, data.loss_bound = tried.good, tried.loss_bound  # the round is judged again after the local update
    return isolate(data, why) if why else data


def settle(data: Data, env: Env, serves_start: bool = False, alone: bool = True) -> Data:
    """Stop at a loss that is not finite, or isolate the nodes that have diverged where the run asks for that.

    Args:
        data: The graph after the local update.
        env: What stages may use.
        serves_start: Whether others hear the models that the round began with.
        alone: Whether updates are nodes' own, and not steps along what others answered.
    """
    if env.isolate:
        data, why = judge(data, env, serves_start, alone)
        return isolate(data, why) if why else data
    bad = (data.bad_step >= 0).nonzero().flatten()
    if not len(bad):
        return data
    node, step = int(bad[0]), int(data.bad_step[bad[0]])
    others = f" (and {len(bad) - 1} more nodes)" if len(bad) > 1 else ""
    raise NonFiniteLossError(
        f"{env.engine.tasks.names[node]}{others}: loss is not finite in round {data.round} at local step {step}: "
        "use a smaller step size, check the node's data, or go on without such nodes by on_nonfinite='isolate'"
    )


def isolate(data: Data, why: Mapping[int, str]) -> Data:
    """Take nodes out of the collaboration: they get their last good models back, rest, and lose their edges.

    Args:
        data: The graph, with what `judge` keeps.
        why: The nodes, and what was found with each of them.
    """
    nodes = torch.tensor(sorted(why), dtype=torch.int64, device=data.node_id.device)
    new = torch.zeros_like(data.isolated).index_fill(0, nodes, True) & ~data.isolated
    apart = data.isolated | new
    sender, receiver = data.edge_index
    data = copy.copy(select_edges(data, (sender == receiver) | ~(apart[sender] | apart[receiver])))
    for name, models in data.good.items():
        data[name] = data[name].where(new, models)
    if "x_start" in data:
        data.x_start = data.x_start.where(new, data.x)  # with it others would multiply, if only by zero
    data.isolated = apart
    data.isolated_because = {**data.get("isolated_because", {}), **why}
    data.train_loss = data.train_loss.masked_fill(apart, float("nan"))
    data.trains, data.serves = data.trains & ~apart, data.serves & ~apart
    return data
