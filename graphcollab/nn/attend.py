"""Attention over edges whose own models may be raised."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter, softmax

__all__ = ["attend"]


def attend(
    logit: Tensor, receiver: Tensor, own: Tensor, num_nodes: int, in_use: Tensor | None = None, raised: bool = False
) -> Tensor:
    """Return the softmax of logits over every receiver's edges, [E].

    Args:
        logit: One number per edge, [E].
        receiver: Receivers, [E].
        own: Which edges lead from a node to itself, [E].
        num_nodes: Number of receivers.
        in_use: Which edges are in use, [E]; others weigh nothing. Default: all.
        raised: Let every own model's logit be the largest of the others'. Who hears nobody keeps all weight.
    """
    low = torch.finfo(logit.dtype).min
    if in_use is not None:
        logit = logit.masked_fill(~in_use, low)
    if raised:
        best = scatter(logit.masked_fill(own, low), receiver, dim_size=num_nodes, reduce="max")
        logit = torch.where(own, best.masked_fill(best == low, 0)[receiver], logit)
    return softmax(logit, receiver, num_nodes=num_nodes)
