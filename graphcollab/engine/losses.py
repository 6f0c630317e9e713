"""Losses of outputs and targets, by name or user-defined, and the pull of parameters toward an anchor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab._base.errors import (
    ContractError,
    InvalidTypeError,
    InvalidValueError,
    MissingError,
    RangeError,
    ShapeError,
)
from graphcollab._base.settings import NonNegative, look_up
from graphcollab.engine.objective import Context, Objective, Reads


@dataclass(frozen=True, repr=False)
class Loss(Objective):
    """A user-defined function of the outputs and targets of one node's batch; for named ones, see `as_objective`.

    Args:
        function: ``function(outputs, targets)`` of one batch, [B, ...] each.
        per_sample: Whether it returns the loss of every sample, [B], to be averaged. Otherwise it returns a scalar
            tensor, nodes are grouped by batch length, and samples cannot have weights.
        refuse: Function that raises if targets do not fit the outputs; called like `check`. Default: labels outside the
            classes of the outputs are rejected if the function rejects them.
        refuse_metric: Function that raises if the metric with a given name is meaningless for the loss. Default: all
            metrics are accepted.
        link: Function that converts outputs to predicted values, which regression metrics receive. Default: identity.

    Raises:
        TypeError: When called, if the function does not return this.
    """

    function: Callable[[Tensor, Tensor], Any]
    per_sample: bool = False
    refuse: Callable[[Tensor, Tensor, str, str], None] | None = field(default=None, repr=False)
    refuse_metric: Callable[[str], None] | None = field(default=None, repr=False)
    link: Callable[[Tensor], Tensor] | None = field(default=None, repr=False)

    @property
    def reads(self) -> Reads:
        return PER_SAMPLE if self.per_sample else PER_BATCH

    @property
    def ignored(self) -> int | None:
        """The target that the function ignores, its ``ignore_index``, if it is known."""
        function: Any = self.function
        given = None
        while isinstance(function, partial):
            function, given = function.func, function.keywords.get("ignore_index", given)
        found = getattr(function, "ignore_index", None) if given is None else given
        return found if isinstance(found, int) else None

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"Loss({name}{', per_sample=True' if self.per_sample else ''})"

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        loss = self.function(outputs, targets)
        if not isinstance(loss, Tensor) or loss.dim() != int(self.per_sample):
            got = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            if self.per_sample:
                raise InvalidTypeError(
                    "loss", f"a loss per sample must return one number for each, [B], got {got}: do not average it"
                )
            raise InvalidTypeError(
                "loss", f"a loss must return one number per batch (a scalar tensor), got {got}: average it"
            )
        return context.mean(loss) if self.per_sample else loss

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the losses of many nodes, with one flattened call for samples, where vmap would gather piecewise."""
        if not self.per_sample:
            return super().rows(outputs, targets, context)
        losses = self.function(outputs.flatten(0, 1), targets.flatten(0, 1)).view(targets.shape[:2])
        return losses.mean(1) if context.weight is None else (losses * context.weight).sum(1)

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check with ``refuse``, or check that the function accepts labels outside the classes (it may ignore some).

        The check runs on the CPU: on a GPU, a label out of range would abort the whole program.
        """
        if self.refuse is not None:
            return self.refuse(outputs, targets, model, split)
        classes = targets.dtype == torch.int64 and targets.dim() == 1 and outputs.dim() == 2 and outputs.shape[-1] > 1
        if classes and (message := _outside(outputs, targets, model, split)):
            try:
                self.function(outputs[[0, 0]].cpu(), torch.stack([targets.min(), targets.max()]).cpu())
            except (IndexError, RuntimeError) as error:
                raise ContractError("loss", f"{message}, and the loss refuses: {error}") from error


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of logits [B, C] and labels [B], [B]."""
    return F.cross_entropy(outputs, targets, reduction="none")


def _by_class(
    function: Callable[[Tensor, Tensor], Tensor], weights: Sequence[float], outputs: Tensor, targets: Tensor
) -> Tensor:
    """Return losses [B], each multiplied by the weight of the sample's class."""
    losses, labels = function(outputs, targets), targets.reshape(len(targets))
    return losses * sum(weight * (labels == label).to(losses.dtype) for label, weight in enumerate(weights))


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over components of the squared error, [B]; outputs [B] or [B, 1] fit targets [B]."""
    error = (_like(outputs, targets) - targets).square()
    return error.flatten(1).mean(1) if error.dim() > 1 else error


def binary_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the binary cross-entropy [B] of logits [B] or [B, 1] and labels 0 or 1 [B]; the mean over several."""
    logits = _like(outputs, targets)
    losses = F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none")
    return losses.flatten(1).mean(1) if losses.dim() > 1 else losses


