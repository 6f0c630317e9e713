"""What nodes' models make of their samples before the head."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.engine import Engine, Rows, require_latents
from graphcollab.errors import EmptyError, MismatchError
from graphcollab.keyed import keyed_order
from graphcollab.metrics.edges import measure
from graphcollab.settings import Count, Seed
from graphcollab.stack import Stacks

_SAMPLE_STREAM = 152


@measure
def node_latents(
    engine: Engine,
    models: Stacks,
    split: str = "test",
    per_node: Count | None = None,
    of: Literal["latent", "projection"] = "latent",
    seed: Seed = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the latents that every node's model has of the node's own samples, in evaluation mode.

    Args:
        engine: What computes, such as ``result.env.engine``.
        models: One model per node, such as ``result.stacks``; ``forward(inputs, embed=True)`` must return
            `graphcollab.typing.Embedded`, as that of `graphcollab.models.SplitModel` does.
        seed: Seed of the draw; which samples of a node are drawn depends on it and the node's identity.

    Returns:
        The latents or their projections, node after node, [N, d]; whose samples they are, [N], ascending; and the
        samples' targets, [N] or [N, D]. Latents of all nodes must have one size.
    """
    tasks = engine.tasks
    if int(tasks.sizes(split).sum()) == 0:
        raise EmptyError(
            f"split {split!r}", f"no node has {split!r} samples, so there are no latents: choose another split"
        )
    require_latents(engine, models, "their latents are asked for")
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for chunk in engine.predict(Rows.own(models), split, embed=True):
        values = getattr(chunk, of)
        for r, node in enumerate(models.nodes[chunk.rows].tolist()):
            here = torch.arange(int(chunk.sizes[r]))
            if per_node is not None:
                drawn = keyed_order(seed, _SAMPLE_STREAM, int(tasks.ids[node]), here)[:per_node]
                here = here[drawn].sort().values
            place = beside(here, values)
            found[node] = values[r, place].detach().flatten(1), chunk.targets[r, place]
    nodes = sorted(found)
    sizes = {found[node][0].shape[1]: node for node in reversed(nodes)}  # the first node of every size
    if len(sizes) > 1:
        named = ", ".join(f"{size} at {tasks.names[node]!r}" for size, node in sizes.items())
        raise MismatchError(
            "latent",
            f"{of}s have different sizes ({named}), so they cannot be compared: give all models one size, say by the "
            "argument latent of graphcollab.models.SplitModel",
        )
    counts = torch.tensor([len(found[node][1]) for node in nodes])
    owner = torch.tensor(nodes).repeat_interleave(counts)
    values, targets = (torch.cat(column) for column in zip(*(found[node] for node in nodes), strict=True))
    return values, owner.to(values.device), targets
