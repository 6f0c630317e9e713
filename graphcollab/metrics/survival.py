"""Metrics of the risk of events, of times that may be censored."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.errors import ShapeError
from graphcollab.metrics.metric import Metric

_MOST = 2**22  # pairs at once


def _concordance(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    if targets.dim() != 3 or targets.shape[2] != 2 or outputs[0:, :, None].flatten(2).shape[2] != 1:
        raise ShapeError(
            "targets",
            "concordance: outputs must be one score a sample, [R, n] or [R, n, 1], and targets its time and whether "
            f"the event was seen, [R, n, 2], got {list(outputs.shape)} and {list(targets.shape)}",
        )
    scores = outputs.double().reshape(mask.shape)
    time, event = targets.double().where(mask[:, :, None], 0.0).unbind(2)  # [R, n]
    won, pairs = (torch.zeros(len(mask), dtype=torch.float64, device=outputs.device) for _ in range(2))
    for some in torch.arange(mask.shape[1]).split(max(1, _MOST // max(mask.numel(), 1))):
        first, seen, score, own = (values[:, some, None] for values in (time, event, scores, weight))
        later = (first < time[:, None]) | ((first == time[:, None]) & (event[:, None] == 0))  # [R, some, n]
        counts = (later & (seen > 0)) * own * weight[:, None]
        above = (score > scores[:, None]) + 0.5 * (score == scores[:, None])
        won, pairs = won + (counts * above).sum((1, 2)), pairs + counts.sum((1, 2))
    return (won / pairs).masked_fill((scores.isnan() & mask).any(1), torch.nan)


concordance = Metric(
    "concordance",
    True,
    _concordance,
    undefined="it needs an event before the time of another sample",
    weighted=True,
    is_share=True,
    only_with="cox",
)
r"""Harrell's C: how often, of two samples of which it is known whose event came first, that one has the higher score.

Pairs are those in which the earlier time is that of an event, and of equal times those of which one is no event. Equal
scores count one half, so that 0.5 is chance. The value is NaN for a node without such pairs, or with a score that is
NaN.

Outputs are scores [R, n] or [R, n, 1], larger ones of earlier events. Targets [R, n, 2] are times, and 1 where the
event was seen then, or 0 where it had not been.
"""
