"""What models that can be split return."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["Embedded"]


class Embedded(NamedTuple):
    """What a model that can be split returns for ``forward(inputs, embed=True)``.

    Args:
        logits: Outputs of the head, [B, C].
        latent: Outputs of the backbone, which the head reads, [B, d_z].
        projection: Projected latents, which contrastive losses compare, [B, d_p].
    """

    logits: Tensor
    latent: Tensor
    projection: Tensor