def half_poisson_deviance(outputs: Tensor, targets: Tensor, scale: float = 1.0) -> Tensor:
    """Return (r - y + y log(y / r)) / scale of counts y and rates r = scale exp(output), [B]; the mean over several.

    Its gradients are those of the negative log-likelihood, and it is nonnegative. With the mean count as ``scale``, the
    same learning rates are suitable for counts of any size.
    """
    logs = _like(outputs, targets)
    counts = targets.to(logs.dtype)
    losses = logs.exp() - counts / scale + counts / scale * ((counts.clamp(min=1) / scale).log() - logs)
    return losses.flatten(1).mean(1) if losses.dim() > 1 else losses


def cox_partial_likelihood(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the negative mean over events of Cox's log partial likelihood, given log hazard ratios.

    Targets [B, 2] are times, and 1 if the event was observed at that time, else 0. The risk set consists of the batch's
    samples with the same or a later time, with Breslow's handling of ties; without an event the loss is 0.
    """
    time, order = targets[:, 0].sort(descending=True)
    risk, event = outputs.reshape(len(outputs)).gather(0, order), targets[:, 1].gather(0, order)
    last = torch.searchsorted(-time, -time, right=True) - 1  # the last sample with the same time
    total = risk.logcumsumexp(0).gather(0, last)
    return ((total - risk) * event).sum() / event.sum().clamp(min=1)


def _rates(logs: Tensor, scale: float = 1.0) -> Tensor:
    return scale * logs.double().exp()


def _like(outputs: Tensor, targets: Tensor) -> Tensor:
    """Drop a trailing dimension of one; reject silent broadcasting."""
    if outputs.dim() == targets.dim() + 1 and outputs.shape[-1] == 1:
        outputs = outputs[..., 0]
    if outputs.shape != targets.shape:
        raise ShapeError(
            "outputs", f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} must have the same shape"
        )
    return outputs


def _refuse_no_classes(outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
    if outputs.dim() != 2:
        what = f"{model} has outputs of shape {tuple(outputs.shape)}"
        raise ShapeError("outputs", f"cross-entropy needs one output per class, [B, C], {what}: use loss='bce' for one")
    if targets.is_floating_point() or targets.dim() != 1:
        what = f"{targets.dtype} of shape {tuple(targets.shape)} in split {split!r}"
        raise ShapeError("targets", f"cross-entropy needs integer labels [N], got {what}: for amounts use loss='mse'")
    if message := _outside(outputs, targets, model, split):
        raise RangeError("targets", f"{message}: number classes from 0, and give the model an output for each")


def _refuse_other_shape(outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
    given, wanted = tuple(outputs.shape[1:]), tuple(targets.shape[1:])
    if given not in (wanted, (*wanted, 1)):
        text = f"outputs of {model} have shape {given} for a sample, and targets of split {split!r} {wanted}"
        raise ShapeError("outputs", f"{text}: give the model an output for every target")


def _refuse_no_counts(
    most: float, needed: str, cure: str, outputs: Tensor, targets: Tensor, model: str, split: str
) -> None:
    """Reject targets that are not integers from 0 to ``most``, as stated in ``needed``, or have another shape."""
    values = targets.double()
    wrong = values[(values < 0) | (values > most) | (values != values.round())]
    if len(wrong):
        raise InvalidValueError("targets", f"{needed}, split {split!r} has {wrong[0].item():g}: {cure}")
    _refuse_other_shape(outputs, targets, model, split)


def _refuse_no_times(outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
    event = targets[:, 1]
    if bool(((event != 0) & (event != 1)).any()):
        what = f"loss='cox' needs 1 or 0 beside every time, for an event that was seen, split {split!r} has others"
        raise InvalidValueError("targets", what)
    _refuse_other_shape(outputs, event, model, split)


def _outside(outputs: Tensor, labels: Tensor, model: str, split: str) -> str | None:
    """Describe labels [N] outside the classes of the outputs [B, C], if any."""
    if not len(labels) or 0 <= int(labels.min()) <= int(labels.max()) < outputs.shape[-1]:
        return None
    return (
        f"split {split!r} has labels from {int(labels.min())} to {int(labels.max())}, "
        f"{model} has outputs for 0 to {outputs.shape[-1] - 1}"
    )


PER_SAMPLE, PER_BATCH = Reads(), Reads(alike=True)
BINARY = (
    "binary cross-entropy needs labels 0 or 1",
    "relabel the samples, or use loss='cross_entropy' for more than two classes",
)
COUNTS = "loss='poisson' needs counts, whole numbers from 0 on", "for other amounts use loss='mse'"
NAMED: dict[str, Loss] = {
    "cross_entropy": Loss(cross_entropy, True, _refuse_no_classes),
    "mse": Loss(squared_error, True, _refuse_other_shape),
    "bce": Loss(binary_cross_entropy, True, partial(_refuse_no_counts, 1, *BINARY)),
    "poisson": Loss(half_poisson_deviance, True, partial(_refuse_no_counts, torch.inf, *COUNTS), link=_rates),
    "cox": Loss(cox_partial_likelihood, False, _refuse_no_times),
}


def as_objective(loss: str | Callable[..., Any] | Objective) -> Objective:
    """Convert a name, a user-defined function or an objective to an objective.

    Args:
        loss: ``"cross_entropy"`` of logits [B, C] and labels [B]; ``"mse"``, where outputs [B] or [B, 1] fit targets
            [B]; ``"bce"`` of logits [B] or [B, 1] and labels 0 or 1 [B], or the mean over as many logits as labels
            [B, D]; ``"poisson"`` of log rates and counts, in the shapes of ``"mse"``, half the deviance; ``"cox"`` of
            log hazard ratios [B] or [B, 1] and times and events [B, 2]; a function for `Loss`; or an objective.

    Raises:
        ValueError: If there is no such name; the message suggests the nearest one.

    Example:
        >>> as_objective("mse")(torch.tensor([[1.0], [3.0]]), torch.zeros(2), Context(None, {}))
        tensor(5.)
    """
    if isinstance(loss, Objective):
        return loss
    if isinstance(loss, str):
        return look_up("loss", loss, NAMED, also=", or a function (outputs, targets)")
    return Loss(loss)


def objective_of(tasks: Any) -> Objective:
    """Return the objective of `Tasks`: their loss, with their scale for counts and their weights for classes."""
    objective = as_objective(tasks.loss)
    if tasks.loss == "poisson" and isinstance(objective, Loss):
        function, link = (partial(one, scale=tasks.scale) for one in (half_poisson_deviance, _rates))
        objective = replace(objective, function=function, link=link)
    if tasks.class_weight and isinstance(objective, Loss):
        objective = replace(objective, function=partial(_by_class, objective.function, tasks.class_weight))
    return objective


def ignored_target(objective: Objective) -> int | None:
    """Return the target that a term of an objective ignores, if any."""
    found = (one.ignored for one in objective.walk() if isinstance(one, Loss))
    return next((target for target in found if target is not None), None)


def link_of(objective: Objective) -> Callable[[Tensor], Tensor] | None:
    """Return the function that converts the outputs of an objective to predicted values, if needed."""
    return next((one.link for one in objective.walk() if isinstance(one, Loss) and one.link is not None), None)


@dataclass(frozen=True)
class Proximal(Objective):
    r"""The distance of the parameters θ to the anchor u, times ``mu``.

    Args:
        mu: Strength of the pull.
        part: Part of the model that is pulled; it must be the exchanged part.
        distance: ``"square"``, :math:`\frac12 \lVert \theta - u \rVert^2`; or ``"cosine"``,
            :math:`-\cos(\theta, u)`, whose gradient :math:`-(u / \lVert u \rVert - \cos \cdot \, \theta / \lVert
            \theta \rVert) / \lVert \theta \rVert` is zero if both have the same direction, as at the first local step.

    Raises:
        ValueError: When called, if the context has no anchor, or no architecture for looking up the part.
    """

    mu: NonNegative
    part: str = "all"
    distance: Literal["square", "cosine"] = "square"

    reads: ClassVar[Reads] = Reads(anchor=True, whole=True, penalty=True)
    shared: ClassVar[tuple[str, ...]] = ("part",)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        if context.anchor is None:
            raise MissingError("anchor", "Proximal needs an anchor: use it in a local update that provides one")
        if context.spec is None and self.part != "all":
            raise MissingError(
                "spec", f"Proximal of the part {self.part!r} needs to know the parts: give the context a spec"
            )
        names = context.anchor if context.spec is None else context.spec.names_in(self.part)
        return self.mu * DISTANCES[self.distance]([(context.params[name], context.anchor[name]) for name in names])


def _half_square(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    return 0.5 * torch.stack([(own - anchor).square().sum() for own, anchor in pairs]).sum()


def _minus_cosine(pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    product = torch.stack([(own * anchor).sum() for own, anchor in pairs]).sum()
    squares = (torch.stack([one.square().sum() for one in end]).sum() for end in zip(*pairs, strict=True))
    own, anchor = (square.clamp(min=torch.finfo(square.dtype).tiny).sqrt() for square in squares)
    return -product / (own * anchor)


DISTANCES = {"square": _half_square, "cosine": _minus_cosine}
