"""A warning of inputs that are in other units than those of other nodes or splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from graphcollab.checks import issue
from graphcollab.naming import few
from graphcollab.tasks.samples import Pool, Split

__all__ = ["warn_of_scales"]

_TIMES = 50.0


def warn_of_scales(pools: Mapping[str, Pool], splits: Mapping[str, Split], names: Sequence[str]) -> None:
    """Warn where a node's images or series in a split are 50 times as large as is usual, or as small, in mean |x|.

    So images of 0 to 255 beside images of 0 to 1 are noticed. What is usual is the median over nodes and splits. The
    columns of tables are looked at one by one, elsewhere.
    """
    if not all(pool.inputs.is_floating_point() and pool.inputs.dim() > 2 for pool in pools.values()):
        return
    rows = {name: pool.inputs.flatten(1) for name, pool in pools.items()}
    sizes = {name: x.norm(1, dim=1).double() / x.shape[1] for name, x in rows.items()}
    means = torch.stack([_means(sizes[split.pool], split) for split in splits.values()])  # [splits, K]
    usual = float(means[means > 0].median()) if bool((means > 0).any()) else 0.0
    odd = (means > _TIMES * usual) | ((means > 0) & (means * _TIMES < usual))
    if bool(odd.any()):
        kinds = [*splits]
        where = few([f"{names[k]!r} ({kinds[s]}) {means[s, k]:.3g}" for s, k in odd.nonzero().tolist()])
        issue(
            "quality",
            "inputs",
            f"inputs are of other sizes at some nodes: in the mean of |x|, {where}, where {usual:.3g} is usual. Give "
            "all the same units, such as images of 0 to 1",
        )


def _means(sizes: torch.Tensor, split: Split) -> torch.Tensor:
    """Return the mean of samples' sizes at every node, [K]; NaN where a node has none."""
    owner = torch.arange(len(split.sizes)).repeat_interleave(split.sizes)
    return owner.bincount(sizes.cpu()[split.index], minlength=len(split.sizes)) / split.sizes
