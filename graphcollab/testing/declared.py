"""The checks of the contract that are about declarations: what pieces keep in the ``Data``, and what they send."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.state import LOOP
from graphcollab.phases import Phases
from graphcollab.piece import Piece
from graphcollab.plane import Plane
from graphcollab.testing.claims import AnyMethod, require, rounds_of
from graphcollab.testing.scene import Scene

__all__ = ["check_declared", "check_sends", "pieces_of"]


def pieces_of(method: AnyMethod) -> Iterator[Piece]:
    """Yield all pieces of a method, or of all phases, those inside other pieces too."""
    if isinstance(method, Phases):
        yield from pieces_of(method.method)
        yield from pieces_of(method.next)
        return
    for slot in fields(method):
        piece = getattr(method, slot.name)
        if isinstance(piece, Piece):
            yield from piece.walk()


def check_declared(method: AnyMethod) -> None:
    """What is in the ``Data`` is declared by the loop or by a piece (which says when the loop drops it)."""
    declared = [*LOOP, *(field for piece in pieces_of(method) for field in piece.keeps)]
    data, env = Scene.small(embeds=method.embeds).begin(method)
    for _ in range(rounds_of(method)):
        data = method.play(data, env)
        unknown = [name for name in sorted(data.keys()) if not any(field.covers(name) for field in declared)]
        require(not unknown, f"{unknown} are in the data, and no piece declares them in its `keeps`")


class _Ledger(Plane):
    """Counts bytes as `Plane` does, and notes on whose account they go."""

    def __init__(self) -> None:
        super().__init__()
        self.payers: list[Piece] = []

    def charge(self, data: Data, senders: Tensor, floats: float | Tensor, at: Tensor | None = None) -> Data:
        """Add what nodes sent, and find the piece that says so: the innermost one that is at work."""
        frame = sys._getframe(1)
        while frame is not None and not isinstance(frame.f_locals.get("self"), Piece):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            self.payers.append(frame.f_locals["self"])
        return super().charge(data, senders, floats, at)


def check_sends(method: AnyMethod) -> None:
    """A piece that causes bytes says in `travels` what it is that leaves a node."""
    data, env = Scene.small(embeds=method.embeds).begin(method)
    ledger = _Ledger()
    env = env._replace(plane=ledger)
    for _ in range(rounds_of(method)):
        data = method.play(data, env)
    silent = {type(piece).__name__ for piece in ledger.payers if not piece.travels}
    require(not silent, f"{sorted(silent)} cause bytes, and do not say in `travels` what is sent")
