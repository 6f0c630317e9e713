"""Ditto's local slot: beside the model that is shared every node trains one of its own, pulled towards it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch_geometric.data import Data

from graphcollab.engine.objective import Proximal
from graphcollab.local.fit import Fit
from graphcollab.piece import Field, Local
from graphcollab.settings import NonNegative
from graphcollab.typing import Env

__all__ = ["FitPersonal"]


@dataclass(frozen=True)
class FitPersonal(Local):
    r"""Train the shared model and a personal one, on the same batches.

    From `Ditto: Fair and Robust Federated Learning Through Personalization (Li et al., ICML 2021)
    <https://arxiv.org/abs/2012.04221>`_, algorithm 1: at every local step

    .. math::
        v_k \leftarrow v_k - \eta \big( \nabla F_k(v_k) + \lambda (v_k - w^t) \big), \qquad
        w_k \leftarrow w_k - \eta \nabla F_k(w_k)

    with :math:`w_k` starting from :math:`w^t`, the node's shared model at the round's start, which is also what
    :math:`v_k` is pulled towards, not the moving :math:`w_k`. The personal model starts as the shared one, and stays
    with its node. A node at rest keeps it.

    Args:
        fit: The local steps that both models take; what it keeps of the optimiser's state is the shared model's.
        lam: λ, the strength of the pull.
        part: Part of the model that is shared, and only there the personal model is pulled.

    Shapes:
        ``train_loss`` [K] is the personal model's, with the pull's share (λ/2) ‖v - w‖². Running statistics of the
        personal models are their own.

    Example:
        >>> FitPersonal(Fit(steps=2), lam=0.5).lam
        0.5
    """

    fit: Fit = field(default_factory=Fit)
    lam: NonNegative = 1.0
    part: str = "all"

    keeps: ClassVar[tuple[Field, ...]] = (
        *Fit.keeps,
        Field("x_personal", "models", "personal models; a phase that trains some goes on with them", "phase", "owner"),
        Field("personal_state", "rows", "their optimiser's state, by slot, where it is kept", "phase", "owner"),
        Field("personal_step", "per_node", "their optimiser's steps", "phase", "owner"),
    )

    @property
    def agrees(self) -> Mapping[str, object]:
        """The part."""
        return {"part": self.part}

    def init(self, data: Data, env: Env) -> Data:
        """Start personal models from the shared ones, unless an earlier phase has trained some."""
        data.x.part(self.part)
        data = copy.copy(self.fit.init(data, env))
        if "x_personal" not in data:
            data.x_personal = data.x
        kept = "personal_state" in data and set(data.personal_state) == set(data.get("fit_state", ()))  # by a phase
        if self.fit.keep_state and not kept:
            data.personal_state = {slot: data.x.map(torch.zeros_like) for slot in data.fit_state}
            data.personal_step = torch.zeros_like(data.fit_step)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Take the round's local steps with both models."""
        shared, own = self.fit(data, env), copy.copy(data)
        own.x = data.x_personal
        if self.fit.keep_state:
            own.fit_state, own.fit_step = data.personal_state, data.personal_step
        pull = Proximal(self.lam, self.part)
        other = self.fit.objective
        own = replace(self.fit, objective=pull if other is None else other + pull)(own, env)
        bad = torch.where(own.bad_step >= 0, own.bad_step, shared.bad_step)
        shared.x_personal = data.x_personal.where(bad < 0, own.x)
        shared.train_loss, shared.bad_step = own.train_loss, bad
        if self.fit.keep_state:
            shared.personal_state, shared.personal_step = own.fit_state, own.fit_step
        return shared
