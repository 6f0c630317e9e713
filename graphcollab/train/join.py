"""Nodes that arrive after training: the learned mixer gives them a personalised model at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch_geometric.utils import softmax

from graphcollab.comm import Comm
from graphcollab.control.guard import settle
from graphcollab.engine import Engine
from graphcollab.engine.copy_module import copy_module
from graphcollab.nn import Mixer, Mixers
from graphcollab.ops import edge_products, mix
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.train.check import check_outputs
from graphcollab.train.result import Result
from graphcollab.train.start import build_graph
from graphcollab.typing import Env
from graphcollab.weigh import ChannelAttention

__all__ = ["Joined", "join"]


@dataclass(frozen=True)
class Joined:
    """Models of nodes that joined, and whom they listen to.

    Args:
        stacks: Their models.
        edge_index: Edges to them: sender among the old nodes (then the new ones), receiver among the new ones, [2, E].
        edge_weight: What they give each sender, [E].
        names: Names of the new nodes.
        modules: The architecture.
    """

    stacks: Stacks = field(repr=False)
    edge_index: Tensor = field(repr=False)
    edge_weight: Tensor = field(repr=False)
    names: tuple[str, ...]
    modules: Sequence[nn.Module] = field(repr=False)

    def model(self, node: int | str) -> nn.Module:
        """Return a joined node's model as a plain module, by position among the new nodes or by name.

        Raises:
            KeyError: If there is no node of that name.
        """
        if isinstance(node, str):
            if node not in self.names:
                raise KeyError(f"there is no new node {node!r}; they are {', '.join(self.names[:5])}, …")
            node = self.names.index(node)
        spec, row = self.stacks.row(node)
        return spec.load_into(copy_module(self.modules[0]), row).eval()


def join(
    result: Result, newcomers: Tasks, *, allowed: Tensor | None = None, warmup: int = 1, finetune: int = 4
) -> Joined:
    """Give nodes that were not there during training a personalised model from the learned mixer.

    A newcomer trains alone for ``warmup`` rounds from the run's initial model; attention between its change and those
    of the old nodes says whom to listen to; its model becomes the initial one plus the weighted sum of all changes
    since the run's start, which it then trains for ``finetune`` rounds on its own data. Nothing is sent to the old
    nodes, whose models and whose mixer stay as they are. (The paper says that meta-L2C serves new nodes but not how;
    this is our reading.)

    Args:
        result: A run of a method whose weights come from encodings of models (meta-L2C), one architecture. Of `Phases`
            the one that played last counts.
        newcomers: The new nodes' data.
        allowed: Edges from an old node to a new one, both by position, [2, E]. Default: all pairs. A newcomer always
            hears itself, and never a node that was isolated. Where parts of the graph that are not connected trained
            mixers of their own, a newcomer may hear nodes of one part only, and uses its mixer.
        warmup: Rounds of local training before mixing.
        finetune: Rounds of local training after it.

    Raises:
        ValueError: If the method learned nothing that applies to new nodes, their data do not fit the models, an edge
            is out of range or double, a newcomer would hear nodes with different mixers, or a number of rounds is
            negative.
        NonFiniteLossError: If the loss of a new node is not finite.
    """
    if min(warmup, finetune) < 0:
        raise ValueError(f"warmup and finetune must not be negative, got {warmup} and {finetune}")
    old = result.data
    method = result.method.last(old.round)
    if not isinstance(method.weigh, ChannelAttention):
        raise ValueError(f"{method.name} learned weights of fixed nodes only; new nodes need a mixer: use meta_l2c")
    if len(old.x.specs) > 1:
        raise ValueError("nodes can join runs of one architecture only")
    start, part = old.x_init.tensors[0][:1], method.part
    newcomers = newcomers.to(old.x.device)
    heard = _allowed_edges(allowed, old.isolated, newcomers.num_nodes)
    mixer = _extended(old.mixer, heard, newcomers, result.tasks)
    check_outputs(newcomers, result.modules)
    autocast = result.env.engine.backends[0].autocast
    engine = Engine(newcomers, result.modules, old.x.specs, plans=result.env.engine.plans, autocast=autocast)
    env = Env(engine, Comm(), result.env.seed)
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
    known, count = old.num_nodes, new.num_nodes
    origin = start[:, old.x.specs[0].columns(part)]
    changes = torch.cat([old.x.part(part), new.x.part(part)]) - origin  # [K + K', P_part]
    receiver = torch.arange(count, device=start.device)
    edges = torch.cat([heard, torch.stack([known + receiver, receiver])], 1)
    with torch.no_grad():
        code = mixer.encode(changes, old.x.specs[0], part)
        weight = softmax(edge_products(code[known:], code, edges), edges[1], num_nodes=count)
        mixed = origin + mix(changes, weight, edges, count)
    new.x = new.x.with_part(part, mixed)
    train(finetune)
    return Joined(new.x, edges, weight, newcomers.names, result.modules)


def _extended(mixer: Mixer | Mixers, heard: Tensor, newcomers: Tasks, old: Tasks) -> Mixer | Mixers:
    """Return the mixer of old and new nodes: of every newcomer, that of the nodes which it hears."""
    if not isinstance(mixer, Mixers):
        return mixer
    if len(mixer.mixers) == 1:  # the others are alone
        return mixer.mixers[0]
    group = torch.full((newcomers.num_nodes,), -1, device=heard.device)
    for node, name in enumerate(newcomers.names):
        senders = heard[0, heard[1] == node]
        known = mixer.group[senders].unique()
        if len(known[known >= 0]) > 1:
            one, two = (old.names[int((mixer.group == g).nonzero()[0])] for g in known[known >= 0][:2])
            raise ValueError(
                f"{name} would hear {one} and {two}, which are not connected and learned different mixers: say by "
                "allowed=... which part of the graph it joins"
            )
        if len(known) and int(known[0]) < 0:
            lone = old.names[int(senders[mixer.group[senders] < 0][0])]
            raise ValueError(
                f"{name} would hear {lone}, which is alone and has learned no mixer: leave it out by allowed=..."
            )
        group[node] = known[0] if len(known) else -1
    return Mixers(mixer.mixers, torch.cat([mixer.group, group]))


def _allowed_edges(allowed: Tensor | None, isolated: Tensor, count: int) -> Tensor:
    """Return the edges from old nodes to new ones, sorted by receiver, without those of isolated nodes, [2, E]."""
    known, device = len(isolated), isolated.device
    if allowed is None:
        old, new = torch.arange(known, device=device), torch.arange(count, device=device)
        allowed = torch.stack([old.repeat(count), new.repeat_interleave(known)])
    if allowed.dim() != 2 or allowed.shape[0] != 2 or allowed.is_floating_point():
        raise ValueError(
            "allowed must hold an old node and a new one per edge, integers of shape [2, E], got "
            f"{allowed.dtype} of shape {tuple(allowed.shape)}"
        )
    allowed = allowed.to(device, torch.int64)
    limits = torch.tensor([[known], [count]], device=device)
    if bool(((allowed < 0) | (allowed >= limits)).any()):
        raise ValueError(f"allowed must name old nodes from 0 to {known - 1} and new ones from 0 to {count - 1}")
    key = allowed[1] * known + allowed[0]
    if len(key.unique()) < len(key):
        raise ValueError("allowed names an edge twice: leave out doubles, for example by allowed.unique(dim=1)")
    allowed = allowed[:, key.argsort()]
    return allowed[:, ~isolated[allowed[0]]]
