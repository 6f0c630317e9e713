"""What a node minimizes: objectives written for one node, which add with ``+``."""

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
    """What an objective may read besides outputs and targets, all of one node.

    Args:
        weight: What every sample counts, [B], None: all count equally. It sums to one over the samples that count, or,
            where samples have weights of their own, is on average what makes such sums over batches.
        params: The node's parameters by name.
        anchor: Parameters to stay close to, by name, where the objective asks for them.
        latent: Latents of the samples, [B, d_z], where the objective asks for them.
        projection: Projected latents, [B, d_p], likewise.
        given: The node's entries of the fields of the ``Data`` that the objective reads, by name, such as class
            prototypes that were received.
        views: V, where the batch is V augmented views of B / V samples, one view behind the other.
        spec: The node's architecture, which says what belongs to which part.
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
        """Average a loss [B] over the samples that count, each times its weight."""
        return per_sample.mean() if self.weight is None else (per_sample * self.weight).sum()

    def tensors(self) -> dict[str, Tensor | dict[str, Tensor]]:
        """Return what there is of tensors, by field."""
        found = {name: getattr(self, name) for name in ("weight", "params", "anchor", "latent", "projection", "given")}
        return {name: dict(v) if isinstance(v, Mapping) else v for name, v in found.items() if v is not None}


@dataclass(frozen=True)
class Reads:
    """What an objective reads besides the outputs and targets of samples one by one; a sum reads what its terms do.

    Args:
        anchor: ``context.anchor``.
        latents: ``context.latent`` or ``context.projection``, which models have whose ``forward(inputs, embed=True)``
            returns `graphcollab._base.typing.Embedded`.
        whole: More than a mean over samples: parameters, the anchor, or samples beside each other. The gradient of a
            split is computed on all its samples at once then, since a penalty must not be added once for every few.
        alike: Batches of one length: it averages by itself, not with ``context.mean``. Nodes are grouped by batch
            length then; otherwise batches of unequal length are computed together, padded with samples of weight zero.
            Samples that have weights are refused.
        fields: Fields of the ``Data`` with an entry per node, which are given to it as ``context.given`` by name.
        penalty: Parameters and the anchor, and no samples at all.
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
    """A loss of one node: ``objective(outputs, targets, context) -> scalar``. It knows nothing of K.

    Objectives add with ``+``, and are scaled by ``2.0 * objective``.
    """

    @property
    def reads(self) -> Reads:
        """What it reads besides samples one by one. The default is right for penalties, and safe for all."""
        return Reads(whole=True)

    @property
    def embeds(self) -> bool:  # type: ignore[override]
        """Whether it reads latents."""
        return self.reads.latents

    @property
    def additive(self) -> bool:
        """Whether it is a mean over samples, or a penalty, or a sum of such: what parts of a batch add up to."""
        return self.reads.penalty or not (self.reads.whole or self.reads.alike)

    def of_samples(self) -> Objective | None:
        """Return it without its penalties, which must not be added once for every part of a batch."""
        return None if self.reads.penalty else self

    @abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the loss as a scalar."""

    def rows(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return the losses of many nodes at once, [R]: vmap over the loss of one, unless a subclass knows better.

        Outputs, targets and what the context holds are as for one node, with a leading dimension R.
        """

        def one(o: Tensor, t: Tensor, own: dict[str, Any]) -> Tensor:
            return self(o, t, Context(**{"weight": None, "views": context.views, "spec": context.spec, **own}))

        stacked: Callable[..., Tensor] = vmap(one, randomness="different")
        with stacked_ops():
            return stacked(outputs, targets, context.tensors())

    def check(self, outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
        """Check, before training, that targets [N, ...] can be judged against outputs for a few samples, [B, ...].

        Raises:
            ValueError: If they do not fit, as far as the objective can tell; it names the model and the split.
        """

    def __add__(self, other: Objective) -> Objective:
        one, two = (of if isinstance(of, Sum) else Sum((of,), (1.0,)) for of in (self, other))
        return Sum(one.terms + two.terms, one.scales + two.scales)

    def __rmul__(self, scale: float) -> Objective:
        check_setting("scale", Finite, scale)
        return Sum((self,), (scale,))


@dataclass(frozen=True)
class Sum(Objective):
    """Sum of objectives, each times a number; it reads what any of them reads."""

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
    """An objective of the first view only.

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
    """Return what belongs to the first view; samples are counted in dimension ``dim``."""
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
    """Check that an objective heeds the weights of samples: by what it says and, given a batch of two, by a trial."""
    if objective.reads.alike:
        raise ContractError(
            "loss",
            f"the samples have weights, and {objective!r} averages over them by itself: give a function that returns "
            "the loss of every sample, [B], as graphcollab.engine.Loss(function, per_sample=True), or a loss by name",
        )
    if outputs is None or targets is None or context is None:
        return
    weight = (torch.arange(len(outputs), device=outputs.device) == 0).to(outputs.dtype)
    latent, projection = (None if of is None else of[:1] for of in (context.latent, context.projection))
    alone = replace(context, latent=latent, projection=projection)
    found = objective(outputs.clone(), targets.clone(), replace(context, weight=weight))
    if not torch.allclose(found, objective(outputs[:1].clone(), targets[:1].clone(), alone), rtol=1e-3, atol=1e-6):
        raise ContractError(
            "objective",
            f"the samples have weights, and {objective!r} does not heed them: average by context.mean(loss of every "
            "sample), and leave out samples for which context.weight is 0",
        )
