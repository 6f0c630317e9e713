"""Nodes are judged by models that the `Data` has."""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric.data import Data

from graphcollab.piece import Judge
from graphcollab.stack import Stacks
from graphcollab.typing import Env

__all__ = ["JudgedBy"]


@dataclass(frozen=True)
class JudgedBy(Judge):
    """A node serves, and is judged by, the model that one field has for it.

    Args:
        field: ``"x"``: its model after the exchange; ``"x_local"``: its model before mixing, as its last local update
            left it, for methods that mix first and train then; ``"x_personal"``: the one that `FitPersonal` trains
            beside it; ``"best_x"``: the best that `EarlyStopping` has kept; or another field with a model per node that
            a piece of the method keeps. Where there is no such field yet, nodes are judged by ``"x"``.

    Example:
        >>> JudgedBy("x_local").reads
        ('x_local',)
    """

    field: str = "x"

    @property
    def reads(self) -> tuple[str, ...]:
        """The field."""
        return (self.field,)

    def __call__(self, data: Data, env: Env) -> Stacks:
        """Return the models."""
        models: Stacks = data.get(self.field, data.x)
        return models
