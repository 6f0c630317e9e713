"""What a node minimises: objectives written for one node, which add with ``+``."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

__all__ = [
    "BinaryCrossEntropy",
    "Context",
    "CrossEntropy",
    "Objective",
    "Proximal",
    "SquaredError",
    "Sum",
    "UserLoss",
    "as_objective",
]


Params = Mapping[str, Tensor]


@dataclass(frozen=True)
class Context:
    """What an objective may read besides outputs and targets, all of one node.

    Args:
        weight: Weight of every sample, [B], summing to one over the samples that count; None: all count equally.
        params: The node's parameters by name.
        anchor: Parameters to stay close to, by name, where the objective asks for them.
    """

    weight: Tensor | None
    params: Mapping[str, Tensor]
    anchor: Mapping[str, Tensor] | None = None

    def mean(self, per_sample: Tensor) -> Tensor:
        """Average a loss [B] over the samples that count."""
        return per_sample.mean() if self.weight is None else (per_sample * self.weight).sum()


class Objective(ABC):
    """A loss of one node: ``objective(outputs, targets, context) -> scalar``. It knows nothing of K.

    Attributes:
        weighs: Whether it averages with ``context.mean``. Then batches of unequal length are computed together, padded
            with samples of weight zero; otherwise nodes are grouped by batch length.
        anchored: Whether it reads ``context.anchor``.
        penalizes: Whether it reads ``context.params`` or the anchor. Then the gradient of a split is computed on all
            its samples at once, since a penalty must not be added once for every few of them.
    """

    weighs: bool = True
    anchored: bool = False
    penalizes: bool = True

    @abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the loss as a scalar."""

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the losses of many nodes at once, [R]: vmap over the loss of one, unless a subclass knows better.

        Args:
            outputs: [R, B, ...].
            targets: [R, B, ...].
            context: As for one node, with a leading dimension R everywhere.
        """

        def one(o: Tensor, t: Tensor, w: Tensor | None, params: Params, anchor: Params | None) -> Tensor:
            return self(o, t, Context(w, params, anchor))

        weight, anchor = context.weight, context.anchor
        dims = (0, 0, None if weight is None else 0, 0, None if anchor is None else 0)
        stacked: Callable[..., Tensor] = vmap(one, in_dims=dims, randomness="different")
        return stacked(outputs, targets, weight, dict(context.params), anchor and dict(anchor))

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:  # noqa: B027
        """Check, before training, that a split's targets can be judged against a model's outputs.

        Args:
            outputs: Outputs for a few samples, [B, ...].
            targets: All targets of the split, [N] or [N, D].
            model: Name of the model, for the message.
            split: Name of the split, for the message.

        Raises:
            ValueError: If they do not fit, as far as the objective can tell.
        """

    def __add__(self, other: Objective) -> Objective:
        """Return the sum of two objectives."""
        return Sum((self, other))


@dataclass(frozen=True)
class Sum(Objective):
    """Sum of objectives."""

    terms: tuple[Objective, ...]

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        """All terms do."""
        return all(term.weighs for term in self.terms)

    @property
    def anchored(self) -> bool:  # type: ignore[override]
        """Any term does."""
        return any(term.anchored for term in self.terms)

    @property
    def penalizes(self) -> bool:  # type: ignore[override]
        """Any term does."""
        return any(term.penalizes for term in self.terms)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Add the terms."""
        total = self.terms[0](outputs, targets, context)
        for term in self.terms[1:]:
            total = total + term(outputs, targets, context)
        return total

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check by every term."""
        for term in self.terms:
            term.check(outputs, targets, model, split)

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Add the terms of many nodes at once."""
        total = self.terms[0].rows(outputs, targets, context)
        for term in self.terms[1:]:
            total = total + term.rows(outputs, targets, context)
        return total


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross-entropy of logits [B, C] and labels [B]."""

    penalizes = False

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

    penalizes = False

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

    penalizes = False

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
    weighs = False
    penalizes = False

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


@dataclass(frozen=True)
class Proximal(Objective):
    """Half the squared distance to the anchor, times ``mu``: (mu / 2) ‖θ − anchor‖²."""

    mu: float
    anchored = True

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the penalty; outputs and targets play no part."""
        if context.anchor is None:
            raise ValueError("Proximal needs an anchor: use it in a local update that provides one")
        terms = [(context.params[name] - anchor).square().sum() for name, anchor in context.anchor.items()]
        return 0.5 * self.mu * torch.stack(terms).sum()


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
