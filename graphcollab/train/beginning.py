"""Initial models: equal where they are to be mixed."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from graphcollab._base.checks import issue
from graphcollab._base.naming import few
from graphcollab.components import Exchanger
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.fingerprint import checksum, describe, fingerprint


def warn_of_unlike(method: Method | Phases, modules: Sequence[nn.Module]) -> None:
    """Warn if a method mixes models of equal architectures with different initial parameters."""
    parts = {piece.part for piece in method.walk() if isinstance(piece, Exchanger) and piece.mixes}
    if len(modules) < 2 or not parts:
        return
    starts: dict[str, dict[str, int]] = {}
    for number, module in enumerate(modules):
        spec = ParamSpec.from_module(module)
        rows = spec.flatten(module).detach()
        kind = fingerprint([describe(module, "", tensors=False), spec.names, [list(shape) for shape in spec.shapes]])
        mixed = fingerprint([checksum(rows[spec.columns(part)]) for part in sorted(parts)])
        starts.setdefault(kind, {}).setdefault(mixed, number)
    for alike in starts.values():
        if len(alike) > 1:
            numbers = [*alike.values()]
            issue(
                "mismatch",
                "model",
                f"{method.name} mixes models, and architectures {few([str(n) for n in numbers])} "
                f"({type(modules[numbers[0]]).__name__}) are copies of one with other initial parameters: models that "
                "do not start alike are mixed badly. Give such nodes one architecture, so that they start alike",
            )
