"""Which models have latents, and that they are what objectives expect."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from graphcollab.engine.copy_module import copy_module
from graphcollab.stack import Stacks
from graphcollab.typing import Embedded

if TYPE_CHECKING:
    from graphcollab.engine.engine import Engine

__all__ = ["embed_arguments", "has_latents", "require_latents"]


def embed_arguments(embeds: bool) -> dict[str, bool]:
    """Return the keyword arguments of a forward pass; of a module that knows no latents none are asked for."""
    return {"embed": True} if embeds else {}


def has_latents(module: nn.Module, inputs: Tensor) -> bool:
    """Tell whether a module returns an `Embedded` of three tensors if asked to; it is tried on inputs [B, ...]."""
    return _no_latents(module, inputs) is None


def require_latents(engine: Engine, models: Stacks, wanted: str) -> None:
    """Check that the models of every architecture have latents.

    Args:
        engine: The nodes' data and modules.
        models: Which node has which architecture.
        wanted: What for, for the message.

    Raises:
        ValueError: If one has none.
    """
    split = engine.tasks.splits["train"]
    pool = engine.tasks.pools[split.pool]
    for backend, members in zip(engine.backends, models.members, strict=True):
        if not len(members):
            continue  # nodes of another process have this architecture
        reason = _no_latents(backend.module, pool.inputs[split.of(int(members[0]))[:1]])
        if reason is not None:
            who, kind = engine.tasks.names[int(members[0])], type(backend.module).__name__
            raise ValueError(
                f"{wanted}, and the model of {who!r}, {kind}, has no latents ({reason}): wrap its backbone in "
                "graphcollab.models.SplitModel, or let forward(inputs, embed=True) return graphcollab.typing.Embedded"
            )


def _no_latents(module: nn.Module, inputs: Tensor) -> str | None:
    """Return why a module has no latents, judged by a forward pass of a copy in evaluation mode; None where it has."""
    parameters = inspect.signature(module.forward).parameters.values()
    if not any(p.name == "embed" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return "its forward pass takes no argument embed"
    with torch.no_grad():
        try:
            found = copy_module(module).eval()(inputs, embed=True)
        except TypeError as error:
            return str(error)
    if not isinstance(found, Embedded) or not all(isinstance(part, Tensor) for part in found):
        return f"forward(inputs, embed=True) returns {type(found).__name__}, not an Embedded of three tensors"
    return None
