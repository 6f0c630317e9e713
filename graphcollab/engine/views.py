"""Augmented views of the samples of local steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from graphcollab.piece import Piece
from graphcollab.settings import Count

__all__ = ["Augment", "Views"]

Augment: TypeAlias = Callable[[Tensor], Tensor]
"""Takes samples [n, ...] to changed ones of the same shape, drawn for every sample from PyTorch's global generator."""


@dataclass(frozen=True)
class Views(Piece):
    """Several augmented views of every sample, as contrastive losses need.

    Samples of a few local steps of a node go through ``augment`` together, all views in one call, with PyTorch's global
    generator seeded by (seed, ``node_id``, round, first step) and put back afterwards. So they do not depend on chunk,
    backend or the order of nodes.

    Args:
        augment: Any function of samples [n, ...] that returns as many of the same shape, such as
            `graphcollab.engine.ImageAugment` or `graphcollab.engine.AddNoise`. None: samples stay as they are.
        count: Views V of every sample. A batch of B samples then has V B, one view behind the other, and as many
            targets.

    Example:
        >>> Views(count=2)(torch.tensor([[1.0], [2.0]])).flatten().tolist()
        [1.0, 2.0, 1.0, 2.0]
    """

    augment: Augment | None = None
    count: Count = 2

    def __call__(self, samples: Tensor) -> Tensor:
        """Return the views of samples [n, ...], [V, n, ...].

        Raises:
            ValueError: If the augmentation changes the samples' shape.
        """
        many = torch.cat([samples] * self.count)
        if self.augment is None:
            return many.unflatten(0, (self.count, -1))
        with torch.no_grad():
            changed = self.augment(many)
        if not isinstance(changed, Tensor) or changed.shape != many.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
            raise ValueError(f"augment must keep the shape of samples, {tuple(many.shape)}, it returned {got}")
        return changed.to(many.dtype).unflatten(0, (self.count, -1))
