"""A warning of samples for testing or validation that are for training, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphcollab.checks import issue
from graphcollab.keyed import keyed_bits
from graphcollab.naming import few
from graphcollab.tasks.samples import Pool, Split

__all__ = ["warn_of_repeated_samples", "warn_of_repeats"]

_REPEATED, _SHARE = 5, 0.05  # samples for testing that are for training: at least, and of all
_DIFFERENT, _APART = 20, 0.95  # different samples, and how many of them differ in half of the numbers already
_USE = {"test": "testing", "val": "validation"}
_STREAM, _AT_ONCE = 127, 2**22  # numbers that are hashed at once


def warn_of_repeated_samples(pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str]) -> None:
    """Warn as `warn_of_repeats` does, of arrays as nodes give them."""
    if len(splits) < 2 or pools[splits["train"].pool].inputs[:1].numel() < 2:
        return
    hashed = {name: _hashes(pools[name]) for name in {split.pool for split in splits.values()}}  # [3, N]
    hashes = {name: hashed[split.pool][:, split.index] for name, split in splits.items()}
    nodes = torch.arange(len(names))
    owners = {name: nodes.repeat_interleave(split.sizes) for name, split in splits.items()}
    cure = "drop samples that are there twice, or keep them together by group= of Tasks.from_arrays"
    warn_of_repeats(hashes, owners, names, "node", cure)


def warn_of_repeats(
    hashes: Mapping[str, Tensor], owners: Mapping[str, Tensor], names: Sequence[str], what: str, cure: str
) -> None:
    """Warn where many samples for testing have the inputs and the target of samples for training, of whatever node.

    Where nobody has samples for testing, those for validation are looked at.

    Not where that may be chance: different samples must nearly all differ in half of their numbers already, every
    second one, so that those equal in all are hardly different ones. All samples are counted, whatever split they are
    in, so that many draws are warned of once.

    Args:
        hashes: Hashes of either half of the inputs, and of all with the target, by split, [3, N] each.
        owners: Nodes of these samples, [N] each.
        names: Names of the nodes.
        what: What nodes are called.
        cure: What to do about it.
    """
    held = "test" if "test" in hashes else "val"
    again = torch.isin(hashes[held][2], hashes["train"][2])
    if int(again.sum()) < max(_REPEATED, _SHARE * len(again)):
        return
    every, owner = torch.cat([*hashes.values()], 1), torch.cat([*owners.values()])
    different, place, counts = every[2].unique(return_inverse=True, return_counts=True)
    first = torch.empty_like(different).index_copy_(0, place, torch.arange(len(place)))
    apart = max(len(half.unique()) for half in every[:2, first])
    if len(different) < _DIFFERENT or apart < _APART * len(different):
        return
    twice = counts[place] > 1
    by_node = owner[twice].bincount(minlength=len(names))
    where = few([f"{names[k]!r} {int(by_node[k])}" for k in by_node.nonzero().flatten().tolist()])
    issue(
        "quality",
        "splits",
        f"{int(twice.sum())} of {len(place)} rows have the inputs and the target of another one ({what} {where}), and "
        f"rows for {_USE[held]} are there for training, too, so models are tested on what they know: {cure}",
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
