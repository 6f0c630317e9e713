"""Contrastive losses of projected latents: among samples, against class prototypes, and among prototypes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab._base.errors import MissingError, ShapeError
from graphcollab._base.settings import Positive
from graphcollab.engine.objective import Context, Objective, Reads


@dataclass(frozen=True)
class SupervisedContrast(Objective):
    r"""Pull samples of one class together and push the others away.

    `Supervised Contrastive Learning (Khosla et al., NeurIPS 2020) <https://arxiv.org/abs/2004.11362>`_, eq. 2 (form
    ``"out"``) and eq. 3 (``"in"``), with :math:`u_q = p_q / \lVert p_q \rVert` the projections on the unit sphere, Q
    the views in the batch and P(q) the other ones of q's class:

    .. math::
        \ell_q^\text{out} = \frac{-1}{|P(q)|} \sum_{r \in P(q)} \log
            \frac{e^{u_q \cdot u_r / \tau}}{\sum_{m \ne q} e^{u_q \cdot u_m / \tau}}, \qquad
        \ell_q^\text{in} = -\log \frac{1}{|P(q)|} \sum_{r \in P(q)}
            \frac{e^{u_q \cdot u_r / \tau}}{\sum_{m \ne q} e^{u_q \cdot u_m / \tau}}

    A sample that is the only one of its class in the batch contributes nothing; with two views there is none. Sample
    weights apply to the terms :math:`\ell_q`; among the samples that q is compared with, all are weighted equally,
    except that those of weight 0 are ignored.

    Args:
        temperature: τ.
        form: ``"out"`` or ``"in"``.
        normalize: If False, u is p itself, as in the code of FedClassAvg's authors.
        of: What is compared: ``"projection"`` or ``"latent"``.
    """

    temperature: Positive = 0.5
    form: Literal["out", "in"] = "out"
    normalize: bool = True
    of: Literal["projection", "latent"] = "projection"

    reads: ClassVar[Reads] = Reads(latents=True, whole=True)  # samples are compared

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the mean over the views of the batch."""
        _check_labels(targets)
        unit = _latents(context, self.of)
        unit = F.normalize(unit, dim=1) if self.normalize else unit
        itself = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
        left_out = itself if context.weight is None else itself | (context.weight == 0)
        nothing = torch.finfo(unit.dtype).min / 4  # not -inf, whose gradients are NaN for a class with one sample
        logits = (unit @ unit.T / self.temperature).masked_fill(left_out, nothing)
        shares = logits - logits.logsumexp(1, keepdim=True)
        same = (targets[:, None] == targets) & ~left_out
        count = same.sum(1)
        if self.form == "out":
            losses = -shares.masked_fill(~same, 0).sum(1) / count.clamp(min=1)
        else:
            losses = count.clamp(min=1).to(shares.dtype).log() - shares.masked_fill(~same, nothing).logsumexp(1)
        return context.mean(losses.masked_fill(count == 0, 0))


@dataclass(frozen=True)
class PrototypeContrast(Objective):
    r"""Pull every sample toward the prototype of its class and push it away from the others.

    `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et al., 2024), section
    4.1, with the node's own learned prototypes :math:`\xi^1, \dots, \xi^C`, a parameter of the model:

    .. math::
        \ell = \frac{-1}{|Q|} \sum_{q \in Q} \log
            \frac{e^{\cos(p_q, \xi^{y_q}) / \tau}}{\sum_k e^{\cos(p_q, \xi^k) / \tau}}

    Args:
        temperature: τ.
        normalize: If False, prototypes keep their length and :math:`\tau = 1`, which is equivalent to the authors'
            code, where the temperature cancels.
        name: Name of the parameter [C, d_p].
    """

    temperature: Positive = 0.5
    normalize: bool = True
    name: str = "prototypes"

    reads: ClassVar[Reads] = Reads(latents=True, whole=True)  # the prototypes are parameters

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        _check_labels(targets)
        unit = F.normalize(_latents(context, "projection"), dim=1)
        prototypes = _prototypes(context, self.name)
        classes, width = outputs.shape[-1], unit.shape[1]
        if prototypes.dim() != 2 or len(prototypes) < classes or prototypes.shape[1] != width:
            wanted = f"one prototype per class, [{classes}, {width}]"
            raise ShapeError(
                f"parameter {self.name!r}", f"{self.name!r} must hold {wanted}, got shape {list(prototypes.shape)}"
            )
        logits = unit @ (F.normalize(prototypes, dim=1) / self.temperature if self.normalize else prototypes).T
        return context.mean(F.cross_entropy(logits, targets, reduction="none"))


@dataclass(frozen=True)
class PrototypeUniformity(Objective):
    r"""Push the prototypes of different classes apart.

    MAPL's eq. 5:

    .. math::
        \ell = \frac1C \sum_k \sum_{r \ne k} \cos(\xi^k, \xi^r)

    It is 0 for orthogonal prototypes and C − 1 if all are the same; the minimum is −1, for a regular simplex.

    Args:
        form: ``"cosine"``, eq. 5; ``"exp"``, of the authors' code: :math:`e^{\xi^k \cdot \xi^r / \tau}` in place of the
            cosine, for prototypes of any length.
        temperature: τ of ``"exp"``.
        name: Name of the parameter [C, d_p].
    """

    form: Literal["cosine", "exp"] = "cosine"
    temperature: Positive = 100.0
    name: str = "prototypes"

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        prototypes = _prototypes(context, self.name)
        itself = torch.eye(len(prototypes), dtype=torch.bool, device=prototypes.device)
        if self.form == "cosine":
            unit = F.normalize(prototypes, dim=1)
            among = (unit @ unit.T).masked_fill(itself, 0)
        else:  # remove the diagonal first: for long prototypes, e to the square of their length may be infinite
            among = (prototypes @ prototypes.T / self.temperature).masked_fill(itself, -math.inf).exp()
        return among.sum() / len(prototypes)


def _check_labels(targets: Tensor) -> None:
    if targets.is_floating_point() or targets.dim() != 1:
        what = f"{targets.dtype} of shape {tuple(targets.shape)}"
        raise ShapeError("targets", f"contrastive losses need one whole-number label per sample, got {what}")


def _latents(context: Context, of: str) -> Tensor:
    found: Tensor | None = getattr(context, of)
    if found is None:
        raise MissingError(of, f"the objective reads the {of} of samples, which are not provided here: train by Fit")
    return found


def _prototypes(context: Context, name: str) -> Tensor:
    if name not in context.params:
        raise MissingError(
            f"parameter {name!r}",
            f"the model has no parameter {name!r} with one prototype per class: use graphcollab.models.SplitModel",
        )
    return context.params[name]
