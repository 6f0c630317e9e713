"""Streams of tokens, cut into blocks of one length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphcollab.llm.language_model import PADDING

__all__ = ["blocks_of", "count_predicted"]


def blocks_of(stream: Sequence[int], context: int) -> Tensor:
    """Cut a stream of T + 1 tokens into blocks of L predicted tokens and the one before them, [ceil(T / L), L + 1].

    The last token of a block is the first of the next, so each token but the first is predicted once. What is missing
    in the last block is -1.

    Example:
        >>> blocks_of([5, 6, 7, 8, 9, 4], 3)
        tensor([[ 5,  6,  7,  8],
                [ 8,  9,  4, -1]])
    """
    count = -(-(len(stream) - 1) // context)
    whole = torch.full((count * context + 1,), PADDING)
    whole[: len(stream)] = torch.tensor(stream)
    return whole.unfold(0, context + 1, context).clone()


def count_predicted(blocks: Tensor) -> Tensor:
    """Return how many tokens of every block [n, L + 1] are predicted, [n], float64."""
    return (blocks[:, 1:] >= 0).sum(1).double()
