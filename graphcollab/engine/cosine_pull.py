"""`CosinePull`: stay in the direction of the anchor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from graphcollab.engine.objective import Context, Objective, Reads
from graphcollab.settings import Real

__all__ = ["CosinePull"]


@dataclass(frozen=True)
class CosinePull(Objective):
    r"""Minus the cosine of the parameters with the anchor, times ``mu``: :math:`-\mu \cos(\theta, \text{anchor})`.

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
