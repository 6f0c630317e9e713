"""Nodes that arrive after training get a personalised model at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from graphcollab.control.guard import settle
from graphcollab.engine import Engine
from graphcollab.engine.modules import copy_module
from graphcollab.naming import Node, find_node
from graphcollab.ops import mix
from graphcollab.plane import Plane
from graphcollab.settings import Natural, checked
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.train.result import Result
from graphcollab.train.start import build_graph, check_outputs
from graphcollab.typing import Env

__all__ = ["Joined", "join"]


@dataclass(frozen=True)
class Joined:
    """Models of nodes that joined, and whom they listen to.

    In ``edge_index`` [2, E] senders are among the old nodes (then the new ones), receivers among the new ones.
    """

    stacks: Stacks = field(repr=False)
    edge_index: Tensor = field(repr=False)
    edge_weight: Tensor = field(repr=False)
    names: tuple[str, ...]
    modules: Sequence[nn.Module] = field(repr=False)

    def model(self, node: Node) -> nn.Module:
        """Return a joined node's model as a plain module, by position among the new nodes or by name."""
        spec, row = self.stacks.row(find_node(node, self.names, "new node"))
        return spec.load_into(copy_module(self.modules[0]), row).eval()


@checked
def join(
    result: Result, newcomers: Tasks, *, allowed: Tensor | None = None, warmup: Natural = 1, finetune: Natural = 4
) -> Joined:
    """Give nodes that were not there during training a personalised model, by what a method has learned of weights.

    A newcomer trains alone for ``warmup`` rounds from the run's initial model; the method's weigher says whom to listen
    to (meta-L2C by attention between its change and those of the old nodes); its model becomes the initial one plus the
    weighted sum of all changes since the run's start, which it then trains for ``finetune`` rounds on its own data.
    Nothing is sent to the old nodes, whose models and weights stay as they are. (The paper says that meta-L2C serves
    new nodes but not how; this is our reading.)

    Args:
        result: A run of a method that can weigh models it has never met (`Weigher.for_newcomers`; meta-L2C), one
            architecture. Of `Phases` the one that played last counts.
        newcomers: The new nodes' data.
        allowed: Edges from an old node to a new one, both by position, [2, E]. Default: all pairs. A newcomer always
            hears itself, and never a node that was isolated. Where parts of the graph that are not connected trained
            mixers of their own, a newcomer may hear nodes of one part only, and uses its mixer.
        warmup: Rounds of local training before mixing.
        finetune: Rounds after it.

    Raises:
        ValueError: If the method cannot weigh newcomers' models, their data do not fit the models, an edge is out of
            range or double, or a newcomer would hear nodes with different mixers.
        NonFiniteLossError: If the loss of a new node is not finite.
    """
    old = result.data
    method = result.method.last(old.round)
    if len(old.x.specs) > 1:
        raise ValueError("nodes can join runs of one architecture only")
    start, part = old.x_init.tensors[0][:1], method.part
    newcomers = newcomers.to(old.x.device)
    heard = _allowed_edges(allowed, old.isolated, newcomers.num_nodes)
    known, count = old.num_nodes, newcomers.num_nodes
    receiver = torch.arange(count)
    edges = torch.cat([heard, torch.stack([known + receiver, receiver])], 1)
    weigh = method.weigh.for_newcomers(old, edges, (*result.tasks.names, *newcomers.names))
    if weigh is None:
        raise ValueError(
            f"{method.name} cannot say whom a newcomer should listen to: use a method that has learned to weigh models "
            "which it has never met, such as meta_l2c"
        )
    check_outputs(newcomers, result.modules)
    autocast = result.env.engine.backends[0].autocast
    engine = Engine(newcomers, result.modules, old.x.specs, plans=result.env.engine.plans, autocast=autocast)
    env = Env(engine, Plane(), result.env.seed)
    new = build_graph(newcomers, result.modules, torch.empty(2, 0, dtype=torch.int64))
    new.x = new.x_init = Stacks.single(old.x.specs[0], start.expand(new.num_nodes, -1))
    new = method.local.init(new, env)

    def train(rounds: int) -> None:
        nonlocal new
        for _ in range(rounds):
            new.x_start = new.x
            new = settle(method.local(new, env), method.local, env)
            new.round = new.round + 1

    train(warmup)
    origin, weight = start[:, old.x.specs[0].columns(part)], weigh(new.x.part(part))
    changes = torch.cat([old.x.part(part), new.x.part(part)]) - origin  # [K + K', P_part]
    new.x = new.x.with_part(part, origin + mix(changes, weight, edges, count))
    train(finetune)
    return Joined(new.x, edges, weight, newcomers.names, result.modules)


def _allowed_edges(allowed: Tensor | None, isolated: Tensor, count: int) -> Tensor:
    """Return the edges from old nodes to new ones, sorted by receiver, without those of isolated nodes, [2, E]."""
    known = len(isolated)
    if allowed is None:
        allowed = torch.cartesian_prod(torch.arange(count), torch.arange(known)).T.flip(0)
    if allowed.dim() != 2 or allowed.shape[0] != 2 or allowed.is_floating_point():
        raise ValueError(
            "allowed must hold an old node and a new one per edge, integers of shape [2, E], got "
            f"{allowed.dtype} of shape {tuple(allowed.shape)}"
        )
    allowed = allowed.cpu().long()
    if bool(((allowed < 0) | (allowed >= torch.tensor([[known], [count]]))).any()):
        raise ValueError(f"allowed must name old nodes from 0 to {known - 1} and new ones from 0 to {count - 1}")
    key = allowed[1] * known + allowed[0]
    if len(key.unique()) < len(key):
        raise ValueError("allowed names an edge twice: leave out doubles, for example by allowed.unique(dim=1)")
    allowed = allowed[:, key.argsort()]
    return allowed[:, ~isolated[allowed[0]]]
