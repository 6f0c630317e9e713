"""FedProto's local slot: training with an eye to class prototypes that were received."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.engine.latents import require_latents
from graphcollab.engine.objective import Objective
from graphcollab.engine.prototype_distance import PrototypeDistance
from graphcollab.local.fit import Fit
from graphcollab.typing import Embedded

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["FitToPrototypes", "embed_sample", "with_prototypes"]


@dataclass(frozen=True)
class FitToPrototypes(Fit):
    """Train as `Fit` does, with an objective that is given the class prototypes a node has received.

    The objective finds them as ``context.given["prototypes"]`` [C, d_z], and as ``context.given["known"]`` [C] which
    classes have one.

    Args:
        objective: Added to the task's loss. Default: `PrototypeDistance` with λ = 1.

    Shapes:
        Reads ``prototypes`` [K, C, d_z] and ``prototype_known`` [K, C], and creates them, with no class known, unless
        an earlier phase has left some. Otherwise as `Fit`.

    Raises:
        ValueError: If models have no latents, latents or outputs differ in size between architectures, or targets are
            not class labels.

    Example:
        >>> FitToPrototypes(objective=PrototypeDistance(0.1)).objective.lam
        0.1
    """

    objective: Objective | None = field(default_factory=PrototypeDistance)

    def init(self, data: Data, env: Env) -> Data:
        """Check models and labels, and begin without prototypes."""
        return super().init(with_prototypes(data, env), env)

    def give(self, data: Data, nodes: Tensor) -> dict[str, Tensor]:
        """Return the prototypes that nodes have received."""
        return {"prototypes": data.prototypes[nodes], "known": data.prototype_known[nodes]}


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
            f"{type(backend.module).__name__} of {tasks.names[int(members[0])]!r}: {size}"
            for backend, members, size in zip(env.engine.backends, data.x.members, sizes, strict=True)
        )
        raise ValueError(
            "prototypes are shared, so all architectures need outputs [B, C] and latents [B, d_z] of the same sizes; "
            f"(C, d_z) is, by architecture: {shown}. Give graphcollab.models.SplitModel the same `latent` everywhere"
        )
    shape = (data.num_nodes, *sizes[0])
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
        found.append(Embedded(*(out[0] for out in backend.embed(rows[:1], sample[None]))))
    return found
