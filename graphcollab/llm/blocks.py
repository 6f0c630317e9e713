"""Streams of tokens, cut into blocks of one length, and what blocks that were made elsewhere must be like."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphcollab.errors import ConflictError, MissingError
from graphcollab.tasks import Tasks

PADDING = -1
"""What stands in the place of a token where there is none."""


def blocks_of(stream: Sequence[int], context: int) -> Tensor:
    """Cut T + 1 tokens into blocks of L predicted tokens and the one before them, [ceil(T / L), L + 1], padded with -1.

    The last token of a block is the first of the next, so each token but the first is predicted once.
    """
    count = -(-(len(stream) - 1) // context)
    whole = torch.full((count * context + 1,), PADDING)
    whole[: len(stream)] = torch.tensor(stream)
    return whole.unfold(0, context + 1, context).clone()


def count_predicted(blocks: Tensor) -> Tensor:
    """Return how many tokens of every block [n, L + 1] are predicted, [n], float64."""
    return (blocks[:, 1:] >= 0).sum(1).double()


def require_tokens(tasks: Tasks) -> None:
    """Check that tasks are of blocks of tokens: the loss is over tokens, and blocks of unequal numbers have weights."""
    if isinstance(tasks.loss, str):
        raise ConflictError(
            "loss",
            f"loss={tasks.loss!r} compares outputs with targets, and what a model for next tokens puts out are losses "
            "of blocks: give loss=graphcollab.llm.token_loss and metric=graphcollab.llm.perplexity",
        )
    for name, split in tasks.splits.items():
        pool = tasks.pools[split.pool]
        blocks = pool.inputs[split.here.to(pool.inputs.device)]
        if blocks.dim() != 2 or not len(blocks):
            continue
        counts = count_predicted(blocks)
        if pool.weight is None and bool((counts != counts[0]).any()):
            raise MissingError(
                "weight",
                f"blocks of split {name!r} have {int(counts.min())} to {int(counts.max())} predicted tokens and no "
                "weights, so losses would be means over blocks, not over tokens: give weight=(x[:, 1:] >= 0).sum(1), "
                "or weight=torch.ones(len(x)) if that is meant",
            )
