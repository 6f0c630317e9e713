"""Which classes nodes have in common."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.settings import checked

__all__ = ["class_overlap"]


@checked
def class_overlap(classes: Tensor) -> Tensor:
    """Return which share of a receiver's classes a sender has too, for every ordered pair of nodes.

    It is what Fig. 4 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ shows beside
    the learned weights. The paper does not say what the share is of; where all nodes have equally many classes, as
    there, it is the same for both nodes of a pair.

    Args:
        classes: Which classes each node has, such as ``tasks.classes``.

    Shapes:
        classes: [K, C], bool.
        Output: [K, K], float64: receivers in rows, senders in columns; NaN in the rows of nodes without classes.

    Raises:
        ValueError: If classes are not bool of shape [K, C].

    Example:
        >>> class_overlap(torch.tensor([[1, 1, 1, 1], [0, 0, 0, 1]]).bool()).tolist()
        [[1.0, 0.25], [1.0, 1.0]]
    """
    if classes.dim() != 2 or classes.dtype != torch.bool:
        raise ValueError(f"classes must be bool of shape [K, C], got {classes.dtype} of {list(classes.shape)}")
    has = classes.double()
    return (has @ has.t()).round() / has.sum(1, keepdim=True)
