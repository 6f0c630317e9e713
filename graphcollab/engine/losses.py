"""Losses of outputs against targets: the named ones, and a user's own; pulls towards an anchor."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab.engine.objective import Context, Objective, Reads
from graphcollab.settings import Real

__all__ = ["BinaryCrossEntropy", "CosinePull", "CrossEntropy", "SquaredError", "UserLoss", "as_objective"]


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross-entropy of logits [B, C] and labels [B]."""

    reads: ClassVar[Reads] = Reads()

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the mean over the samples."""
        return context.mean(F.cross_entropy(outputs, targets, reduction="none"))

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check that labels are classes of the outputs."""
        if outputs.dim() != 2:
            raise ValueError(
                f"cross-entropy needs one output per class, [B, C], {model} has outputs of shape "
                f"{tuple(outputs.shape)}: for binary labels with one output use loss='bce'"
            )
        if targets.is_floating_point() or targets.dim() != 1:
            raise ValueError(
                f"cross-entropy needs one whole-number label per sample, targets of split {split!r} are "
                f"{targets.dtype} of shape {tuple(targets.shape)}: for regression use loss='mse'"
            )
        if _outside(outputs, targets):
            raise ValueError(_labels_message(outputs, targets, model, split))

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the mean over the samples of every node: one flattened call, where vmap gathers piece by piece."""
        if outputs.dim() != 3 or targets.dim() != 2 or targets.is_floating_point():
            return super().rows(outputs, targets, context)
        flat = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        per_sample = flat.view(targets.shape)
        return per_sample.mean(1) if context.weight is None else (per_sample * context.weight).sum(1)


@dataclass(frozen=True)
class SquaredError(Objective):
    """Mean squared error; outputs [B] or [B, 1] fit targets [B]."""

    reads: ClassVar[Reads] = Reads()

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the mean over samples and components."""
        return context.mean(
            (_like(outputs, targets) - targets).square().flatten(1).mean(1)
            if targets.dim() > 1
            else (_like(outputs, targets) - targets).square()
        )

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the means of all rows, [R]; for plain targets [R, B] in a few operations, without vmap's own work."""
        if targets.dim() != 2:
            return super().rows(outputs, targets, context)
        error = (_like(outputs, targets) - targets).square()
        return error.mean(1) if context.weight is None else (error * context.weight).sum(1)


@dataclass(frozen=True)
class BinaryCrossEntropy(Objective):
    """Binary cross-entropy of logits [B] or [B, 1] and labels 0 or 1 [B]."""

    reads: ClassVar[Reads] = Reads()

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the mean over the samples."""
        logits = _like(outputs, targets)
        return context.mean(F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none"))

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check that labels are 0 or 1."""
        wrong = targets[(targets != 0) & (targets != 1)]
        if len(wrong):
            raise ValueError(
                f"binary cross-entropy needs labels 0 or 1, split {split!r} has {wrong[0].item():g}: relabel the "
                "samples, or use loss='cross_entropy' for more than two classes"
            )


@dataclass(frozen=True)
class UserLoss(Objective):
    """A user's own loss ``function(outputs, targets) -> scalar`` of one node's batch.

    Raises:
        TypeError: When called, if the function does not return a scalar tensor.
    """

    function: Callable[[Tensor, Tensor], Any]

    reads: ClassVar[Reads] = Reads(alike=True)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Call the function."""
        loss = self.function(outputs, targets)
        if not isinstance(loss, Tensor) or loss.dim() != 0:
            got = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise TypeError(f"a loss must return one number per batch (a scalar tensor), got {got}: average it")
        return loss

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check that the function takes labels outside the outputs, if there are any (it may ignore some).

        It is tried on the CPU: on a GPU a label out of range would bring down the whole program.
        """
        classes = targets.dtype == torch.int64 and targets.dim() == 1 and outputs.dim() == 2 and outputs.shape[-1] > 1
        if not classes or not _outside(outputs, targets):
            return
        try:
            self.function(outputs[[0, 0]].cpu(), torch.stack([targets.min(), targets.max()]).cpu())
        except (IndexError, RuntimeError) as error:
            raise ValueError(
                f"{_labels_message(outputs, targets, model, split)}, and the loss refuses: {error}"
            ) from error


