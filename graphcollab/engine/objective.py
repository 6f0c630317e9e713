"""Objectives to minimize, written for one node and combined with ``+``."""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from graphcollab._base.errors import ContractError
from graphcollab._base.piece import Piece
from graphcollab._base.settings import Finite, check_setting
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import stacked_ops

Params = Mapping[str, Tensor]


@dataclass(frozen=True)
class Context:
    """Inputs of an objective besides outputs and targets, all of one node.

    Args:
        weight: Weight of every sample, [B], None: equal weights. It sums to one over the samples that count, or, if
            samples have their own weights, is scaled such that it does so on average over batches.
        params: The node's parameters by name.
        anchor: Parameters to stay close to, by name, if the objective needs them.
        latent: Latents of the samples, [B, d_z], if the objective needs them.
        projection: Projected latents, [B, d_p], likewise.
        given: The node's entries of the ``Data`` fields that the objective reads, by name, such as received class
            prototypes.
        views: V, if the batch consists of V augmented views of B / V samples, one view after another.
        spec: The node's architecture, which defines the parts.
    """

    weight: Tensor | None
    params: Params
    anchor: Params | None = None
    latent: Tensor | None = None
    projection: Tensor | None = None
    given: Params | None = None
    views: int = 1
    spec: ParamSpec | None = None

    def mean(self, per_sample: Tensor) -> Tensor:
        """Return the weighted average of a loss [B] over the samples that count."""
        return per_sample.mean() if self.weight is None else (per_sample * self.weight).sum()

    def tensors(self) -> dict[str, Tensor | dict[str, Tensor]]:
        """Return the tensors that are present, by field."""
        found = {name: getattr(self, name) for name in ("weight", "params", "anchor", "latent", "projection", "given")}
        return {name: dict(v) if isinstance(v, Mapping) else v for name, v in found.items() if v is not None}


@dataclass(frozen=True)
class Reads:
    """What an objective reads besides the outputs and targets of individual samples; a sum reads what its terms read.

    Args:
        anchor: ``context.anchor``.
        latents: ``context.latent`` or ``context.projection``, of models whose ``forward(inputs, embed=True)``
            returns `graphcollab._base.typing.Embedded`.
        whole: More than a mean over samples: parameters, the anchor, or comparisons of samples. The gradient of a split
            is then computed on all its samples at once, since a penalty must not be added once per part.
        alike: Batches of equal length, because it averages by itself, not with ``context.mean``. Nodes are then grouped
            by batch length; otherwise batches of unequal length are computed together, padded with samples of weight
            zero. Samples with weights are rejected.
        fields: Fields of the ``Data`` with one entry per node, passed as ``context.given`` by name.
        penalty: Parameters and the anchor, but no samples.
    """

    anchor: bool = False
    latents: bool = False
    whole: bool = False
    alike: bool = False
    fields: tuple[str, ...] = ()
    penalty: bool = False

    def __or__(self, other: Reads) -> Reads:
        anchor, latents = self.anchor or other.anchor, self.latents or other.latents
        whole, alike = self.whole or other.whole, self.alike or other.alike
        fields = tuple(dict.fromkeys(self.fields + other.fields))
        return Reads(anchor, latents, whole, alike, fields, self.penalty and other.penalty)


