"""The checks of the contract that are about edges: a forbidden one carries nobody's influence."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.exchange import NoExchange
from graphcollab.phases import Phases
from graphcollab.piece import Rewiring
from graphcollab.testing.claims import AnyMethod, NotApplicable, close, dense, differences, require, rounds_of, rows
from graphcollab.testing.scene import Scene
from graphcollab.typing import Env
from graphcollab.weigh import NoWeights

__all__ = [
    "PARTS",
    "accepted",
    "check_alone_equals_local",
    "check_direction",
    "check_forbidden_edges",
    "check_reach",
    "local_only",
]

Play = tuple[Data, Env]

# Three and two nodes that all hear each other, and one that hears nobody.
PARTS = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 4], [1, 2, 0, 2, 0, 1, 4, 3]])
ONE_WAY = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])


def check_alone_equals_local(method: AnyMethod) -> None:
    """A node without neighbours does what its local update alone does, and sends nothing."""
    scene = Scene.small(embeds=method.embeds).replace(edge_index=PARTS)
    data, env = scene.play(method, rounds_of(method))
    alone = scene.models(local_only(method), rounds_of(method))
    close(rows(method.models(data, env))[5], rows(alone)[5], "the model of a node without neighbours")
    for sent in ("bytes_sent", "messages_sent"):
        require(int(data[sent][5]) == 0, f"{sent} of a node without neighbours is {float(data[sent][5]):g}")


def check_forbidden_edges(method: AnyMethod) -> None:
    """Nodes without a path between them do not influence each other: not a bit of what they do changes."""
    scene = Scene.small(embeds=method.embeds).replace(edge_index=PARTS)
    before = scene.play(method, rounds_of(method))
    for part in ([0, 1, 2], [3, 4]):
        after = _with_other_data(scene, part).play(method, rounds_of(method))
        others = [k for k in range(6) if k not in part]
        _same(method, before, after, others, "nodes that are not connected to those whose data changed")
        moved = not torch.equal(rows(before[0].x)[part], rows(after[0].x)[part])
        require(moved, "other data made no difference to the nodes that own them")


def check_direction(method: AnyMethod) -> None:
    """Influence goes along edges, never against one.

    Raises:
        NotApplicable: If the method refuses paths of one-way edges.
    """
    scene = _path(method)
    if scene.edge_index is not ONE_WAY:
        raise NotApplicable(f"{method.name} refuses edges that lead one way")
    before, after = (one.play(method, rounds_of(method)) for one in (scene, _with_other_data(scene, [2])))
    _same(method, before, after, [0, 1], "nodes to which no path leads", sent=False)


def check_reach(method: AnyMethod) -> None:
    """In a round influence goes over one edge at most. Paths have edges in both directions where a method needs them.

    Raises:
        NotApplicable: If the method refuses paths, or has global state, which all nodes of a path share.
    """
    if method.beyond_edges:
        raise NotApplicable(f"{method.name} has global state, which reaches all connected nodes at once")
    scene, rounds = _path(method), rounds_of(method)
    one, two = (rows(other.models(method, rounds))[rounds + 1 :] for other in (scene, _with_other_data(scene, [0])))
    close(one, two, f"models of nodes {rounds + 1} edges away, after {rounds} rounds,")


def _path(method: AnyMethod) -> Scene:
    """Return a scene on a path: of one-way edges if the method takes them, else of edges in both directions."""
    try:
        return accepted(method, ONE_WAY, torch.cat([ONE_WAY, ONE_WAY.flip(0)], 1))
    except ValueError as error:
        raise NotApplicable(f"{method.name} refuses paths: {error}") from error


def local_only(method: AnyMethod) -> AnyMethod:
    """Return a method without its collaboration."""
    if isinstance(method, Phases):
        return Phases(local_only(method.method), method.until, local_only(method.next))
    rewire = Rewiring() if method.finds_peers else method.rewire
    return method.replace(weigh=NoWeights(), exchange=NoExchange(), rewire=rewire)


def accepted(method: AnyMethod, graph: Tensor, other: Tensor) -> Scene:
    """Return a scene on a graph, or on another one if the method refuses that."""
    scene = Scene.small(embeds=method.embeds).replace(edge_index=graph)
    try:
        scene.begin(method)
    except ValueError:
        scene = scene.replace(edge_index=other)
        scene.begin(method)
    return scene


def _with_other_data(scene: Scene, nodes: list[int]) -> Scene:
    """Return the scene with other samples and labels of some nodes."""
    pool = scene.tasks.pools["train"]
    owned = torch.cat([split.of(k) for split in scene.tasks.splits.values() for k in nodes])
    inputs = pool.inputs.index_copy(0, owned, 1.5 * pool.inputs[owned])
    targets = pool.targets.index_copy(0, owned, (pool.targets[owned] + 1) % 3)
    return scene.replace(tasks=replace(scene.tasks, pools={"train": replace(pool, inputs=inputs, targets=targets)}))


def _same(method: AnyMethod, before: Play, after: Play, nodes: list[int], whose: str, sent: bool = True) -> None:
    """Require that some nodes have done the same in two plays, bit for bit."""
    found = []
    for data, env in (before, after):
        values = {"models": rows(data.x), "models that are served": rows(method.models(data, env))}
        values["edge weights"] = dense(data)
        if sent:
            values |= {"bytes sent": data.bytes_sent, "messages sent": data.messages_sent}
        found.append(values)
    for name, value in found[0].items():
        one, two = value[nodes], found[1][name][nodes]
        apart = float((one - two).abs().max()) if one.numel() else 0.0
        require(not differences(one, two), f"{name} of {whose} differ by up to {apart:.3g}")
