"""What pieces of a method may use, who observes them, and what models that can be split return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from torch import Tensor
from torch_geometric.data import Data

if TYPE_CHECKING:
    from graphcollab.control import Everyone
    from graphcollab.control.guard import Isolate
    from graphcollab.engine import Engine
    from graphcollab.plane import Plane

__all__ = ["Embedded", "Env", "Observer"]


class Observer(Protocol):
    """Somebody who looks on while a round is played, such as a callback of a run; nothing that it does has effect."""

    def before_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the local update."""

    def after_mixing(self, data: Data, env: Env) -> None:
        """Called in every round after the exchange."""

    def values(self) -> Mapping[str, Tensor]:
        """Return what was observed of every node, [K] by name, to be kept with the evaluation."""


class Env(NamedTuple):
    """What pieces may use besides the ``Data``: nothing in it changes during a run.

    Args:
        engine: Row primitives, bound to the nodes' tasks.
        plane: How nodes see each other's models and data.
        seed: Seed of the run.
        isolate: Whether a node that diverges is left behind, and when it is said to (`Isolate`); else the run stops.
        attend: Who takes part in which round. None: everyone.
        observers: Who looks on.
    """

    engine: Engine
    plane: Plane
    seed: int
    isolate: Isolate | bool = False
    attend: Everyone | None = None
    observers: tuple[Observer, ...] = ()


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
