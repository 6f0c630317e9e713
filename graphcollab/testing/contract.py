"""The method contract: each check plays a method on a small scene and raises ``AssertionError`` on failure.

No check depends on the identity of the method: exceptions to a rule are declared by the method itself
(``beyond_edges``, ``part``, ``embeds``). A check that does not apply to a method raises `NotApplicable`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.components import Participation
from graphcollab.components.state import LOOP
from graphcollab.persistence import History
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.persistence.saver import Saver
from graphcollab.testing.claims import (
    AnyMethod,
    NotApplicable,
    changes,
    close,
    dense,
    differences,
    require,
    rounds_of,
    rows,
    snapshot,
)
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
from graphcollab.testing.trajectory import Trajectory, scene_for, trajectory

WITHOUT_SINGLES = (8, 13, 9, 13, 10, 11)  # batches of 4 or 10 never leave a single sample, for batch normalization
RING = torch.tensor([[0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5]])
STRAGGLERS = Participation(drop=0.3, late=0.3)
MEMBERS = Participation(joins={1: 2}, leaves={4: 2})


def check_runs(method: AnyMethod) -> None:
    """Check that a method trains: models change and stay finite, and rounds are counted."""
    play, rounds = trajectory(method, scene_for(method.embeds)), rounds_of(method)
    start, data = play.after(0), play.after(rounds)
    require(data.round == rounds, f"after {rounds} rounds data.round is {data.round}")
    for name, tensor in (("x", data.x), ("models", play.judged(rounds))):
        finite = all(bool(torch.isfinite(values).all()) for values in tensor.tensors)
        require(finite, f"{name} is not finite after {rounds} rounds")
    moved = any(not torch.equal(a, b) for a, b in zip(start.x.tensors, data.x.tensors, strict=True))
    require(moved, f"no model has changed after {rounds} rounds")
    require(data.edge_weight.shape == (data.edge_index.shape[1],), "edge_weight is not one number per edge")


def check_keeps_dtype(method: AnyMethod) -> None:
    """Check that models and edge weights keep the initial dtype of the models."""
    rounds = rounds_of(method)
    for dtype in (torch.float32, torch.float64):
        play = trajectory(method, scene_for(method.embeds, dtype))
        data = play.after(rounds)
        kinds = {tensor.dtype for tensor in (*data.x.tensors, *play.judged(rounds).tensors, data.edge_weight)}
        require(kinds == {dtype}, f"models of {dtype} have become {sorted(map(str, kinds))}")


def check_input_untouched(method: AnyMethod) -> None:
    """Check that a round returns new ``Data`` and modifies neither its input, nor the tasks, nor the modules."""
    play = trajectory(method, scene_for(method.embeds))
    scene, data = play.scene, play.after(1)
    value = data, scene.tasks, [list(module.parameters()) for module in scene.modules]
    before = snapshot(value)
    method.models(method.play(data, play.env), play.env)
    changed = changes(before, value)
    require(not changed, f"a round changed its input in place: {changed}")


def check_relabeling(method: AnyMethod) -> None:
    """Check that permuting the nodes permutes the result and changes nothing else."""
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    play, rounds = accepted(method, RING, PARTS), rounds_of(method)
    edge_index = order.argsort()[cast(Tensor, play.scene.edge_index)]
    moved = Trajectory(method, play.scene.replace(tasks=play.scene.tasks.select(order), edge_index=edge_index))
    one, two = play.after(rounds), moved.after(rounds)
    close(rows(play.judged(rounds))[order], rows(moved.judged(rounds)), "models of relabeled nodes")
    close(dense(one)[order][:, order], dense(two), "edge weights of relabeled nodes")
    close(one.bytes_sent[order], two.bytes_sent, "bytes sent by relabeled nodes")


def check_backends_agree(method: AnyMethod) -> None:
    """Check that the stacked and the loop backend give the same result."""
    vmap, rounds = _stacked(method), rounds_of(method)
    loop = vmap.scene.replace(backend="loop", chunk=None).models(method, rounds)
    close(rows(vmap.judged(rounds)), rows(loop), "models of two backends")


def check_chunks_agree(method: AnyMethod) -> None:
    """Check that results do not depend on the number of rows computed at a time."""
    many, rounds = _stacked(method), rounds_of(method)
    few = many.scene.replace(backend="vmap", chunk=2).models(method, rounds)
    close(rows(few), rows(many.judged(rounds)), "models computed two and more rows at a time")


def _stacked(method: AnyMethod) -> Trajectory:
    """Return a trajectory computed in stacks of at least six models: the default one if it qualifies."""
    play = trajectory(method, scene_for(method.embeds))
    if all(plan.backend == "vmap" and plan.chunk >= 6 for plan in play.env.engine.plans):
        return play
    return trajectory(method, play.scene.replace(backend="vmap", chunk=6))


def check_resume(method: AnyMethod) -> None:
    """Check that a run resumed from a checkpoint is bitwise identical: all state is in the ``Data``."""
    _resume(method, scene_for(method.embeds))


def check_two_architectures(method: AnyMethod) -> None:
    """Check that nodes of two architectures collaborate on a shared head and keep all other parameters to themselves.

    The method must mix the part ``head``, or nothing.
    """
    scene = Scene.small(sizes=WITHOUT_SINGLES, shared_head=True, embeds=method.embeds)
    play = trajectory(method, scene)
    kept = play.judged(rounds_of(method))
    require(len(kept.specs) == 2, f"two architectures have become {len(kept.specs)}")
    require(all(bool(torch.isfinite(t).all()) for t in kept.tensors), "models are not finite")
    one, (own, _) = play.after(1), scene.play(local_only(method), rounds=1)
    for spec, mixed, alone in zip(one.x.specs, one.x.tensors, own.x.tensors, strict=True):
        columns = spec.columns("backbone")
        close(mixed[:, columns], alone[:, columns], "the part of the models that is not mixed")


def check_stragglers(method: AnyMethod) -> None:
    """Check that dropped and late nodes do no harm: no node waits, and probability 0 changes not a single bit."""
    scene, rounds = scene_for(method.embeds), rounds_of(method)
    two, _ = scene.replace(participation=Participation()).play(method, rounds)
    changed = differences(trajectory(method, scene).after(rounds), two)
    require(not changed, f"stragglers of probability 0 change {changed}")
    _play_with_absent(method, STRAGGLERS)
    _resume(method, scene.replace(participation=STRAGGLERS))


def check_membership(method: AnyMethod) -> None:
    """Check that nodes can join and leave: an absent node sends nothing, and a node that has joined trains."""
    start, *states = _play_with_absent(method, MEMBERS)
    sent = [data.bytes_sent for data in states]
    require(bool((sent[1][1] == 0) & (sent[3][4] == sent[1][4])), "a node that is not there has sent something")
    require(not torch.equal(rows(states[-1].x)[1], rows(start.x)[1]), "a node that has joined has not trained")


def check_absent_nodes(method: AnyMethod) -> None:
    """Check that a node keeps its model while it is away, before it joins, and after it leaves."""
    if method.beyond_edges:
        raise NotApplicable(f"{method.name} has global state, which may reach nodes that are away")
    for participation in (STRAGGLERS, MEMBERS):
        _play_with_absent(method, participation, keeps=True)


def _play_with_absent(method: AnyMethod, participation: Participation, keeps: bool = False) -> list[Data]:
    """Play four rounds with absent nodes and check each; ``keeps``: absent nodes must keep their models."""
    play = trajectory(method, scene_for(method.embeds).replace(participation=participation))
    states, models = [play.after(0)], [play.judged(0)]
    for rounds in range(1, 5):
        states.append(play.after(rounds))
        models.append(play.judged(rounds))
        there, _ = participation.at_work(states[-2], play.env)
        for name, old, new in (("x", states[-2].x, states[-1].x), ("models", models[-2], models[-1])):
            require(bool(torch.isfinite(rows(new)).all()), f"{name} is not finite where nodes are absent")
            if keeps:
                same = torch.equal(rows(old)[~there], rows(new)[~there])
                require(same, f"{name} of a node that was absent has changed")
        weighed = bool(torch.isfinite(states[-1].edge_weight).all())
        require(weighed, "edge_weight is not finite where nodes are absent")
    return states


def check_declared(method: AnyMethod) -> None:
    """Check that the loop or a piece declares every field of the ``Data``, and so when the loop drops it."""
    declared, play = [*LOOP, *method.fields], trajectory(method, scene_for(method.embeds))
    for rounds in range(rounds_of(method)):
        data = play.after(rounds + 1)
        unknown = [name for name in sorted(data.keys()) if not any(field.covers(name) for field in declared)]
        require(not unknown, f"{unknown} are in the data, and no piece declares them in its `keeps`")


def check_sends(method: AnyMethod) -> None:
    """Check that every piece that causes bytes states in ``travels`` what leaves a node."""
    play = trajectory(method, scene_for(method.embeds))
    play.after(rounds_of(method))
    require(not play.silent, f"{sorted(play.silent)} cause bytes, and do not say in `travels` what is sent")


CONTRACT: tuple[Callable[[AnyMethod], None], ...] = (
    check_runs,
    check_keeps_dtype,
    check_input_untouched,
    check_relabeling,
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
"""The checks for every method; ``check_two_architectures`` is separate, since it needs one that mixes a shared part."""


def check_contract(method: AnyMethod) -> dict[str, str]:
    """Run every check in `CONTRACT` on a method.

    Returns:
        The checks that do not apply to the method, with the reasons.

    Raises:
        AssertionError: If a check fails; the message names it.

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
    play, last = trajectory(method, scene), 1 + rounds_of(method)
    history = History(scene.tasks.names, "accuracy", True)
    with tempfile.TemporaryDirectory() as folder:
        saver = Saver(folder)
        saver.begin({}, play.after(1), afresh=True)
        resumed, _, _ = load_checkpoint(saver.save(play.after(1), history))
    fresh = scene.begin(method)[1]
    for _ in range(1, last):
        resumed = method.play(resumed, fresh)
    changed = differences(play.after(last), resumed)
    require(not changed, f"a resumed run differs from an uninterrupted one in {changed}")
