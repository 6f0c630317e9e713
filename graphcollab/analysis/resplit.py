"""New random training, validation and test splits of the same samples of every site."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch

from graphcollab._base.keyed import keyed_seed
from graphcollab._base.settings import Real, Seed, checked
from graphcollab.analysis.final import with_all_rows
from graphcollab.data._pairs import strata
from graphcollab.data.samples import hold_out
from graphcollab.data.tasks import Tasks

_SPLIT_STREAM, _HALF_STREAM = 173, 174
HALVES = ("half", "other half")
Part = Annotated[float, Real(above=0, below=1)]


@checked
def resplit(tasks: Tasks, seed: Seed = 0, *, test: Part | None = None, val: Part | None = None) -> Tasks:
    """Pool every site's samples and split them again, stratified by class if they have labels.

    Samples of one group stay together (``group`` of `Tasks.from_frame`). Inputs are unchanged: if they were
    standardized by the training samples, give `benefit` a function of the seed that standardizes them on every split.

    Args:
        tasks: Tasks, whose splits are discarded.
        seed: Seed of the split.
        test: Share of a site's samples for testing. Default: the current share over all sites, or 0.25.
        val: Share of the remaining samples for validation. Default: the current share, or 0.2.

    Example:
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> dealt = resplit(Tasks.from_samples([(x, y)]), seed=1)
        >>> [dealt.sizes(split).tolist() for split in ("train", "val", "test")]
        [[12], [3], [5]]
    """
    everybody = torch.arange(tasks.num_nodes)
    tasks.require_here(everybody, ", which cannot deal them anew: give a function that makes the tasks of a seed")
    dealt = with_all_rows(tasks)
    total = {name: int(tasks.sizes(name).sum()) for name in ("train", "val", "test")}
    every = sum(total.values())
    if test is None:
        test = total["test"] / every if total["test"] else 0.25
    if val is None:
        val = total["val"] / (total["train"] + total["val"]) if total["val"] else 0.2
    dealt = dealt.hold_out(test, keyed_seed(_SPLIT_STREAM, seed, 0) % 2**63)
    held = dealt.splits["val"]
    dealt = dealt.hold_out(val, keyed_seed(_SPLIT_STREAM, seed, 1) % 2**63)
    return replace(dealt, splits={**dealt.splits, "test": held})


def halve_tests(tasks: Tasks, seed: int) -> Tasks:
    """Add two splits (`HALVES`) with half of every site's test samples each, stratified by class for labels."""
    split = tasks.splits["test"]
    pool, place = tasks.pools[split.pool], split.index.clamp(min=0)  # samples in other processes are only counted
    if pool.group is not None:
        tasks.require_here(torch.arange(tasks.num_nodes), ", so their groups cannot be halved")
    labels = strata(pool.targets.cpu(), tasks.loss)
    kinds, group = (None if one is None else one[place] for one in (labels, pool.group))
    halves = hold_out(split, tasks.ids, 0.5, keyed_seed(_HALF_STREAM, seed, 0) % 2**63, kinds, group=group)
    return replace(tasks, splits={**tasks.splits, **dict(zip(HALVES, halves, strict=True))})