@dataclass(frozen=True)
class Objective(Piece, ABC):
    """A loss of one node: ``objective(outputs, targets, context) -> scalar``, independent of K.

    Objectives are combined with ``+``, and scaled by ``2.0 * objective``.
    """

    @property
    def reads(self) -> Reads:
        """What it reads besides individual samples. The default is right for penalties, and safe for all objectives."""
        return Reads(whole=True)

    @property
    def embeds(self) -> bool:  # type: ignore[override]
        """Whether it reads latents."""
        return self.reads.latents

    @property
    def additive(self) -> bool:
        """Whether it is a mean over samples, a penalty, or a sum of these, so that parts of a batch add up."""
        return self.reads.penalty or not (self.reads.whole or self.reads.alike)

    def of_samples(self) -> Objective | None:
        """Return it without its penalties, which must not be added once for every part of a batch."""
        return None if self.reads.penalty else self

    @abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the loss as a scalar."""

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the losses of many nodes at once, [R], by vmap over the loss of one, unless overridden.

        Outputs, targets and the context's contents are as for one node, with a leading dimension R.
        """

        def one(o: Tensor, t: Tensor, own: dict[str, Any]) -> Tensor:
            return self(o, t, Context(**{"weight": None, "views": context.views, "spec": context.spec, **own}))

        stacked: Callable[..., Tensor] = vmap(one, randomness="different")
        with stacked_ops():
            return stacked(outputs, targets, context.tensors())

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check, before training, that targets [N, ...] are compatible with outputs for a few samples, [B, ...].

        Raises:
            ValueError: If they are incompatible, as far as the objective can tell; the message names model and split.
        """

    def __add__(self, other: Objective) -> Objective:
        one, two = (of if isinstance(of, Sum) else Sum((of,), (1.0,)) for of in (self, other))
        return Sum(one.terms + two.terms, one.scales + two.scales)

    def __rmul__(self, scale: float) -> Objective:
        check_setting("scale", Finite, scale)
        return Sum((self,), (scale,))


@dataclass(frozen=True)
class Sum(Objective):
    """Weighted sum of objectives; it reads what any of them reads."""

    terms: tuple[Objective, ...]
    scales: tuple[Finite, ...]

    @cached_property
    def reads(self) -> Reads:
        return functools.reduce(operator.or_, (term.reads for term in self.terms))

    @property
    def additive(self) -> bool:
        return all(term.additive for term in self.terms)

    def of_samples(self) -> Objective | None:
        kept = [(term, scale) for term, scale in zip(self.terms, self.scales, strict=True) if not term.reads.penalty]
        return Sum(*zip(*kept, strict=True)) if kept else None

    def walk(self) -> Iterator[Piece]:
        yield self
        for term in self.terms:
            yield from term.walk()

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        for term in self.terms:
            term.check(outputs, targets, model, split)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self._add([term(outputs, targets, context) for term in self.terms])

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self._add([term.rows(outputs, targets, context) for term in self.terms])

    def _add(self, losses: Sequence[Tensor]) -> Tensor:
        scaled = (loss if scale == 1 else scale * loss for loss, scale in zip(losses, self.scales, strict=True))
        return functools.reduce(operator.add, scaled)


@dataclass(frozen=True)
class FirstView(Objective):
    """An objective applied to the first view only.

    Args:
        term: The objective.
    """

    term: Objective

    @property
    def reads(self) -> Reads:
        return self.term.reads

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        self.term.check(outputs, targets, model, split)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.term(*_first(outputs, targets, context, dim=0))

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.term.rows(*_first(outputs, targets, context, dim=1))


def _first(outputs: Tensor, targets: Tensor, context: Context, dim: int) -> tuple[Tensor, Tensor, Context]:
    """Return the part that belongs to the first view; samples are in dimension ``dim``."""
    count = outputs.shape[dim] // context.views

    def cut(values: Tensor | None) -> Any:
        return None if values is None else values.narrow(dim, 0, count)

    weight = None if context.weight is None else cut(context.weight) * context.views
    latent, projection = cut(context.latent), cut(context.projection)
    own = replace(context, weight=weight, latent=latent, projection=projection, views=1)
    return cut(outputs), cut(targets), own


def require_weighted(
    objective: Objective, outputs: Tensor | None = None, targets: Tensor | None = None, context: Context | None = None
) -> None:
    """Check that an objective supports sample weights: by its declaration and, given a batch of two, by a trial."""
    if objective.reads.alike:
        raise ContractError(
            "loss", f"samples have weights, and {objective!r} averages over them: use Loss(function, per_sample=True)"
        )
    if outputs is None or targets is None or context is None:
        return
    weight = (torch.arange(len(outputs), device=outputs.device) == 0).to(outputs.dtype)
    latent, projection = (None if of is None else of[:1] for of in (context.latent, context.projection))
    alone = replace(context, latent=latent, projection=projection)
    found = objective(outputs.clone(), targets.clone(), replace(context, weight=weight))
    if not torch.allclose(found, objective(outputs[:1].clone(), targets[:1].clone(), alone), rtol=1e-3, atol=1e-6):
        raise ContractError(
            "objective", f"samples have weights, and {objective!r} ignores them: average by context.mean"
        )
