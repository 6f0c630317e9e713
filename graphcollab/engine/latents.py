"""Whether the models of an engine have latents."""

from __future__ import annotations

from graphcollab.engine.engine import Engine
from graphcollab.engine.modules import no_latents
from graphcollab.errors import MissingError
from graphcollab.stack import Stacks


def require_latents(engine: Engine, models: Stacks, wanted: str) -> None:
    """Check that the models of every architecture have latents.

    Raises:
        ValueError: If one has none; the message begins with what they are wanted for.
    """
    split = engine.tasks.splits["train"]
    pool = engine.tasks.pools[split.pool]
    for backend, members in zip(engine.backends, models.members, strict=True):
        if not len(members):
            continue  # nodes of another process have this architecture
        reason = no_latents(backend.module, pool.inputs[split.of(int(members[0]))[:1]])
        if reason is not None:
            who, kind = engine.tasks.names[int(members[0])], type(backend.module).__name__
            raise MissingError(
                f"node {who!r}",
                f"{wanted}, and the model of {who!r}, {kind}, has no latents ({reason}): wrap its backbone in "
                "graphcollab.models.SplitModel, or let forward(inputs, embed=True) return graphcollab.typing.Embedded",
            )