def _like(outputs: Tensor, targets: Tensor) -> Tensor:
    """Drop a trailing dimension of one; refuse silent broadcasting."""
    if outputs.dim() == targets.dim() + 1 and outputs.shape[-1] == 1:
        outputs = outputs[..., 0]
    if outputs.shape != targets.shape:
        raise ValueError(f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} must have the same shape")
    return outputs


def _outside(outputs: Tensor, labels: Tensor) -> bool:
    """Tell whether there are labels [N] that are no class of the outputs [B, C]."""
    return len(labels) > 0 and not 0 <= int(labels.min()) <= int(labels.max()) < outputs.shape[-1]


def _labels_message(outputs: Tensor, labels: Tensor, model: str, split: str) -> str:
    return (
        f"split {split!r} has labels from {int(labels.min())} to {int(labels.max())}, "
        f"{model} has outputs for 0 to {outputs.shape[-1] - 1}"
    )


_NAMED: dict[str, Objective] = {"cross_entropy": CrossEntropy(), "mse": SquaredError(), "bce": BinaryCrossEntropy()}


def as_objective(loss: str | Callable[..., Any] | Objective) -> Objective:
    """Turn a name, a user's function or an objective into an objective.

    Raises:
        ValueError: If there is no such name; the message names the nearest.

    Example:
        >>> as_objective("mse")
        SquaredError()
    """
    if isinstance(loss, Objective):
        return loss
    if isinstance(loss, str):
        if loss not in _NAMED:
            nearest = difflib.get_close_matches(loss.lower(), _NAMED, n=1, cutoff=0.0)[0]
            raise ValueError(
                f"unknown loss {loss!r}; did you mean {nearest!r}? Known: {', '.join(_NAMED)}, or a function (outputs, "
                "targets)"
            )
        return _NAMED[loss]
    return UserLoss(loss)


@dataclass(frozen=True)
class CosinePull(Objective):
    r"""Minus the cosine of the parameters with the anchor, times ``mu``.

    Its gradient is :math:`-\mu (u / \lVert u \rVert - \cos \cdot \, \theta / \lVert \theta \rVert) / \lVert \theta
    \rVert` for the anchor u, which is zero where both have one direction, as at the first local step.

    Args:
        mu: Strength of the pull; below 0 it pushes away.
        part: Part of the model that is pulled.

    Raises:
        ValueError: When called, if the context has no anchor, or no architecture to look the part up in.
    """

    reads: ClassVar[Reads] = Reads(anchor=True, whole=True)

    mu: Annotated[float, Real()]
    part: str = "all"

    @property
    def agrees(self) -> Mapping[str, object]:
        """The part."""
        return {"part": self.part}

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the term; outputs and targets play no part."""
        if context.anchor is None:
            raise ValueError("CosinePull needs an anchor: use it in a local update that provides one")
        if context.spec is None and self.part != "all":
            raise ValueError(f"CosinePull of the part {self.part!r} needs to know the parts: give the context a spec")
        names = context.anchor if context.spec is None else context.spec.names_in(self.part)
        pairs = [(context.params[name], context.anchor[name]) for name in names]
        product, own, other = (torch.stack(terms).sum() for terms in zip(*map(_products, pairs), strict=True))
        tiny = torch.finfo(product.dtype).tiny
        return -self.mu * product / (own.clamp(min=tiny).sqrt() * other.clamp(min=tiny).sqrt())


def _products(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return a·b, a·a and b·b of two tensors."""
    a, b = pair
    return (a * b).sum(), a.square().sum(), b.square().sum()
