"""The loss and the metric of next tokens, both over tokens and not over blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.engine import Loss
from graphcollab.errors import ConflictError, InvalidValueError, ShapeError
from graphcollab.metrics import Metric
from graphcollab.metrics.metric import row_mean


def _of_block(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the losses of blocks [B], which is what language models put out; targets [B] play no part."""
    return outputs


def _refuse(outputs: Tensor, targets: Tensor, model: str, split: str) -> None:
    if outputs.dim() != 1:
        raise ShapeError(
            "outputs",
            f"token_loss needs the loss of every block, [B], as a LanguageModel has it, and {model} returns outputs "
            f"of shape {list(outputs.shape)}: make the model by graphcollab.llm.build_lora",
        )
    if bool(outputs.isnan().any()):
        raise InvalidValueError(
            f"split {split!r}",
            f"{model} has no loss for blocks of split {split!r}: a token follows padding (-1 is for the end of a "
            "block), or the model puts out NaN",
        )


def _refuse_metric(name: str) -> None:
    if name != "mae":  # which of targets that are zeros is the loss itself
        raise ConflictError(
            "metric",
            f"metric={name!r} compares outputs with targets, and with token_loss outputs are losses of blocks: give "
            "metric=graphcollab.llm.perplexity",
        )


token_loss = Loss(_of_block, per_sample=True, refuse=_refuse, refuse_metric=_refuse_metric)
r"""Mean negative log-likelihood of the predicted tokens, in nats per token.

A `LanguageModel` puts out the mean of every block, and blocks weigh what they have of predicted tokens, so that the
mean over blocks is one over tokens: :math:`\sum_b n_b \ell_b / \sum_b n_b`.
"""


def _perplexity(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    return torch.exp(row_mean(outputs, weight))


perplexity = Metric("perplexity", False, _perplexity, weighted=True)
"""exp of the mean negative log-likelihood per token. It depends on the tokenizer, so compare models of one only."""
