"""Received class prototypes: the fields that store them, and FedProto's objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import MismatchError, MissingError, ShapeError
from graphcollab._base.piece import Field, updated
from graphcollab._base.settings import NonNegative
from graphcollab._base.typing import Embedded
from graphcollab.components.env import Env
from graphcollab.components.local.check_fit import require_latents
from graphcollab.engine.objective import Context, Objective, Reads

PROTOTYPES = (
    Field("prototypes", "rows", "class prototypes that a node has received, [K, C, d_z]", known_to="owner"),
    Field("prototype_known", "rows", "which classes it has a prototype of, [K, C]", known_to="owner"),
)


def with_prototypes(data: Data, env: Env) -> Data:
    """Return the graph with ``prototypes`` and ``prototype_known``: an earlier phase's of this shape, else none known.

    A ValueError rejects models without latents, latents or outputs of different sizes, and targets that are not labels.
    """
    tasks = env.engine.tasks
    targets = tasks.pools[tasks.splits["train"].pool].targets
    if targets.is_floating_point() or targets.dim() != 1:
        raise ShapeError(
            "targets", f"prototypes need whole-number labels [N], got {targets.dtype} of shape {tuple(targets.shape)}"
        )
    require_latents(env.engine, data.x, "prototypes are means of latents")
    sizes = [tuple(out.logits.shape[1:] + out.latent.shape[1:]) for out in embed_sample(data, env)]
    if len({*sizes}) > 1 or len(sizes[0]) != 2:
        raise MismatchError(
            "model",
            "prototypes are shared, so outputs [B, C] and latents [B, d_z] must have the same sizes, got (C, d_z) "
            f"{' and '.join(map(str, sizes))}: give graphcollab.models.SplitModel the same `latent` everywhere",
        )
    shape = (data.x.num_nodes, *sizes[0])
    if "prototypes" in data and data.prototypes.shape == shape:
        return data
    return updated(
        data,
        prototypes=torch.zeros(1, *sizes[0], dtype=data.x.dtype, device=data.x.device).expand(shape),
        prototype_known=torch.zeros(1, sizes[0][0], dtype=torch.bool, device=data.x.device).expand(shape[:2]),
    )


def embed_sample(data: Data, env: Env) -> list[Embedded]:
    """Return, per architecture, outputs and latents of its first node's model on one training sample, [1, ...]."""
    split = env.engine.tasks.splits["train"]
    sample = env.engine.tasks.pools[split.pool].inputs[split.here[:1]]
    found = []
    for backend, rows in zip(env.engine.backends, data.x.tensors, strict=True):
        row = rows[:1] if len(rows) else backend.spec.flatten(backend.module)[None]
        found.append(Embedded(*(out[0] for out in backend.embed(row, sample[None]))))
    return found


@dataclass(frozen=True)
class PrototypeDistance(Objective):
    r"""λ times the mean squared error between latents and the class prototypes that a node has received.

    .. math::
        \frac{\lambda}{B} \sum_{q=1}^{B} \frac{1}{d_z} \lVert z_q - \bar c_{y_q} \rVert^2

    A sample whose class has no prototype contributes 0, but counts as one of the B. See `fedproto`.

    Args:
        lam: λ.

    Shapes:
        Reads ``context.latent`` [B, d_z], and the node's ``prototypes`` [C, d_z] and ``prototype_known`` [C]. At the
        start of a run no class is known, unless an earlier phase has left some.

    Raises:
        ValueError: When called, if latents or prototypes are missing.

    Example:
        >>> import torch
        >>> prototypes, known = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([True, False])
        >>> given = {"prototypes": prototypes, "prototype_known": known}
        >>> context = Context(None, {}, latent=torch.tensor([[1.0, 4.0], [7.0, 7.0], [1.0, 1.0]]), given=given)
        >>> PrototypeDistance()(torch.zeros(3, 2), torch.tensor([0, 1, 0]), context)  # (9 / 2 + 0 + 0) / 3
        tensor(1.5000)
    """

    lam: NonNegative = 1.0

    keeps: ClassVar[tuple[Field, ...]] = PROTOTYPES
    reads: ClassVar[Reads] = Reads(latents=True, fields=tuple(field.name for field in PROTOTYPES))

    def init(self, data: Data, env: Env) -> Data:
        return with_prototypes(data, env)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        if context.latent is None or context.given is None:
            raise MissingError(
                "prototypes", "PrototypeDistance reads latents and class prototypes that were received: train by Fit"
            )
        prototypes, known = context.given["prototypes"], context.given["prototype_known"]
        place = targets.clamp(0, len(prototypes) - 1)  # a label that is not a class has no prototype either
        counts = known[place] & (targets == place)
        error = (context.latent - prototypes[place]).square().mean(1)
        return self.lam * context.mean(error.masked_fill(~counts, 0))
