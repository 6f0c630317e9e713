"""Protocols of a method's slots. Every stage takes a ``Data`` and returns a new one; nothing is changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor
from torch_geometric.data import Data

if TYPE_CHECKING:
    from graphcollab.comm import Comm
    from graphcollab.guard import Isolate
    from graphcollab.local import Engine
    from graphcollab.nn import Everyone
    from graphcollab.stack import Stacks

__all__ = ["Embedded", "Env", "Exchanger", "Part", "Personal", "Stage", "Weigher"]


class Env(NamedTuple):
    """What stages may use besides the ``Data``: nothing in it changes during a run.

    Args:
        engine: Row primitives, bound to the nodes' tasks.
        comm: Communication between nodes.
        seed: Seed of the run.
        isolate: Whether a node that diverges is left behind, and when it is said to (`Isolate`); else the run stops.
        attend: Who takes part in which round. None: everyone.
    """

    engine: Engine
    comm: Comm
    seed: int
    isolate: Isolate | bool = False
    attend: Everyone | None = None


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


class Part(Protocol):
    """Anything a method is made of: it can create what it keeps from round to round."""

    def init(self, data: Data, env: Env) -> Data:
        """Return the data with the part's own state in it."""


class Stage(Part, Protocol):
    """A part that does its work once a round."""

    def __call__(self, data: Data, env: Env) -> Data:
        """Return the data after the stage."""


class Weigher(Stage, Protocol):
    """Sets ``edge_weight``; a learned one learns from the gradient of the validation loss with respect to it."""

    @property
    def learns(self) -> bool:
        """Whether `learn` is to be called."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits every node must have samples in."""

    def learn(self, data: Data, env: Env, gradient: Tensor) -> Data:
        """Take a step on the weigher's own parameters.

        Args:
            data: The graph.
            env: What stages may use.
            gradient: ∂L_i/∂w_ij for every edge j → i, [E].
        """


class Exchanger(Stage, Protocol):
    """Mixes models; knows how its result depends on the edge weights."""

    @property
    def along_edges(self) -> bool:
        """Whether models travel along the graph's edges, rather than through a server or not at all."""

    @property
    def part(self) -> str:
        """Part of the model that is mixed."""

    def at_server(self, data: Data) -> Tensor | None:
        """Return who sends to a server in this round, [K]; None if models travel along the edges instead."""

    def weight_gradient(self, data: Data, env: Env, cotangent: Any) -> Tensor:
        """Return ∂L/∂w for every edge, [E], given ∂L/∂x of every node's mixed part, [K, P_part]."""


class Personal(Part, Protocol):
    """Names the models a node serves and is judged by."""

    def __call__(self, data: Data, env: Env) -> Stacks:
        """Return one model per node."""
