"""The check that a method sees models and data of other nodes through operators only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.stack import Stacks
from graphcollab.testing.claims import AnyMethod, close, require
from graphcollab.testing.lockstep import Lockstep, in_lockstep
from graphcollab.testing.scene import Scene

__all__ = ["OWNERS", "check_planes"]

OWNERS = (torch.tensor([0, 3, 4]), torch.tensor([1, 2, 5]))


def check_planes(
    method: AnyMethod, scene: Scene | None = None, owners: Sequence[Tensor] = OWNERS, rounds: int = 2
) -> None:
    """Processes that have nothing of each other's nodes find the same models, weights, bytes and messages as one.

    Every process holds the models of its own nodes only; samples of others are poisoned.

    Args:
        method: The method.
        scene: Where to play. Default: the small scene.
        owners: The nodes of every process.
        rounds: Rounds to play.

    Raises:
        AssertionError: If something differs by more than rounding.
    """
    scene = scene or Scene.small(embeds=method.embeds)
    alone, env = scene.play(method, rounds)

    def play(transport: Lockstep) -> tuple[Data, Stacks]:
        data, own_env = scene.begin(method, transport)
        for _ in range(rounds):
            data = method.play(data, own_env)
        return data, method.models(data, own_env)

    found, meeting = in_lockstep(owners, play)
    for nodes, (data, judged) in zip(meeting.owners, found, strict=True):
        _same_models(alone.x, data.x, nodes, "models")
        _same_models(method.models(alone, env), judged, nodes, "models that nodes are judged by")
        require(torch.equal(alone.edge_index, data.edge_index), "processes have other edges than one process has")
        here = torch.isin(data.edge_index[1], nodes)
        close(alone.edge_weight[here], data.edge_weight[here], "edge weights at receivers")
        for name in ("bytes_sent", "messages_sent", "train_loss", "bad_step", "trains", "serves", "isolated"):
            one, many = (d[name].double().nan_to_num(-1.0) for d in (alone, data))
            close(one, many, name)


def _same_models(alone: Stacks, own: Stacks, nodes: Tensor, what: str) -> None:
    require(own.nodes.tolist() == nodes.tolist(), f"a process that owns {nodes.tolist()} has {what} of {own.nodes}")
    whole = alone.held(nodes)
    for one, many in zip(whole.tensors, own.tensors, strict=True):
        if one.numel():
            close(one, many, what)
