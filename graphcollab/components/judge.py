"""The judge slot: the models that nodes are evaluated with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.errors import ContractError, MissingError, UnsupportedError
from graphcollab._base.keyed import keyed_seed
from graphcollab._base.piece import updated
from graphcollab.components.env import Env
from graphcollab.components.local.fit import Fit
from graphcollab.components.local.prototypes import embed_sample
from graphcollab.components.slots import Judge
from graphcollab.engine import NonFiniteLossError
from graphcollab.engine.stack import Stacks

__all__ = ["FineTuned", "Judge", "NearestPrototype", "prototype_head"]

_TUNE_STREAM = 123


@dataclass(frozen=True)
class FineTuned(Judge):
    """Evaluate a node with its model after local fine-tuning on its own data, done when the model is requested.

    Fine-tuning does not affect training: models are bit for bit those of the same method without it. Isolated nodes are
    evaluated without it. ``local`` may read an anchor, the model that it starts from, but must not keep state.
    """

    local: Fit = dataclasses.field(default_factory=Fit)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local.keep_state:
            raise UnsupportedError(
                "keep_state", "fine-tuning starts anew every time and keeps no state: use keep_state=False"
            )

    def init(self, data: Data, env: Env) -> Data:
        return self.local.init(data, env)

    def __call__(self, data: Data, env: Env) -> Stacks:
        """Return fine-tuned models; with ``isolate`` a node whose loss is not finite keeps its own, with a warning."""
        models = super().__call__(data, env)
        start = updated(data, trains=~data.isolated, x=models, x_start=models)
        tuned = self.local(start, env._replace(seed=keyed_seed(_TUNE_STREAM, env.seed)))
        bad = tuned.bad_step >= 0
        if not bool(bad.any()):
            return tuned.x
        node, others = int(bad.nonzero()[0]), int(bad.sum()) - 1
        more = f" (and {others} more sites)" if others else ""
        subject = f"node {env.engine.tasks.names[node]!r}"
        message = (
            f"{env.engine.tasks.names[node]}{more}: loss is not finite after {data.round} rounds at step "
            f"{int(tuned.bad_step[node])} of fine-tuning"
        )
        if not env.isolate:
            raise NonFiniteLossError(subject, f"{message}: use a smaller step size for it")
        issue("diverged", subject, f"{message}: judged by the model as it is")
        return tuned.x.where(bad, models)


@dataclass(frozen=True)
class NearestPrototype(Judge):
    r"""Evaluate a node with its model and a head that predicts the class of the nearest prototype.

    The head is a linear classifier of latents, :math:`W_k = 2 \bar c_k` and :math:`b_k = -\lVert \bar c_k \rVert^2`, so
    the served model is an ordinary module. A class without a prototype never wins: its logit is the mean of the other
    logits, below their maximum by at least :math:`1 + \max_k \lVert \bar c_k \rVert^2`. A node without any prototype
    keeps its own head. ``part`` is one linear layer with a bias that reads the latents. See `fedproto`.
    """

    part: str = "head"
    embeds: ClassVar[bool] = True

    def init(self, data: Data, env: Env) -> Data:
        if "prototypes" not in data:
            raise MissingError(
                "exchange", "NearestPrototype needs the prototypes that PrototypeAverage averages: use it as exchange"
            )
        _, classes, width = data.prototypes.shape
        heads = data.x.part(self.part)
        layout, wanted = data.x.specs[0].part_layout(self.part), ((classes, width), (classes,))
        if layout != wanted:
            raise ContractError(
                f"part {self.part!r}",
                f"nearest prototypes need a linear head of shapes {wanted}, the part {self.part!r} has {layout}: use "
                "graphcollab.models.SplitModel, or predict='head'",
            )
        for out, members in zip(embed_sample(data, env), data.x.members, strict=True):
            if not len(members):
                continue
            weight, bias = heads[data.x.place(members[0])].split([classes * width, classes])
            apart = out.logits - F.linear(out.latent, weight.view(classes, width), bias)
            scale = F.linear(out.latent.abs(), weight.view(classes, width).abs(), bias.abs())
            if bool((apart.abs() > 0.05 * scale.amax() + 1e-6).any()):  # bfloat16 has an error of less than 0.01
                raise ContractError(
                    f"part {self.part!r}",
                    f"nearest prototypes need a head applied to latents as they are, and in the model of "
                    f"{env.engine.tasks.names[int(members[0])]!r} it is not: use SplitModel, or predict='head'",
                )
        return data

    def __call__(self, data: Data, env: Env) -> Stacks:
        knows = data.prototype_known.any(1, keepdim=True)
        heads = prototype_head(data.prototypes, data.prototype_known)
        models = super().__call__(data, env)
        return models.with_part(self.part, torch.where(knows, heads, models.part(self.part)))


def prototype_head(prototypes: Tensor, known: Tensor) -> Tensor:
    """Return linear heads, weights then biases, [..., C d_z + C], whose largest output is the nearest prototype's.

    Of the prototypes [..., C, d_z], at least one must be known, [..., C].
    """
    weight = (2 * prototypes).masked_fill(~known[..., None], 0)
    bias = -prototypes.square().sum(-1).masked_fill(~known, 0)
    count = known.sum(-1, keepdim=True).clamp(min=1)
    below = bias.sum(-1, keepdim=True) / count + bias.amin(-1, keepdim=True) - 1
    weight = torch.where(known[..., None], weight, weight.sum(-2, keepdim=True) / count[..., None])
    return torch.cat([weight.flatten(-2), torch.where(known, bias, below)], -1)
