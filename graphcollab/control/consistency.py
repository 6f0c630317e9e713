"""Whether the pieces of a method fit together."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from graphcollab.control.state import LOOP
from graphcollab.piece import Exchanger, Field, Judge, Piece, Stop

__all__ = ["check_agreement", "check_judge", "check_stop"]


def check_agreement(name: str, exchange: Exchanger, pieces: Iterable[Piece]) -> None:
    """Check that all pieces of a method say of the exchange's settings what it says.

    Raises:
        ValueError: If one is about another part of the model, or does something else with buffers.
    """
    wanted = exchange.agrees
    for piece in pieces:
        for setting, value in piece.agrees.items():
            if setting in wanted and value != wanted[setting]:
                what = "exchanges the part" if setting == "part" else f"exchanges with {setting}"
                raise ValueError(
                    f"{name} {what} {wanted[setting]!r}, and its {type(piece).__name__} says {value!r}: give both the "
                    f"same {setting}"
                )


def check_judge(name: str, judge: Judge, fields: Collection[Field]) -> None:
    """Check that nodes are judged by models that some piece of the method, or the loop, keeps.

    Raises:
        ValueError: If none does.
    """
    models = {field.name for field in (*LOOP, *fields) if field.kind == "models"}
    for read in judge.reads:
        if read not in models:
            known = ", ".join(map(repr, sorted(models)))
            raise ValueError(
                f"{name} judges nodes by the field {read!r}, which none of its pieces keeps models in: use a piece "
                f"that does, or judge them by one of {known}"
            )


def check_stop(name: str, stop: Stop, exchange: Exchanger, judge: Judge) -> None:
    """Check that nodes that stop keep their models, and are judged by them.

    Raises:
        ValueError: If the exchange gives models to nodes at rest, or nodes are judged by models from before mixing.
    """
    if stop.stops and "x_local" in judge.reads:
        raise ValueError(
            f"{name} judges nodes by their models before mixing, and a node that stops takes its best model back, "
            "which may be a mixture: use judge=Judge(field='best_x') with EarlyStopping"
        )
    if stop.stops and exchange.serves_rest:
        raise ValueError(
            f"{name} averages through a server, which gives its model to nodes that have stopped too: stop the whole "
            "run by run(patience=...) instead"
        )
