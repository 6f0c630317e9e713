"""Loss and metric of next-token prediction, both per token rather than per block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphcollab._base.errors import ConflictError, InvalidValueError, MissingError, ShapeError
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.metric import row_mean
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Loss


def _of_block(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the losses of blocks, [B], which language models output; targets, [B], are ignored."""
    return outputs


def _refuse(outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
    if outputs.dim() != 1:
        raise ShapeError(
            "outputs",
            f"token_loss expects losses of blocks, [B], got {list(outputs.shape)} of {model}: give a LanguageModel",
        )
    if bool(outputs.isnan().any()):
        raise InvalidValueError(
            f"split {split!r}",
            f"{model} has no loss for blocks of split {split!r}: a token follows padding (-1), or outputs are NaN",
        )


def _refuse_metric(name: str) -> None:
    if name != "mae":  # since targets are zeros, this is the loss itself
        raise ConflictError(
            "metric", f"with token_loss outputs are losses, got metric={name!r}: give metric=graphcollab.llm.perplexity"
        )


token_loss = Loss(_of_block, per_sample=True, refuse=_refuse, refuse_metric=_refuse_metric)
r"""Mean negative log-likelihood of the predicted tokens, in nats per token.

A `LanguageModel` returns the mean of every block, and blocks are weighted by their numbers of predicted tokens, so the
mean over blocks is a mean over tokens: :math:`\sum_b n_b \ell_b / \sum_b n_b`.
"""


def _perplexity(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    return torch.exp(row_mean(outputs, weight))


perplexity = Metric("perplexity", False, _perplexity, weighted=True)
"""exp of the mean negative log-likelihood per token. It depends on the tokenizer: compare models that share one."""


PADDING = -1
"""Padding value in place of a token."""


def blocks_of(stream: Sequence[int], context: int) -> Tensor:
    """Cut T + 1 tokens into blocks of L predicted tokens and their predecessor, [ceil(T / L), L + 1], padded with -1.

    The last token of a block is the first of the next, so each token but the first is predicted once.
    """
    count = -(-(len(stream) - 1) // context)
    whole = torch.full((count * context + 1,), PADDING)
    whole[: len(stream)] = torch.tensor(stream)
    return whole.unfold(0, context + 1, context).clone()


def count_predicted(blocks: Tensor) -> Tensor:
    """Return the number of predicted tokens, [n] float64, of every block, [n, L + 1]."""
    return (blocks[:, 1:] >= 0).sum(1).double()


def require_tokens(tasks: Tasks) -> None:
    """Check that tasks are judged per token: the loss is over tokens, and blocks of unequal counts have weights."""
    if isinstance(tasks.loss, str):
        raise ConflictError(
            "loss", f"outputs are losses of blocks, got loss={tasks.loss!r}: give loss=graphcollab.llm.token_loss"
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
                "weights: give weight=(x[:, 1:] >= 0).sum(1)",
            )
