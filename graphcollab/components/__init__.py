"""The pieces that methods are composed of, with a folder for each slot that has many, and their shared helpers."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab._base.piece import Field as Field, Piece as Piece
    from graphcollab._base.settings import Buffers as Buffers, Count as Count, Positive as Positive, Real as Real
    from graphcollab.components.env import Env as Env, Isolate as Isolate, Participation as Participation
    from graphcollab.components.random_slopes import RandomSlopes as RandomSlopes
    from graphcollab.components.slots import (
        Exchanger as Exchanger,
        Judge as Judge,
        Local as Local,
        Rewiring as Rewiring,
        Stop as Stop,
        Weigher as Weigher,
    )
    from graphcollab.components.stop import EarlyStopping as EarlyStopping

__all__ = make_lazy(__name__)
