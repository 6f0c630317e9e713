"""A warning of samples for testing that are for training, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphcollab.checks import warn
from graphcollab.keyed import keyed_bits
from graphcollab.naming import few
from graphcollab.tasks.samples import Pool, Split

__all__ = ["warn_of_repeated_samples", "warn_of_repeats"]

_REPEATED, _SHARE = 5, 0.05  # samples for testing that are for training: at least, and of all
_DIFFERENT, _APART = 20, 0.95  # different samples, and how many of them differ in half of the numbers already
_STREAM, _AT_ONCE = 127, 2**22  # numbers that are hashed at once


def warn_of_repeated_samples(pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str]) -> None:
    """Warn as `warn_of_repeats` does, of arrays as nodes give them."""
    if "test" not in splits or pools[splits["train"].pool].inputs[:1].numel() < 2:
        return
    hashed = {name: _hashes(pools[name]) for name in {splits["train"].pool, splits["test"].pool}}  # [3, N]
    train, test = (hashed[split.pool][:, split.index] for split in (splits["train"], splits["test"]))
    owner = torch.repeat_interleave(torch.arange(len(names)), splits["test"].sizes)
    cure = "drop samples that are there twice, or keep them together by group= of Tasks.from_arrays"
    warn_of_repeats(train, test, owner, names, "node", cure)


def warn_of_repeats(train: Tensor, test: Tensor, owner: Tensor, names: Sequence[str], what: str, cure: str) -> None:
    """Warn where many samples for testing have the inputs and the target of samples for training, of whatever node.

    Not where that may be chance: different samples must nearly all differ in half of their numbers already, every
    second one, so that those equal in all are hardly different ones.

    Args:
        train: Hashes of either half of the inputs, and of all with the target, of samples for training [3, N].
        test: The same of those for testing, [3, M].
        owner: Nodes of those for testing, [M].
        names: Names of the nodes.
        what: What nodes are called.
        cure: What to do about it.
    """
    again = torch.isin(test[2], train[2])
    if int(again.sum()) < max(_REPEATED, _SHARE * len(again)):
        return
    different, place = torch.cat([train[2], test[2]]).unique(return_inverse=True)
    first = torch.empty_like(different).index_copy_(0, place, torch.arange(len(place)))
    apart = max(len(half.unique()) for half in torch.cat([train, test], 1)[:2, first])
    if len(different) < _DIFFERENT or apart < _APART * len(different):
        return
    counts = owner[again].bincount(minlength=len(names))
    where = few([f"{names[k]!r} {int(counts[k])}" for k in counts.nonzero().flatten().tolist()])
    warn(
        f"{int(again.sum())} of {len(again)} rows for testing are there for training, too, with the same inputs and "
        f"target ({what} {where}), so models are tested on what they know: {cure}",
        UserWarning,
    )


def _hashes(pool: Pool) -> Tensor:
    """Return hashes of the samples' even and odd inputs, and of all inputs with the target, [3, N]."""
    x, y = pool.inputs.cpu().flatten(1), pool.targets.cpu().reshape(len(pool), -1)
    even, odd = _hash(x[:, ::2], 0), _hash(x[:, 1::2], 1)
    return torch.stack([even, odd, even + odd + _hash(y, 2)])


def _hash(values: Tensor, key: int) -> Tensor:
    """Return sums of the bits [N, D] of every row times random odd numbers, modulo 2^64, [N]."""
    factor = keyed_bits(key, _STREAM, torch.arange(values.shape[1])) | 1
    parts = values.split(max(_AT_ONCE // max(values.shape[1], 1), 1))
    return torch.cat([(_bits(part) * factor).sum(1) for part in parts])


def _bits(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.long()
    kind = torch.int32 if values.dtype == torch.float32 else torch.int64
    return (values + 0.0).contiguous().view(kind).long()  # -0.0 is 0.0
