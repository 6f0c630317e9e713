"""What pieces of a method may use, and what models that can be split return."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

if TYPE_CHECKING:
    from graphcollab.control import Attendance, Isolate
    from graphcollab.engine import Engine
    from graphcollab.plane import Plane
    from graphcollab.train import Callback

__all__ = ["Embedded", "Env"]


class Env(NamedTuple):
    """What pieces may use besides the ``Data``: nothing in it changes during a run.

    Args:
        engine: Row primitives, bound to the nodes' tasks.
        plane: How nodes see each other's models and data.
        seed: Seed of the run.
        isolate: Whether a node that diverges is left behind, and when it is said to (`Isolate`); else the run stops.
        attend: Who takes part in which round. None: everyone.
        observers: Who looks on, before and after mixing; nothing that they do has effect.
    """

    engine: Engine
    plane: Plane
    seed: int
    isolate: Isolate | bool = False
    attend: Attendance | None = None
    observers: tuple[Callback, ...] = ()


class Embedded(NamedTuple):
    """What a model that can be split returns for ``forward(inputs, embed=True)``.

    Args:
        logits: Outputs of the head, [B, C].
        latent: Outputs of the backbone, which the head reads, [B, d_z].
        projection: Projected latents, which contrastive losses compare, [B, d_p].
    """

    logits: Tensor
    latent: Tensor
    projection: Tensor
