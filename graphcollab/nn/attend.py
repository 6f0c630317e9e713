"""Attention over edges, with what own models get."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter, softmax


def attend(
    logit: Tensor, receiver: Tensor, own: Tensor, num_nodes: int, in_use: Tensor | None = None, level: bool = False
) -> Tensor:
    """Return the softmax of logits over every receiver's edges, [E].

    Args:
        logit: One number per edge, [E].
        receiver: Receivers, [E].
        own: Which edges lead from a node to itself, [E].
        num_nodes: Number of receivers.
        in_use: Which edges are in use, [E]; others weigh nothing. Default: all.
        level: Let every own model's logit be the largest of the others'. Who hears nobody keeps all weight.
    """
    low = torch.finfo(logit.dtype).min
    if in_use is not None:
        logit = logit.masked_fill(~in_use, low)
    if level:
        best = scatter(logit.masked_fill(own, low), receiver, dim_size=num_nodes, reduce="max")
        logit = torch.where(own, best.masked_fill(best == low, 0).index_select(0, receiver), logit)
    return softmax(logit, receiver, num_nodes=num_nodes)


def raise_own(weight: Tensor, receiver: Tensor, own: Tensor, least: Tensor) -> Tensor:
    """Return weights [E] of which every own model's is at least as large as said, [num_nodes], at all others' cost."""
    have = scatter(weight.masked_fill(~own, 0), receiver, dim_size=len(least))
    lack = ((least - have) / (1 - have).clamp(min=torch.finfo(weight.dtype).eps)).clamp(min=0)
    return weight + lack.index_select(0, receiver) * (own.to(weight.dtype) - weight)
