"""Findings about samples of tables and arrays: rows in two splits, inputs of other scales, sites with one class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from graphcollab._base.findings import Finding
from graphcollab._base.keyed import keyed_bits
from graphcollab._base.naming import few, setting
from graphcollab.data.samples import Pool, Split

_USE = {"test": "testing", "val": "validation"}


def of_repeats(
    pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str], what: str = "node"
) -> list[Finding]:
    """Return the finding that a twentieth of the test samples, or else validation samples, also occur in training.

    Nearly all distinct samples must already differ in every second number, so that equal samples are no coincidence.
    Samples of all splits are counted, so that the warning is the same for every random split.
    """
    held = next((name for name in ("test", "val") if name in splits), None)
    if held is None or not pools[splits["train"].pool].inputs[:1].numel():
        return []
    by_pool = {name: _sample_hashes(pools[name]) for name in {split.pool for split in splits.values()}}  # [3, N]
    hashes = {name: by_pool[split.pool][:, split.index] for name, split in splits.items()}
    again = torch.isin(hashes[held][2], hashes["train"][2])
    if int(again.sum()) < max(5, 0.05 * len(again)):
        return []
    every = torch.cat([*hashes.values()], 1)
    different, place, counts = every[2].unique(return_inverse=True, return_counts=True)
    first = torch.empty_like(different).index_copy_(0, place, torch.arange(len(place)))
    distinct = max(len(half.unique()) for half in every[:2, first])
    if len(different) < 20 or distinct < 0.95 * len(different):
        return []
    twice = counts[place] > 1
    owner = torch.cat([split.owner for split in splits.values()])
    by_node = owner[twice].bincount(minlength=len(names))
    where = few([f"{names[k]!r} {int(by_node[k])}" for k in by_node.nonzero().flatten().tolist()])
    drop = "drop those that are there twice, in pandas by frame.drop_duplicates(), or keep them together by "
    message = (
        f"{int(twice.sum())} of {len(twice)} rows have the inputs and the target of another one ({what} {where}), and "
        f"rows for {_USE[held]} are there for training, too, so models are tested on what they know: {drop}"
        f"{setting(group=...)}"
    )
    return [Finding("repeated-rows", "splits", message, {"rows": int(twice.sum()), "of": len(twice)})]


def _sample_hashes(pool: Pool) -> Tensor:
    """Return hashes of the samples' even and odd inputs, and of all inputs with the target, [3, N]."""
    x, y = pool.inputs.cpu().flatten(1), pool.targets.cpu()[:, None].flatten(1)
    even, odd = hashed(x[:, ::2]), hashed(x[:, 1::2], 1)
    return torch.stack([even, odd, even + odd + hashed(y, 2)])


def hashed(values: Tensor, key: int = 0) -> Tensor:
    """Return the sum of every row's bits [N, D] times random odd numbers, modulo 2^64, [N]."""
    factor = keyed_bits(key, 127, torch.arange(values.shape[1])) | 1
    parts = values.split(max(2**22 // max(values.shape[1], 1), 1))
    return torch.cat([(_bits(part) * factor).sum(1) for part in parts])


def _bits(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.long()
    kind = torch.int32 if values.dtype == torch.float32 else torch.int64
    return (values + 0.0).contiguous().view(kind).long()  # converts -0.0 to 0.0


def of_scales(pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str]) -> list[Finding]:
    """Return the finding that a node's images or series in a split are 50 times larger or smaller than usual."""
    if not all(pool.inputs.is_floating_point() and pool.inputs.dim() > 2 for pool in pools.values()):
        return []
    sizes = {name: pool.inputs.flatten(1).double().abs().mean(1).cpu() for name, pool in pools.items()}
    means = torch.stack([split.totals(sizes[split.pool]) / split.sizes for split in splits.values()])  # [splits, K]
    usual = float(means[means > 0].median()) if bool((means > 0).any()) else 0.0
    odd = ((means > 50 * usual) | ((means > 0) & (means * 50 < usual))).nonzero().tolist()
    if not odd:
        return []
    where = few([f"{names[k]!r} ({[*splits][s]}) {means[s, k]:.3g}" for s, k in odd])
    message = (
        f"inputs are of other sizes at some nodes: in the mean of |x|, {where}, where {usual:.3g} is usual. Give all "
        "the same units, such as images of 0 to 1"
    )
    return [Finding("other-units", "inputs", message, {"usual": usual})]


def of_one_class(names: Sequence[str], splits: Iterable[Split], targets: Tensor) -> list[Finding]:
    """Return the finding that AUC is undefined at sites with rows of only one class."""
    held = [torch.stack([split.owner, targets.cpu()[split.index].long()]) for split in splits]
    pairs = torch.cat(held, 1).unique(dim=1)
    one = [names[k] for k in (pairs[0].bincount(minlength=len(names)) == 1).nonzero().flatten().tolist()]
    if not one:
        return []
    message = (
        f"all rows of {'site' if len(one) == 1 else 'sites'} {few([*map(repr, one)])} are of one class, so "
        f"{setting(metric='auc')} is not defined there: leave such sites out, or use {setting(metric='log_loss')} or "
        f"{setting(metric='brier')}"
    )
    return [Finding("one-class", "metric", message, {"sites": one})]


def of_frequent_class(classes: Sequence[object], targets: Tensor) -> list[Finding]:
    """Return the finding that 80% of at least 100 rows are of one class, so that accuracy tells little."""
    counts = targets.cpu().long().bincount(minlength=len(classes))
    share, most = float(counts.max() / counts.sum()), classes[int(counts.argmax())]
    if not 0.8 <= share < 1 or len(targets) < 100:
        return []
    message = (
        f"{100 * share:.0f} % of rows are of class {most!r}, and a model that says so of every row is as accurate: "
        f"{setting(metric='log_loss')}, {setting(metric='brier')} or {setting(metric='auc')} tells more"
    )
    return [Finding("frequent-class", "metric", message, {"share": share})]
