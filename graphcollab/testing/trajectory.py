"""Trajectories of a method, cached for the contract checks: each is played once."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.piece import Piece
from graphcollab.comm.plane import Plane
from graphcollab.engine.stack import Stacks
from graphcollab.testing.claims import AnyMethod, changes, require, snapshot
from graphcollab.testing.scene import Scene


class Account(Plane):
    """A plane that records the pieces that cause bytes without stating in `travels` what leaves a node."""

    silent: set[str]

    def charge(self, *args: Any, **options: Any) -> Data:
        frame = sys._getframe(1)  # charge bytes to the innermost active piece
        while frame.f_back is not None and not isinstance(frame.f_locals.get("self"), Piece):
            frame = frame.f_back
        piece = frame.f_locals.get("self")
        if isinstance(piece, Piece) and not piece.travels:
            vars(self).setdefault("silent", set()).add(type(piece).__name__)
        return super().charge(*args, **options)


class Trajectory:
    """States of a run after each requested round; with participation set, no round may modify its input in place."""

    def __init__(self, method: AnyMethod, scene: Scene) -> None:
        self.method, self.scene = method, scene
        data, self.env = scene.begin(method, make=Account)
        self._states = [data]

    def after(self, rounds: int) -> Data:
        """Return the state after some rounds."""
        while len(self._states) <= rounds:
            last = self._states[-1]
            before = None if self.scene.participation is None else snapshot(last)
            self._states.append(self.method.play(last, self.env))
            if before is not None:
                changed = changes(before, last)
                require(not changed, f"a round with stragglers changed its input in place: {changed}")
        return self._states[rounds]

    def judged(self, rounds: int) -> Stacks:
        """Return the models by which nodes are judged after some rounds."""
        return self.method.models(self.after(rounds), self.env)

    @property
    def silent(self) -> set[str]:
        """Names of the pieces that cause bytes without stating what is sent."""
        return getattr(cast(Account, self.env.plane), "silent", set())


_RECENT: deque[Trajectory] = deque(maxlen=8)


def trajectory(method: AnyMethod, scene: Scene) -> Trajectory:
    """Return the trajectory of a method on a scene, reusing a recent one for the same objects."""
    for known in _RECENT:
        if known.method is method and _same(known.scene, scene):
            return known
    _RECENT.append(Trajectory(method, scene))
    return _RECENT[-1]


def _same(one: Scene, two: Scene) -> bool:
    for field in dataclasses.fields(Scene):
        a, b = getattr(one, field.name), getattr(two, field.name)
        plain = not isinstance(a, Tensor | Sequence) and field.name != "tasks"
        if a is not b and not (plain and a == b):
            return False
    return True


@functools.cache
def scene_for(embeds: bool, dtype: torch.dtype = torch.float64) -> Scene:
    """Return the cached scene with the models that a method needs; callers must not modify it."""
    return Scene.small(dtype, embeds=embeds)


def with_other_data(scene: Scene, nodes: Sequence[int]) -> Scene:
    """Return the scene with other samples and labels for some nodes."""
    pool = scene.tasks.pools["train"]
    owned = torch.cat([split.of(k) for split in scene.tasks.splits.values() for k in nodes])
    inputs = pool.inputs.index_copy(0, owned, 1.5 * pool.inputs[owned])
    targets = pool.targets.index_copy(0, owned, (pool.targets[owned] + 1) % 3)
    pools = {"train": dataclasses.replace(pool, inputs=inputs, targets=targets)}
    return scene.replace(tasks=dataclasses.replace(scene.tasks, pools=pools))
