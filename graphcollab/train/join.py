"""Nodes that arrive after training: the learned mixer gives them a personalised model at once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch_geometric.utils import softmax

from graphcollab.comm import Comm
from graphcollab.local import Engine
from graphcollab.method import Method, settle
from graphcollab.nn import ChannelAttention, Mix
from graphcollab.ops import edge_products
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.train.check import check_outputs
from graphcollab.train.result import Result
from graphcollab.train.start import build_graph
from graphcollab.typing import Env

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
        return spec.load_into(copy.deepcopy(self.modules[0]), row).eval()


def join(result: Result, newcomers: Tasks, *, warmup: int = 1, finetune: int = 4) -> Joined:
    """Give nodes that were not there during training a personalised model from the learned mixer.

    A newcomer trains alone for ``warmup`` rounds from the run's initial model; attention between its change and those
    of the old nodes says whom to listen to; its model becomes the initial one plus the weighted sum of all changes
    since the run's start, which it then trains for ``finetune`` rounds on its own data. Nothing is sent to the old
    nodes, whose models and whose mixer stay as they are. (The paper says that meta-L2C serves new nodes but not how;
    this is our reading.)

    Args:
        result: A run of a method whose weights come from encodings of models (meta-L2C), one architecture.
        newcomers: The new nodes' data.
        warmup: Rounds of local training before mixing.
        finetune: Rounds of local training after it.

    Raises:
        ValueError: If the method learned nothing that applies to new nodes, their data do not fit the models, or a
            number of rounds is negative.
        NonFiniteLossError: If the loss of a new node is not finite.
    """
    if min(warmup, finetune) < 0:
        raise ValueError(f"warmup and finetune must not be negative, got {warmup} and {finetune}")
    method, old = result.method, result.data
    if not isinstance(method, Method) or not isinstance(method.weigh, ChannelAttention):
        raise ValueError(
            f"{result.method.name} learned weights of fixed nodes only; new nodes need a mixer: use meta_l2c"
        )
    if len(old.x.specs) > 1:
        raise ValueError("nodes can join runs of one architecture only")
    start, part = old.x_init.tensors[0][:1], method.part
    newcomers = newcomers.to(old.x.device)
    check_outputs(newcomers, result.modules)
    engine = Engine(newcomers, result.modules, old.x.specs, plans=result.env.engine.plans)
    env = Env(engine, Comm(), result.env.seed)
    new = build_graph(newcomers, result.modules, torch.empty(2, 0, dtype=torch.int64))
    new.x = new.x_init = Stacks.single(old.x.specs[0], start.expand(new.num_nodes, -1))
    new = method.local.init(new, env)

    def train(rounds: int) -> None:
        nonlocal new
        for _ in range(rounds):
            new.x_start = new.x
            new = settle(method.local(new, env), env)
            new.round = new.round + 1

    train(warmup)
    known, count = old.num_nodes, new.num_nodes
    origin = start[:, old.x.specs[0].columns(part)]
    changes = torch.cat([old.x.part(part), new.x.part(part)]) - origin  # [K + K', P_part]
    receiver = torch.arange(count, device=start.device)
    heard = (~old.isolated).nonzero().flatten()
    sender = torch.cat([heard.repeat(count), known + receiver])
    edges = torch.stack([sender, torch.cat([receiver.repeat_interleave(len(heard)), receiver])])
    with torch.no_grad():
        code = old.mixer.encode(changes, old.x.specs[0], part)
        weight = softmax(edge_products(code[known:], code, edges), edges[1], num_nodes=count)
        mixed = origin + Mix()((changes, None), edges, weight, (known + count, count))
    new.x = new.x.with_part(part, mixed)
    train(finetune)
    return Joined(new.x, edges, weight, newcomers.names, result.modules)
