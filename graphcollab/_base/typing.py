"""`Embedded`: what models that can be split return."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["Embedded"]


class Embedded(NamedTuple):
    """What ``forward(inputs, embed=True)`` returns: the head's logits [B, C], of the backbone's latent [B, d_z].

    Contrastive losses compare the projection, [B, d_p].
    """

    logits: Tensor
    latent: Tensor
    projection: Tensor
