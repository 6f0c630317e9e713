"""Ditto's local slot: beside the model that is shared every node trains one of its own, pulled towards it."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import torch
from torch_geometric.data import Data

from graphcollab.engine.objective import Proximal
from graphcollab.local.fit import Fit
from graphcollab.piece import Field

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["FitPersonal"]


@dataclass(frozen=True)
class FitPersonal(Fit):
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
        lam: λ, the strength of the pull.
        part: Part of the model that is shared, and only there the personal model is pulled.

    Shapes:
        Keeps ``x_personal`` (K rows; running statistics are the personal model's own). ``train_loss`` [K] is the
        personal model's, with the pull's share (λ/2) ‖v - w‖². Otherwise as `Fit`; with ``keep_state`` the personal
        model's optimiser state is ``personal_state`` and ``personal_step``.

    Raises:
        ValueError: If λ is negative or not finite.

    Example:
        >>> FitPersonal(steps=2, lam=0.5).lam
        0.5
    """

    lam: float = 1.0
    part: str = "all"

    keeps: ClassVar[tuple[Field, ...]] = (
        *Fit.keeps,
        Field("x_personal", "rows", "personal models", known_to="owner"),
        Field("personal_*", "rows", "the state of their optimisers, where it is kept", known_to="owner"),
    )

    @property
    def agrees(self) -> dict[str, object]:
        """The part, and what else must be the exchange's."""
        return {"part": self.part}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.lam < math.inf:
            raise ValueError(f"lam must be a finite number that is not negative, got {self.lam}")

    def init(self, data: Data, env: Env) -> Data:
        """Start personal models from the shared ones, unless an earlier phase has trained some."""
        data.x.part(self.part)
        data = copy.copy(super().init(data, env))
        if "x_personal" not in data:
            data.x_personal = data.x
        if self.keep_state:
            data.personal_state, data.personal_step = data.fit_state, data.fit_step
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Take the round's local steps with both models."""
        shared = super().__call__(data, env)
        own = copy.copy(data)
        own.x = data.x_personal
        if self.keep_state:
            own.fit_state, own.fit_step = data.personal_state, data.personal_step
        own = self._pulled()(own, env)
        bad = torch.where(own.bad_step >= 0, own.bad_step, shared.bad_step)
        shared.x_personal = data.x_personal.where(bad < 0, own.x)
        shared.train_loss, shared.bad_step = own.train_loss, bad
        if self.keep_state:
            shared.personal_state, shared.personal_step = own.fit_state, own.fit_step
        return shared

    def _pulled(self) -> Fit:
        """Return the personal model's update."""
        pull = Proximal(self.lam, self.part)
        settings = {f.name: getattr(self, f.name) for f in fields(Fit)}
        return Fit(**{**settings, "objective": pull if self.objective is None else self.objective + pull})
