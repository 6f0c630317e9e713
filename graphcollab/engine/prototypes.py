"""Class prototypes that nodes have received: what the ``Data`` keeps of them, and what models they need."""

from __future__ import annotations

import copy

import torch
from torch_geometric.data import Data

from graphcollab.engine.latents import require_latents
from graphcollab.piece import Field
from graphcollab.typing import Embedded, Env

__all__ = ["PROTOTYPES", "embed_sample", "with_prototypes"]

PROTOTYPES = (
    Field("prototypes", "rows", "class prototypes that a node has received, [K, C, d_z]", known_to="owner"),
    Field("prototype_known", "rows", "which classes it has a prototype of, [K, C]", known_to="owner"),
)


def with_prototypes(data: Data, env: Env) -> Data:
    """Return the graph with ``prototypes`` [K, C, d_z] and ``prototype_known`` [K, C]; none is known at first.

    Those of an earlier phase are kept if they are of this shape.

    Raises:
        ValueError: If models have no latents, latents or outputs differ in size between architectures, or targets are
            not class labels.
    """
    tasks = env.engine.tasks
    targets = tasks.pools[tasks.splits["train"].pool].targets
    if targets.is_floating_point() or targets.dim() != 1:
        raise ValueError(
            f"prototypes are of classes, so every sample needs one whole-number label; targets are {targets.dtype} of "
            f"shape {tuple(targets.shape)}"
        )
    require_latents(env.engine, data.x, "prototypes are means of latents")
    sizes = [tuple(out.logits.shape[1:] + out.latent.shape[1:]) for out in embed_sample(data, env)]
    if len({*sizes}) > 1 or len(sizes[0]) != 2:
        shown = "; ".join(
            f"{type(backend.module).__name__}{f' of {tasks.names[int(members[0])]!r}' if len(members) else ''}: {size}"
            for backend, members, size in zip(env.engine.backends, data.x.members, sizes, strict=True)
        )
        raise ValueError(
            "prototypes are shared, so all architectures need outputs [B, C] and latents [B, d_z] of the same sizes; "
            f"(C, d_z) is, by architecture: {shown}. Give graphcollab.models.SplitModel the same `latent` everywhere"
        )
    shape = (data.x.num_nodes, *sizes[0])
    if "prototypes" in data and data.prototypes.shape == shape:
        return data
    data = copy.copy(data)
    data.prototypes = torch.zeros(1, *sizes[0], dtype=data.x.dtype, device=data.x.device).expand(shape)
    data.prototype_known = torch.zeros(1, sizes[0][0], dtype=torch.bool, device=data.x.device).expand(shape[:2])
    return data


def embed_sample(data: Data, env: Env) -> list[Embedded]:
    """Return, for every architecture, outputs and latents of its first node's model for a training sample, [1, ...]."""
    split = env.engine.tasks.splits["train"]
    sample = env.engine.tasks.pools[split.pool].inputs[split.index[:1]]
    found = []
    for backend, rows in zip(env.engine.backends, data.x.tensors, strict=True):
        row = rows[:1] if len(rows) else backend.spec.flatten(backend.module)[None]
        found.append(Embedded(*(out[0] for out in backend.embed(row, sample[None]))))
    return found
