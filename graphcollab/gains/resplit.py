"""The same samples dealt anew: other training, validation and test samples of every site."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from torch import Tensor

from graphcollab.keyed import keyed_seed
from graphcollab.settings import Real, Seed, checked
from graphcollab.tasks import Pool, Split, Tasks

__all__ = ["MOST", "limit_tests", "resplit"]

_SPLIT_STREAM, _TEST_STREAM = 173, 174
MOST = 0.5  # test samples for every training sample
Part = Annotated[float, Real(above=0, below=1)]


@checked
def resplit(tasks: Tasks, seed: Seed = 0, *, test: Part | None = None, val: Part | None = None) -> Tasks:
    """Put every site's samples together and deal them out anew, class by class where they have labels.

    Inputs stay as they are. If they were standardised by the training samples, do that again for every split: give
    `benefit` a function from a seed to tasks.

    Args:
        tasks: Tasks, whose splits are forgotten.
        seed: Seed of the draw.
        test: Share of a site's samples for testing. Default: as many of all sites' samples as there are now, or 0.25.
        val: Share of the others for validation. Default: as many as there are now, or 0.2.

    Example:
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> dealt = resplit(Tasks.from_samples([(x, y)]), seed=1)
        >>> [dealt.sizes(split).tolist() for split in ("train", "val", "test")]
        [[12], [3], [5]]
    """
    total = {name: int(tasks.sizes(name).sum()) for name in ("train", "val", "test")}
    every = sum(total.values())
    if test is None:
        test = total["test"] / every if total["test"] else 0.25
    if val is None:
        val = total["val"] / (total["train"] + total["val"]) if total["val"] else 0.2
    names = list(tasks.pools)
    starts = dict(zip(names, torch.tensor([0, *map(len, tasks.pools.values())]).cumsum(0).tolist(), strict=False))
    pools = list(tasks.pools.values())
    whole = Pool.joined(pools)
    lists: list[Tensor] = []
    for node in range(tasks.num_nodes):
        mine = [split.of(node) + starts[split.pool] for split in tasks.splits.values()]
        lists.append(torch.cat(mine).unique())
    dealt = replace(tasks, pools={"all": whole}, splits={"train": Split.from_lists("all", lists)})
    dealt = dealt.hold_out(test, keyed_seed(_SPLIT_STREAM, seed, 0) % 2**63)
    held = dealt.splits["val"]
    dealt = dealt.hold_out(val, keyed_seed(_SPLIT_STREAM, seed, 1) % 2**63)
    return replace(dealt, splits={**dealt.splits, "test": held})


def limit_tests(tasks: Tasks, seed: int) -> Tasks:
    """Leave every site at most half as many test samples as it has training samples, some of every class.

    Gains are judged by how they differ between splits, which share their samples, and the correction for that grows
    with test samples by training samples: with many of them it would be far too careful. Every split takes others.
    """
    sizes, wanted = tasks.sizes("test"), (MOST * tasks.sizes("train")).ceil().long()
    test = tasks.splits["test"]
    lists = []
    for node in range(tasks.num_nodes):
        mine, some = test.of(node), int(wanted[node])
        if some < int(sizes[node]):
            only = replace(tasks.select([node]), splits={"train": Split.from_lists(test.pool, [mine])})
            fraction = (some + 0.25) / len(mine)  # rounds to just as many
            mine = only.hold_out(fraction, keyed_seed(_TEST_STREAM, seed, node) % 2**63).splits["val"].of(0)
        lists.append(mine)
    return replace(tasks, splits={**tasks.splits, "test": Split.from_lists(test.pool, lists)})
