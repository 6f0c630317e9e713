"""The contract of methods, as checks that any method can be put to, also those of extensions.

Every check takes a method, plays it on a small scene, and raises ``AssertionError`` with a message if it does not hold.
None asks which method it is: where a rule does not apply to all, the method declares it (``beyond_edges``, ``part``),
and also what models it needs (``embeds``). A check that says nothing about a method raises `NotApplicable`.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch_geometric.data import Data

from graphcollab.control import Attendance
from graphcollab.control.state import LOOP
from graphcollab.piece import Piece
from graphcollab.testing.claims import AnyMethod, NotApplicable, close, dense, differences, require, rounds_of, rows
from graphcollab.testing.edge_checks import (
    PARTS,
    accepted,
    check_alone_equals_local,
    check_direction,
    check_forbidden_edges,
    check_reach,
    local_only,
)
from graphcollab.testing.scene import Scene
from graphcollab.train import History, load_checkpoint, save_checkpoint
from graphcollab.typing import Env

__all__ = [
    "CONTRACT",
    "check_absent_nodes",
    "check_backends_agree",
    "check_chunks_agree",
    "check_contract",
    "check_declared",
    "check_input_untouched",
    "check_keeps_dtype",
    "check_membership",
    "check_relabelling",
    "check_resume",
    "check_runs",
    "check_sends",
    "check_stragglers",
    "check_two_architectures",
]

WITHOUT_SINGLES = (8, 13, 9, 13, 10, 11)  # batches of 4 or 10 never leave a single sample, for batch normalisation


def check_runs(method: AnyMethod) -> None:
    """A method trains: models change, stay finite, and rounds are counted."""
    scene = Scene.small(embeds=method.embeds)
    start, _ = scene.begin(method)
    rounds = rounds_of(method)
    data, env = scene.play(method, rounds)
    require(data.round == rounds, f"after {rounds} rounds data.round is {data.round}")
    for name, tensor in (("x", data.x), ("models", method.models(data, env))):
        finite = all(bool(torch.isfinite(values).all()) for values in tensor.tensors)
        require(finite, f"{name} is not finite after {rounds} rounds")
    moved = any(not torch.equal(a, b) for a, b in zip(start.x.tensors, data.x.tensors, strict=True))
    require(moved, f"no model has changed after {rounds} rounds")
    require(data.edge_weight.shape == (data.edge_index.shape[1],), "edge_weight is not one number per edge")


def check_keeps_dtype(method: AnyMethod) -> None:
    """Models and edge weights keep the number type the models began with."""
    for dtype in (torch.float32, torch.float64):
        data, env = Scene.small(dtype, embeds=method.embeds).play(method, rounds_of(method))
        kinds = {tensor.dtype for tensor in (*data.x.tensors, *method.models(data, env).tensors, data.edge_weight)}
        require(kinds == {dtype}, f"models of {dtype} have become {sorted(map(str, kinds))}")


def check_input_untouched(method: AnyMethod) -> None:
    """A round returns new ``Data`` and changes nothing in the old one, in the tasks or in the modules."""
    scene = Scene.small(embeds=method.embeds)
    data, env = scene.begin(method)
    data = method.play(data, env)
    parameters = [list(module.parameters()) for module in scene.modules]
    before = copy.deepcopy((data, scene.tasks, parameters))
    method.models(method.play(data, env), env)
    changed = differences(before, (data, scene.tasks, parameters))
    require(not changed, f"a round changed its input in place: {changed}")


def check_relabelling(method: AnyMethod) -> None:
    """Putting the nodes in another order puts the result in that order and changes nothing else."""
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    ring = torch.stack([torch.arange(6), torch.arange(6).roll(-1)])
    scene = accepted(method, torch.cat([ring, ring.flip(0)], 1), PARTS)
    moved = scene.replace(tasks=scene.tasks.select(order), edge_index=order.argsort()[scene.edge_index])
    (one, env), (two, other) = (scene.play(method, rounds_of(method)) for scene in (scene, moved))
    close(rows(method.models(one, env))[order], rows(method.models(two, other)), "models of relabelled nodes")
    close(dense(one)[order][:, order], dense(two), "edge weights of relabelled nodes")
    close(one.bytes_sent[order], two.bytes_sent, "bytes sent by relabelled nodes")


def check_backends_agree(method: AnyMethod) -> None:
    """The stacked and the loop backend give the same result."""
    scene, rounds = Scene.small(embeds=method.embeds), rounds_of(method)
    vmap, loop = (rows(scene.replace(backend=backend).models(method, rounds)) for backend in ("vmap", "loop"))
    close(vmap, loop, "models of the two backends")


def check_chunks_agree(method: AnyMethod) -> None:
    """How many rows are computed at a time makes no difference."""
    scene = Scene.small(embeds=method.embeds)
    few, many = (rows(scene.replace(backend="vmap", chunk=chunk).models(method, rounds_of(method))) for chunk in (2, 6))
    close(few, many, "models computed two and six rows at a time")


def check_resume(method: AnyMethod) -> None:
    """Going on from a checkpoint equals going on without one, bit for bit: all state is in the ``Data``."""
    _resume(method, Scene.small(embeds=method.embeds))


def check_two_architectures(method: AnyMethod) -> None:
    """Nodes of two architectures that share a head can collaborate on it; the rest stays with the node.

    Give a method that mixes the part ``head``, or nothing.
    """
    scene = Scene.small(sizes=WITHOUT_SINGLES, shared_head=True, embeds=method.embeds)
    data, env = scene.play(method, rounds_of(method))
    kept = method.models(data, env)
    require(len(kept.specs) == 2, f"two architectures have become {len(kept.specs)}")
    require(all(bool(torch.isfinite(t).all()) for t in kept.tensors), "models are not finite")
    one, _ = scene.play(method, rounds=1)
    own, _ = scene.play(local_only(method), rounds=1)
    for spec, mixed, alone in zip(one.x.specs, one.x.tensors, own.x.tensors, strict=True):
        columns = spec.columns("backbone")
        close(mixed[:, columns], alone[:, columns], "the part of the models that is not mixed")


def check_stragglers(method: AnyMethod) -> None:
    """Nodes that are away or late do no harm: nobody waits for them; those of probability 0 change nothing at all."""
    scene = Scene.small(embeds=method.embeds)
    rounds = rounds_of(method)
    (one, _), (two, _) = scene.play(method, rounds), scene.replace(attend=Attendance()).play(method, rounds)
    changed = differences(one, two)
    require(not changed, f"stragglers of probability 0 change {changed}")
    scene = scene.replace(attend=Attendance(drop=0.3, late=0.3))
    data, env = scene.begin(method)
    for _ in range(4):
        data = _play_with_absent(method, data, env)
    _resume(method, scene)


def check_membership(method: AnyMethod) -> None:
    """Nodes join and leave: one that is not there sends nothing; one that has joined trains."""
    attend = Attendance(joins={1: 2}, leaves={4: 2})
    data, env = Scene.small(embeds=method.embeds).replace(attend=attend).begin(method)
    start = rows(data.x)
    sent = []
    for _ in range(4):
        data = _play_with_absent(method, data, env)
        sent.append(data.bytes_sent)
    require(bool((sent[1][1] == 0) & (sent[3][4] == sent[1][4])), "a node that is not there has sent something")
    require(not torch.equal(rows(data.x)[1], start[1]), "a node that has joined has not trained")


def check_absent_nodes(method: AnyMethod) -> None:
    """A node that is away, has not joined yet or has left keeps its model.

    Raises:
        NotApplicable: If the method has global state: what a server sends may reach nodes at rest.
    """
    if method.beyond_edges:
        raise NotApplicable(f"{method.name} has global state, which may reach nodes that are away")
    for attend in (Attendance(drop=0.3, late=0.3), Attendance(joins={1: 2}, leaves={4: 2})):
        data, env = Scene.small(embeds=method.embeds).replace(attend=attend).begin(method)
        for _ in range(4):
            data = _play_with_absent(method, data, env, keeps=True)


def _play_with_absent(method: AnyMethod, data: Data, env: Env, keeps: bool = False) -> Data:
    """Play a round and check what holds where some nodes are absent; whether those must keep their models."""
    there, _ = env.attend.at_work(data, env) if env.attend else (data.present, data.present)
    before = copy.deepcopy(data)
    after = method.play(data, env)
    changed = differences(before, data)
    require(not changed, f"a round with stragglers changed its input in place: {changed}")
    both = ("x", data.x, after.x), ("models", method.models(data, env), method.models(after, env))
    for name, old, new in both:
        require(bool(torch.isfinite(rows(new)).all()), f"{name} is not finite where nodes are absent")
        if keeps:
            same = torch.equal(rows(old)[~there], rows(new)[~there])
            require(same, f"{name} of a node that was absent has changed")
    require(bool(torch.isfinite(after.edge_weight).all()), "edge_weight is not finite where nodes are absent")
    return after


def check_declared(method: AnyMethod) -> None:
    """What is in the ``Data`` is declared by the loop or by a piece (which says when the loop drops it)."""
    declared = [*LOOP, *method.fields]
    data, env = Scene.small(embeds=method.embeds).begin(method)
    for _ in range(rounds_of(method)):
        data = method.play(data, env)
        unknown = [name for name in sorted(data.keys()) if not any(field.covers(name) for field in declared)]
        require(not unknown, f"{unknown} are in the data, and no piece declares them in its `keeps`")


def check_sends(method: AnyMethod) -> None:
    """A piece that causes bytes says in `travels` what it is that leaves a node."""
    data, env = Scene.small(embeds=method.embeds).begin(method)
    charge, silent = env.plane.charge, set()

    def noted(*what: Any, **more: Any) -> Data:
        frame = sys._getframe(1)  # bytes go on the account of the innermost piece at work
        while frame.f_back is not None and not isinstance(frame.f_locals.get("self"), Piece):
            frame = frame.f_back
        piece = frame.f_locals.get("self")
        if isinstance(piece, Piece) and not piece.travels:
            silent.add(type(piece).__name__)
        return charge(*what, **more)

    env.plane.charge = noted  # type: ignore[method-assign]
    for _ in range(rounds_of(method)):
        data = method.play(data, env)
    require(not silent, f"{sorted(silent)} cause bytes, and do not say in `travels` what is sent")


CONTRACT: tuple[Callable[[AnyMethod], None], ...] = (
    check_runs,
    check_keeps_dtype,
    check_input_untouched,
    check_relabelling,
    check_alone_equals_local,
    check_forbidden_edges,
    check_direction,
    check_reach,
    check_backends_agree,
    check_chunks_agree,
    check_resume,
    check_stragglers,
    check_membership,
    check_absent_nodes,
    check_declared,
    check_sends,
)
"""The checks that hold for every method; `check_two_architectures` needs one that mixes a shared part."""


def check_contract(method: AnyMethod) -> dict[str, str]:
    """Put a method to every check in `CONTRACT`.

    Returns:
        The checks that say nothing about the method, and why.

    Raises:
        AssertionError: If a check does not hold; the message names it.

    Example:
        >>> from graphcollab.methods import dpsgd
        >>> [*check_contract(dpsgd())]
        ['check_direction']
    """
    skipped = {}
    for check in CONTRACT:
        try:
            check(method)
        except NotApplicable as reason:
            skipped[check.__name__] = str(reason)
        except AssertionError as error:
            raise AssertionError(f"{method.name}, {check.__name__}: {error}") from error
    return skipped


def _resume(method: AnyMethod, scene: Scene) -> None:
    data, env = scene.play(method, rounds=1)
    history = History(scene.tasks.names, "accuracy", True)
    with tempfile.TemporaryDirectory() as folder:
        restored, _, _ = load_checkpoint(save_checkpoint(folder, data, history, {}))
    fresh = scene.begin(method)[1]
    straight, resumed = data, restored
    for _ in range(rounds_of(method)):
        straight, resumed = method.play(straight, env), method.play(resumed, fresh)
    changed = differences(straight, resumed)
    require(not changed, f"a resumed run differs from an uninterrupted one in {changed}")
