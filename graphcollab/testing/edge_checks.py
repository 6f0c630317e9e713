"""Contract checks for edges: no influence crosses a forbidden edge."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from graphcollab.components import NoExchange, NoWeights, Rewiring
from graphcollab.methods.phases import Phases
from graphcollab.testing.claims import AnyMethod, NotApplicable, close, dense, differences, require, rounds_of, rows
from graphcollab.testing.scene import Scene
from graphcollab.testing.trajectory import Trajectory, scene_for, trajectory, with_other_data

# Complete components of three and two nodes, and one isolated node.
PARTS = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 4], [1, 2, 0, 2, 0, 1, 4, 3]])
ONE_WAY = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
BOTH_WAYS = torch.cat([ONE_WAY, ONE_WAY.flip(0)], 1)


def check_alone_equals_local(method: AnyMethod) -> None:
    """Check that a node without neighbors performs its local update only and sends nothing."""
    scene, rounds = scene_for(method.embeds).replace(edge_index=PARTS), rounds_of(method)
    play = trajectory(method, scene)
    data, alone = play.after(rounds), scene.models(local_only(method), rounds)
    close(rows(play.judged(rounds))[5], rows(alone)[5], "the model of a node without neighbors")
    for sent in ("bytes_sent", "messages_sent"):
        require(int(data[sent][5]) == 0, f"{sent} of a node without neighbors is {float(data[sent][5]):g}")


def check_forbidden_edges(method: AnyMethod) -> None:
    """Check that nodes without a path between them do not influence each other: results are bitwise identical."""
    scene, rounds = scene_for(method.embeds).replace(edge_index=PARTS), rounds_of(method)
    before = trajectory(method, scene)
    for part in ([0, 1, 2], [3, 4]):
        after = Trajectory(method, with_other_data(scene, part))
        others = [k for k in range(6) if k not in part]
        _same(before, after, rounds, others, "nodes that are not connected to those whose data changed")
        moved = not torch.equal(*(rows(play.after(rounds).x)[part] for play in (before, after)))
        require(moved, "other data made no difference to the nodes that own them")


def check_direction(method: AnyMethod) -> None:
    """Check that influence follows the direction of edges."""
    before = _path(method)
    if before.scene.edge_index is not ONE_WAY:
        raise NotApplicable(f"{method.name} refuses edges that lead one way")
    after = _path(method, 2)
    _same(before, after, rounds_of(method), [0, 1], "nodes to which no path leads", sent=False)


def check_reach(method: AnyMethod) -> None:
    """Check that influence crosses at most one edge per round; paths are bidirectional if the method requires it."""
    if method.beyond_edges:
        raise NotApplicable(f"{method.name} has global state, which reaches all connected nodes at once")
    rounds = rounds_of(method)
    changed = 4 - rounds  # leaves a node beyond those that it reaches
    one, two = (rows(play.judged(rounds))[changed + rounds + 1 :] for play in (_path(method), _path(method, changed)))
    close(one, two, f"models of nodes {rounds + 1} edges away, after {rounds} rounds,")


def _path(method: AnyMethod, changed: int | None = None) -> Trajectory:
    """Return a trajectory on a path, one-way if the method accepts it; node ``changed`` has other, fixed data."""
    try:
        play = accepted(method, ONE_WAY, BOTH_WAYS)
    except ValueError as error:
        raise NotApplicable(f"{method.name} refuses paths: {error}") from error
    if changed is None:
        return play
    return trajectory(method, _changed(method.embeds, changed, play.scene.edge_index is ONE_WAY))


@functools.cache
def _changed(embeds: bool, node: int, one_way: bool) -> Scene:
    return with_other_data(scene_for(embeds), [node]).replace(edge_index=ONE_WAY if one_way else BOTH_WAYS)


def local_only(method: AnyMethod) -> AnyMethod:
    """Return the method with collaboration removed."""
    if isinstance(method, Phases):
        return Phases(local_only(method.method), method.until, local_only(method.next))
    rewire = Rewiring() if method.finds_peers else method.rewire
    return method.replace(weigh=NoWeights(), exchange=NoExchange(), rewire=rewire)


def accepted(method: AnyMethod, graph: Tensor, other: Tensor) -> Trajectory:
    """Return a trajectory on ``graph``, or on ``other`` if the method refuses it."""
    scene = scene_for(method.embeds)
    try:
        return trajectory(method, scene.replace(edge_index=graph))
    except ValueError:
        return trajectory(method, scene.replace(edge_index=other))


def _same(before: Trajectory, after: Trajectory, rounds: int, nodes: list[int], whose: str, sent: bool = True) -> None:
    """Require bitwise identical results of some nodes in two trajectories."""
    found = []
    for play in (before, after):
        data = play.after(rounds)
        values = {"models": rows(data.x), "models that are served": rows(play.judged(rounds))}
        values["edge weights"] = dense(data)
        if sent:
            values |= {"bytes sent": data.bytes_sent, "messages sent": data.messages_sent}
        found.append(values)
    for name, value in found[0].items():
        one, two = value[nodes], found[1][name][nodes]
        apart = float((one - two).abs().max()) if one.numel() else 0.0
        require(not differences(one, two), f"{name} of {whose} differ by up to {apart:.3g}")
