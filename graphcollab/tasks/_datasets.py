"""Torch datasets, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, cast

from torch.utils.data import Dataset, IterableDataset, default_collate

from graphcollab.errors import EmptyError, ShapeError, UnsupportedError


def collated(samples: Dataset[Any], who: str) -> Any:
    """Return all samples of a dataset as one batch, a pair or a dict."""
    if isinstance(samples, IterableDataset):
        raise UnsupportedError(
            who, f"{who} has an IterableDataset, whose samples cannot be numbered: give a list of its samples"
        )
    size = len(cast(Sized, samples))
    if size == 0:
        raise EmptyError(who, f"{who} has an empty dataset: every node needs training samples")
    try:
        batch = default_collate([samples[k] for k in range(size)])
    except (TypeError, RuntimeError) as error:
        raise ShapeError(who, f"{who}: the dataset's samples do not make one batch: {error}") from error
    if isinstance(batch, Mapping):
        return dict(batch)
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        count = f"{len(batch)} values" if isinstance(batch, list | tuple) else f"a {type(batch).__name__}"
        raise ShapeError(
            who,
            f"{who}: a dataset must yield pairs (input, target), got {count}; to give weights, let it yield dicts "
            "with an entry 'weight'",
        )
    return tuple(batch)
