"""`Embedded`: the output of models that can be split."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Embedded(NamedTuple):
    """Output of ``forward(inputs, embed=True)``: the head's logits, [B, C], for the backbone's latent, [B, d_z].

    Contrastive losses compare the projection, [B, d_p].
    """

    logits: Tensor
    latent: Tensor
    projection: Tensor
