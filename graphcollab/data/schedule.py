"""The batches of every local step (`Schedule`), and the number of local steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from graphcollab._base.keyed import keyed_bits

_BATCH_STREAM = 104
KEPT_BATCHES = 2**18  # maximum number of batches in a chunk whose layout is cached


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
    """Return the number of local steps of nodes with ``counts`` samples: ``steps``, or ``epochs`` passes over them."""
    per_epoch = (counts + batch_size - 1) // batch_size
    return torch.full_like(counts, steps) if steps is not None else per_epoch * epochs


def make_schedule(
    counts: Tensor, node_id: Tensor, seed: int, round_: int, batch_size: int, epochs: int = 1, steps: int | None = None
) -> Schedule:
    """Shuffle every node's samples for every pass and cut them into batches.

    The last batch of a pass may be short. The order is a function of (seed, node_id, round, pass) alone, independent of
    the other rows. S is the maximum number of steps over rows.

    Args:
        counts: Samples of every row's node, [R].
        node_id: Stable identity of every row's node, [R].
        steps: Number of local steps, instead of ``epochs`` passes over a node's samples.
    """
    batches = len(counts) * (steps or epochs * -(-int(counts.max()) // batch_size))
    cut = _cut if batches <= KEPT_BATCHES else _cut.__wrapped__
    own, size, start, turn, passes = cut(counts.long().numpy().tobytes(), batch_size, epochs, steps)
    most, longest = size.shape[1], int(counts.max())
    place = torch.arange(longest)
    # [R, passes, n]: random keys; positions beyond a node's samples sort last
    keys = keyed_bits(seed, _BATCH_STREAM, node_id[:, None, None], round_, torch.arange(passes)[:, None], place)
    if int(counts.min()) < longest:
        keys = keys.where(place < counts[:, None, None], torch.iinfo(torch.int64).max - longest + place)
    first = min(most * batch_size, longest)  # few steps use only the first samples, which need no full sort
    few = passes == 1 and 4 * first <= longest
    # Keys are unique, so any sort gives the same order; NumPy's takes a third of the time of PyTorch's
    order = keys.topk(first, dim=-1, largest=False).indices if few else torch.from_numpy(keys.numpy().argsort(-1))
    inside = (start[..., None] + place[:batch_size]).clamp(max=longest - 1)
    flat = inside.add_(turn[..., None] * longest)  # [R, S, B]
    return Schedule(order.flatten(1).gather(1, flat.flatten(1)).view_as(flat), size, own)


@lru_cache(maxsize=8)  # for the chunks of a round
def _cut(counts: bytes, batch_size: int, epochs: int, steps: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Return the steps of every row, [R], each batch's size, start and pass, [R, S] each, and the number of passes."""
    own = torch.frombuffer(bytearray(counts), dtype=torch.int64)
    total = local_steps(own, batch_size, epochs, steps)
    per_epoch = (own + batch_size - 1) // batch_size
    most, longest = int(total.max()), int(own.max())
    passes = -(-most // int(per_epoch.min())) if steps is not None else epochs
    step = torch.arange(most)
    start = (step % per_epoch[:, None]) * batch_size
    size = (own[:, None] - start).clamp(max=min(batch_size, longest)).masked_fill(step >= total[:, None], 0)
    return total, size, start, (step // per_epoch[:, None]).clamp(max=passes - 1), passes
