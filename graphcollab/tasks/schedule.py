"""Which samples are met when (`Schedule`), and in how many local steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab.keyed import keyed_bits

__all__ = ["Schedule", "local_steps", "make_schedule"]

_BATCH_STREAM = 104


@dataclass(frozen=True)
class Schedule:
    """Batches of R rows over S local steps, drawn by index and keyed by (seed, node, round).

    Args:
        position: Sample of the node's split, [R, S, B]; where a batch is shorter than B the last entries repeat.
        size: Length of every batch, [R, S]; 0 where the row has no such step.
        steps: Local steps of every row, [R].
    """

    position: Tensor
    size: Tensor
    steps: Tensor

    def __len__(self) -> int:
        return self.position.shape[1]


def local_steps(counts: Tensor, batch_size: int, epochs: int = 1, steps: int | None = None) -> Tensor:
    """Return the numbers of local steps of nodes with ``counts`` samples: ``steps``, or ``epochs`` passes over them."""
    per_epoch = (counts + batch_size - 1) // batch_size
    return torch.full_like(counts, steps) if steps is not None else per_epoch * epochs


def make_schedule(
    counts: Tensor, node_id: Tensor, seed: int, round_: int, batch_size: int, epochs: int = 1, steps: int | None = None
) -> Schedule:
    """Shuffle every node's samples anew for every pass and cut them into batches.

    The last batch of a pass may be short. The order is a function of (seed, node_id, round, pass) alone: it does not
    depend on which other rows are drawn. S is the most steps of any row.

    Args:
        counts: Samples of every row's node, [R].
        node_id: Stable identity of every row's node, [R].
        seed: Seed of the run.
        round_: Round.
        batch_size: B.
        epochs: Passes over a node's samples.
        steps: Number of local steps, instead of ``epochs``.
    """
    total = local_steps(counts, batch_size, epochs, steps)
    per_epoch = (counts + batch_size - 1) // batch_size
    most, longest = int(total.max()), int(counts.max())
    passes = -(-most // int(per_epoch.min())) if steps is not None else epochs
    device = counts.device
    place = torch.arange(longest, device=device)
    # [R, passes, n]: random keys; places beyond a node's samples sort last
    keys = keyed_bits(
        seed, _BATCH_STREAM, node_id[:, None, None], round_, torch.arange(passes, device=device)[:, None], place
    )
    keys = keys.masked_fill(place >= counts[:, None, None], torch.iinfo(torch.int64).max)
    first = min(most * batch_size, longest)  # of few steps only the first samples are met, which need no whole sort
    few = passes == 1 and 4 * first <= longest
    order = keys.topk(first, dim=-1, largest=False).indices if few else keys.argsort(dim=-1, stable=True)
    step = torch.arange(most, device=device)
    start = (step % per_epoch[:, None]) * batch_size  # [R, S]
    width = min(batch_size, longest)
    size = (counts[:, None] - start).clamp(max=width).masked_fill(step >= total[:, None], 0)
    inside = (start[..., None] + torch.arange(width, device=device)).clamp(max=longest - 1)
    flat = (step // per_epoch[:, None]).clamp(max=passes - 1)[..., None] * longest + inside  # [R, S, B]
    position = order.flatten(1).gather(1, flat.flatten(1)).view_as(flat)
    return Schedule(position, size, total)
