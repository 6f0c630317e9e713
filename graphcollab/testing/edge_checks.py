"""The checks of the contract that are about edges: a forbidden one carries nobody's influence."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.exchange import NoExchange
from graphcollab.method import Method
from graphcollab.phases import Phases
from graphcollab.rewire import Keep
from graphcollab.tasks import Pool
from graphcollab.testing.claims import AnyMethod, NotApplicable, close, dense, require, rows
from graphcollab.testing.compare_values import differences
from graphcollab.testing.scene import Scene
from graphcollab.typing import Env
from graphcollab.weigh import NoWeights

__all__ = [
    "PARTS",
    "accepted",
    "check_alone_equals_local",
    "check_direction",
    "check_forbidden_edges",
    "local_only",
    "ring",
]

# Three and two nodes that all hear each other, and one that hears nobody.
PARTS = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 4], [1, 2, 0, 2, 0, 1, 4, 3]])


def check_alone_equals_local(method: AnyMethod) -> None:
    """A node without neighbours does what its local update alone does, and sends nothing."""
    scene = Scene.small(embeds=method.embeds).replace(edge_index=PARTS)
    data, env = scene.play(method)
    alone = scene.models(local_only(method))
    close(rows(method.models(data, env))[5], rows(alone)[5], "the model of a node without neighbours")
    for sent in ("bytes_sent", "messages_sent"):
        require(int(data[sent][5]) == 0, f"{sent} of a node without neighbours is {float(data[sent][5]):g}")


def check_forbidden_edges(method: AnyMethod) -> None:
    """Nodes without a path between them do not influence each other: not a bit of what they do changes."""
    scene = Scene.small(embeds=method.embeds).replace(edge_index=PARTS)
    before = scene.play(method)
    for part in ([0, 1, 2], [3, 4]):
        after = _with_other_data(scene, part).play(method)
        others = [k for k in range(6) if k not in part]
        _same(method, before, after, others, "nodes that are not connected to those whose data changed")
        moved = not torch.equal(rows(before[0].x)[part], rows(after[0].x)[part])
        require(moved, "other data made no difference to the nodes that own them")


def check_direction(method: AnyMethod) -> None:
    """Influence goes along edges, never against one, and in a round over one edge at most.

    The second holds unless the method has global state. A method that refuses paths of one-way edges is put on a path
    of edges in both directions.

    Raises:
        NotApplicable: If the method refuses paths, or has global state and needs edges in both directions.
    """
    scene = Scene.small(embeds=method.embeds)
    one_way = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    try:
        edges, one_way_too = accepted(method, scene, one_way, torch.cat([one_way, one_way.flip(0)], 1))
    except ValueError as error:
        raise NotApplicable(f"{method.name} refuses paths: {error}") from error
    if method.beyond_edges and not one_way_too:
        raise NotApplicable(f"{method.name} has global state, and all nodes of a path in both directions share it")
    scene, changed = scene.replace(edge_index=edges), 2 if one_way_too else 0
    before, after = scene.play(method), _with_other_data(scene, [changed]).play(method)
    upstream = list(range(changed))
    _same(method, before, after, upstream, "nodes to which no path leads", sent=False)
    if not method.beyond_edges:
        late = slice(changed + 3, 6)
        one, two = (rows(method.models(*played))[late] for played in (before, after))
        close(one, two, "models of nodes three edges away, after two rounds,")


def local_only(method: AnyMethod) -> AnyMethod:
    """Return a method without its collaboration."""
    if isinstance(method, Phases):
        return Phases(_plain(local_only(method.method)), method.until, local_only(method.next))
    rewire = Keep() if method.finds_peers else method.rewire
    return method.replace(weigh=NoWeights(), exchange=NoExchange(), rewire=rewire)


def _plain(method: AnyMethod) -> Method:
    if not isinstance(method, Method):
        raise TypeError(f"the first phase must be a Method, got {type(method).__name__}")
    return method


def accepted(method: AnyMethod, scene: Scene, *graphs: Tensor) -> tuple[Tensor, bool]:
    """Return the first graph that a method does not refuse, and whether it is the first of all."""
    for edges in graphs[:-1]:
        try:
            scene.replace(edge_index=edges).begin(method)
        except ValueError:
            continue
        return edges, edges is graphs[0]
    scene.replace(edge_index=graphs[-1]).begin(method)
    return graphs[-1], len(graphs) == 1


def _with_other_data(scene: Scene, nodes: list[int]) -> Scene:
    """Return the scene with other samples and labels of some nodes."""
    pool = scene.tasks.pools["train"]
    owned = torch.cat([split.of(k) for split in scene.tasks.splits.values() for k in nodes])
    inputs = pool.inputs.index_copy(0, owned, 1.5 * pool.inputs[owned])
    targets = pool.targets.index_copy(0, owned, (pool.targets[owned] + 1) % 3)
    return scene.replace(tasks=replace(scene.tasks, pools={"train": Pool(inputs, targets)}))


def _same(
    method: AnyMethod,
    before: tuple[Data, Env],
    after: tuple[Data, Env],
    nodes: list[int],
    whose: str,
    sent: bool = True,
) -> None:
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


def ring(count: int) -> Tensor:
    """Return both directions of a ring, [2, 2 K]."""
    node = torch.arange(count)
    forth = torch.stack([node, (node + 1) % count])
    return torch.cat([forth, forth.flip(0)], 1)
