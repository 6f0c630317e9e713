"""Torch datasets and loaders, read once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sized
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    default_collate,
)

from graphcollab.checks import issue
from graphcollab.errors import EmptyError, ShapeError, UnsupportedError

_TWICE = 4  # samples that are read twice, to see whether the dataset draws


def read_dataset(samples: Dataset[Any], who: str) -> Any:
    """Return all samples of a dataset as one collated batch, a pair or a dict.

    Every sample is read once, so what a dataset draws is warned of: it would stay the same in all rounds.
    """
    if isinstance(samples, IterableDataset):
        raise UnsupportedError(
            who, f"{who} has an IterableDataset, whose samples cannot be numbered: give a list of its samples"
        )
    size = len(cast(Sized, samples))
    if size == 0:
        raise EmptyError(who, f"{who} has an empty dataset: every node needs training samples")
    before = _states()
    pair = _collated(samples, range(size), who)
    few = range(min(size, _TWICE))
    if _states() != before or not _same(_collated(samples, few, who), _collated(samples, few, who)):
        issue(
            "quality",
            who,
            f"{who}: the dataset draws random numbers when a sample is read, and samples are read once: augmented ones "
            "stay as they were drawn, in all rounds and for validation, too. Take the random transform out of it",
        )
    if not isinstance(pair, Mapping) and (not isinstance(pair, list | tuple) or len(pair) != 2):
        count = f"{len(pair)} values" if isinstance(pair, list | tuple) else f"a {type(pair).__name__}"
        raise ShapeError(
            who,
            f"{who}: a dataset must yield pairs (input, target), got {count}; to give weights, let it yield dicts "
            "with an entry 'weight'",
        )
    return pair


def rows_of_loader(loader: DataLoader[Any], who: str) -> Dataset[Any]:
    """Return the samples that a loader yields in an epoch, whatever its batches and their order; else refuse it."""
    batches: Any = loader.batch_sampler
    known = type(loader) is DataLoader and type(batches) is BatchSampler
    sampler: Any = batches.sampler if known else None
    kind = type(sampler)
    index: Any = None
    if kind is SubsetRandomSampler:
        index = sorted(sampler.indices)
    elif kind is SequentialSampler or (kind is RandomSampler and not sampler.replacement):
        index = range(len(sampler.data_source))
    if index is None or len(index) != len(sampler) or loader.collate_fn is not default_collate:
        raise UnsupportedError(
            who,
            f"{who} has a DataLoader with a {type(sampler or batches).__name__} or a collate_fn of its own, so it "
            "cannot be told what its samples are: give its dataset, or a torch.utils.data.Subset",
        )
    if batches.drop_last and len(index) % batches.batch_size:
        raise UnsupportedError(
            who,
            f"{who} has a DataLoader that leaves out {len(index) % batches.batch_size} of {len(index)} samples: give "
            "its dataset, or drop_last=False",
        )
    return loader.dataset if index == range(len(cast(Sized, loader.dataset))) else Subset(loader.dataset, index)


def _collated(samples: Dataset[Any], index: range, who: str) -> Any:
    rows = [samples[k] for k in index]
    try:
        return default_collate(rows)
    except (TypeError, RuntimeError) as error:
        found = {str(list(one.shape)) for row in rows for one in _tensors(row)}
        cure = f"samples have the shapes {', '.join(sorted(found)[:4])}: pad them to one length"
        if isinstance(error, TypeError):
            kinds = dict.fromkeys(type(one).__name__ for one in (rows[0] if isinstance(rows[0], tuple) else rows))
            cure = f"a sample holds {', '.join(kinds)}, and may hold numbers, arrays or tensors"
        raise ShapeError(who, f"{who}: {cure}") from error


def _tensors(row: Any) -> list[Any]:
    some = row.values() if isinstance(row, Mapping) else row if isinstance(row, tuple | list) else [row]
    return [one for one in some if hasattr(one, "shape")]


def _states() -> tuple[Any, ...]:
    """Return the states of the global generators."""
    of_numpy: Any = np.random.get_state()  # noqa: NPY002  nothing is drawn
    return random.getstate(), of_numpy[1].tobytes(), of_numpy[2], torch.get_rng_state().numpy().tobytes()


def _same(one: Any, other: Any) -> bool:
    """Tell whether two collated batches hold the same."""
    if isinstance(one, Tensor):
        return bool(torch.equal(one, other)) or bool((one != one).any())
    if isinstance(one, Mapping):
        return all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return all(map(_same, one, other))
    return bool(one == other)
