"""User-provided samples, converted to pairs of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, default_collate

from graphcollab._base.checks import issue
from graphcollab._base.errors import (
    ConflictError,
    EmptyError,
    InvalidValueError,
    MismatchError,
    ShapeError,
    UnsupportedError,
)
from graphcollab._base.settings import SettingError
from graphcollab.data._sites import in_order, name_ids
from graphcollab.data.losses import predicted_by
from graphcollab.data.quality_of_samples import of_repeats, of_scales
from graphcollab.data.quality_of_values import warn_of
from graphcollab.data.samples import Pool, Split, refuse_bad_weights, refuse_not_finite

Samples = tuple[Any, Any] | list[Any] | Mapping[Any, Any] | Dataset[Any]
"""Samples of a node: inputs and targets, arrays or tensors, as a pair or a dict (which may also have weights), or a
``Dataset`` of pairs or dicts."""
_OF_A_NODE = (
    "a pair (inputs, targets) of arrays or tensors, a dict of the two, or a torch Dataset of such, as a DataLoader has "
    "(Tasks.from_frame takes tables)"
)
_TWICE = 16  # samples of a dataset that are read again to detect random draws
_TARGETS = ("y", "target", "targets", "label", "labels")
_WEIGHTS = ("weight", "weights", "sample_weight")
_Triple: TypeAlias = tuple[Tensor, Tensor, Tensor | None]
Every: TypeAlias = Annotated[
    Sequence[Samples] | Mapping[Any, Samples], f"{_OF_A_NODE}, for every node, in a list or in a dict by name"
]


def gathered(
    train: Every, val: Every | None, test: Every | None, about: Mapping[str, Any]
) -> tuple[dict[str, Pool], dict[str, Split], dict[str, Any]]:
    """Return the pools and splits of all nodes, and the node attributes in ``about`` in the same order."""
    if not len(train):
        raise EmptyError("train", "tasks need at least one node, got none")
    given: dict[str, Any] = {"train": train, "val": val, "test": test}
    given = {split: samples for split, samples in given.items() if samples is not None}
    about = dict(about)
    if isinstance(train, Mapping):
        said = [name for name in ("names", "node_id") if about.get(name) is not None]
        if said:
            raise ConflictError(said[0], f"the keys of a dict of samples are its nodes' names: leave out {said[0]}=")
        keys = list(train)
        order = in_order(keys)
        given = {split: _by_name(split, samples, [keys[k] for k in order]) for split, samples in given.items()}
        about["names"] = tuple(str(keys[k]) for k in order)
        about["node_id"] = name_ids(about["names"])
        about["cluster"] = about["cluster"] if about.get("cluster") is None else about["cluster"][torch.tensor(order)]
    elif about.get("names") is not None:
        about["names"] = tuple(map(str, about["names"]))
        if len(about["names"]) != len(train):
            raise MismatchError("names", f"{len(train)} nodes have {len(about['names'])} names: one each is needed")
        if about.get("node_id") is None:
            about["node_id"] = name_ids(about["names"])
    names = about.get("names") or [f"node {k}" for k in range(len(train))]
    read: dict[str, list[_Triple]] = {}
    for split, samples in given.items():
        if len(samples) != len(train):
            raise MismatchError(split, f"{split!r} has samples for {len(samples)} nodes, 'train' for {len(train)}")
        read[split] = [_to_triple(one, f"{name} ({split})") for one, name in zip(samples, names, strict=True)]
    weights = {f"{names[k]} ({split})": w for split, some in read.items() for k, (*_, w) in enumerate(some)}
    lacking = [who for who, weight in weights.items() if weight is None]
    if lacking and len(lacking) < len(weights):
        raise MismatchError(
            lacking[0], f"{lacking[0]} has no weights, and others have some: give it weights, such as ones"
        )
    pools, splits = {}, {}
    for split, triples in read.items():
        pools[split], splits[split] = _stacked(split, triples, names)
    kind = pools["train"].inputs.dtype
    other = next((s for s, pool in pools.items() if pool.inputs.is_floating_point() != kind.is_floating_point), None)
    if other is not None:
        raise MismatchError(
            other, f"'train' has inputs of type {kind}, and {other!r} of {pools[other].inputs.dtype}: give one type"
        )
    about["findings"] = (*of_repeats(pools, splits, names), *of_scales(pools, splits, names))
    warn_of(about["findings"])
    return pools, splits, about


def _by_name(split: str, samples: Every, names: Sequence[Any]) -> list[Samples]:
    if not isinstance(samples, Mapping):
        raise InvalidValueError(
            split, f"{split!r} must be a dict by the nodes' names as 'train' is, got a {type(samples).__name__}"
        )
    lacking = [name for name in names if name not in samples]
    unknown = [name for name in samples if name not in set(names)]
    if lacking or unknown:
        who = f"lacks {lacking[0]!r}" if lacking else f"has {unknown[0]!r}, which 'train' lacks"
        raise MismatchError(split, f"{split!r} {who}: give samples of the same nodes in every split")
    return [samples[name] for name in names]


def _stacked(split: str, triples: Sequence[_Triple], names: Sequence[str]) -> tuple[Pool, Split]:
    for what, kinds in (("inputs", [x.dtype for x, *_ in triples]), ("targets", [y.dtype for _, y, _ in triples])):
        other = next((k for k, kind in enumerate(kinds) if kind.is_floating_point != kinds[0].is_floating_point), None)
        if other is not None:
            raise MismatchError(
                names[other],
                f"{split!r}: {what} must have one type, got {kinds[0]} of {names[0]}, {kinds[other]} of {names[other]}",
            )
    shapes = {tuple(x.shape[1:]) for x, *_ in triples}
    if len(shapes) > 1:
        raise ShapeError(
            "inputs", f"nodes' inputs have different shapes {sorted(shapes)}: bring them to one shape first"
        )
    bounds = torch.tensor([0, *(len(x) for x, *_ in triples)]).cumsum(0)
    inputs, targets = torch.cat([x for x, *_ in triples]), torch.cat([y for _, y, _ in triples])

    def at(row: int) -> str:
        node = int(torch.searchsorted(bounds, torch.tensor([row]), right=True)) - 1
        return f"sample {row - int(bounds[node])} of {names[node]} ({split})"

    refuse_not_finite("inputs", inputs, at)
    refuse_not_finite("targets", targets, at)
    weights = [weight for *_, weight in triples if weight is not None]
    weight = torch.cat(weights) if weights else None
    if weight is not None:
        refuse_bad_weights(weight, at)
    return Pool(inputs, targets, weight), Split(split, torch.arange(int(bounds[-1])), bounds)


def _to_triple(samples: Samples, who: str) -> _Triple:
    if isinstance(samples, Dataset):
        read = _to_triple(_collated(samples, who), who)
        _warn_of_draws(samples, read, who)
        return read
    if isinstance(samples, list) and any(isinstance(one, Mapping | tuple) for one in samples):
        raise SettingError(who, f"{_OF_A_NODE}, not a list of samples", samples)
    pair: Any = samples
    weights: list[Any] = []
    if isinstance(samples, Mapping):
        *pair, weights = _by_entry(samples, who)
    try:
        inputs, targets = to_tensors(*pair)
        weight = _tensor("weight", *weights).double() if weights else None
        sizes = len(inputs), len(targets)
    except ShapeError as error:
        raise ShapeError(who, f"{who}: {error}") from error
    except (TypeError, ValueError, RuntimeError) as error:  # numbers, text, or lists of unequal lengths
        raise SettingError(who, _OF_A_NODE, samples, str(error)) from error
    if sizes[0] != sizes[1]:
        raise MismatchError(who, f"{who} has {sizes[0]} inputs and {sizes[1]} targets: each input needs one target")
    if weight is not None and weight.shape != sizes[:1]:
        raise MismatchError(
            who, f"{who} has {sizes[0]} inputs and weights {list(weight.shape)}: each input needs one weight"
        )
    return inputs, targets, weight


def _collated(samples: Dataset[Any], who: str) -> Any:
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
            who, f"{who}: a dataset must yield pairs (input, target), or dicts to give weights, got {count}"
        )
    return tuple(batch)


def _warn_of_draws(samples: Dataset[Any], read: _Triple, who: str) -> None:
    """Warn of a dataset that draws randomly on access: samples are read once, so its draws stay fixed in all rounds."""
    few = range(min(len(read[0]), _TWICE))
    again = _to_triple(_collated(Subset(samples, few), who), who)
    pairs = [(x[: len(few)], y) for x, y in zip(read, again, strict=True) if x is not None and y is not None]
    if not all(x.equal(y) or bool((x != x).any()) for x, y in pairs):
        issue(
            "quality",
            who,
            f"{who}: the dataset draws random numbers when a sample is read, and samples are read once: augmented ones "
            "stay as they were drawn, in all rounds and for validation, too. Take the random transform out of it",
        )


def _by_entry(given: Mapping[Any, Any], who: str) -> tuple[Any, Any, list[Any]]:
    """Return the inputs, the targets and a list with the weights, if any, of a dict."""
    targets, weights = ([name for name in given if name in known] for known in (_TARGETS, _WEIGHTS))
    inputs = [name for name in given if name not in targets + weights]
    if len(inputs) != 1 or len(targets) != 1 or len(weights) > 1:
        raise ShapeError(
            who,
            f"{who} has samples with the entries {list(given)}: expected the inputs and, called one of "
            f"{', '.join(_TARGETS)}, the targets; weights are called one of {', '.join(_WEIGHTS)}",
        )
    return given[inputs[0]], given[targets[0]], [given[name] for name in weights]


def to_tensors(inputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
    """Convert inputs to float32 (integers stay) and targets to int64 or float32, copying only if the type changes."""
    x, y = _tensor("inputs", inputs), _tensor("targets", targets)
    if x.dtype == torch.uint8:
        raise ShapeError("inputs", "inputs are of type uint8: make them floating point, and divide images by 255")
    return x.float() if x.is_floating_point() else x, y.float() if y.is_floating_point() else y.long()


def to_weights(weight: Any, count: int, at: Callable[[int], str], where: str = "") -> Tensor:
    """Convert sample weights, possibly integers, to float64 [count], and reject invalid ones."""
    found = _tensor("weight", weight)
    if found.shape != (count,):
        raise SettingError("weight", f"one number for each of the {count} samples, [{count}]", weight)
    refuse_bad_weights(found, at, where)
    return found.double()


def _tensor(name: str, values: Any) -> Tensor:
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_nested:
            raise ShapeError(name, f"{name} are a sparse or nested tensor: make it dense, by .to_dense() or by padding")
        return values
    if isinstance(values, Mapping) or (isinstance(values, tuple) and any(np.ndim(one) for one in values)):
        raise ShapeError(
            name, f"{name} must be one tensor, got a {type(values).__name__} of {len(values)}: put them side by side"
        )
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise SettingError(name, "numbers (Tasks.from_frame takes text and missing values)", values)
    if not array.flags.writeable or array.dtype.byteorder == ">" or min(array.strides, default=0) < 0:
        array = array.astype(array.dtype.newbyteorder("="))  # torch accepts only native byte order
    return torch.as_tensor(array)


def class_labels(targets: Tensor) -> Tensor | None:
    """Return class labels [N] of targets [N] or [N, 1]; None for other real values or several labels per sample."""
    if targets.numel() != len(targets):
        return None
    values = targets.reshape(-1)
    if not values.is_floating_point():
        return values
    return values.long() if bool(((values == 0) | (values == 1)).all()) else None


def strata(targets: Tensor, loss: Any) -> Tensor | None:
    """Return the strata for holding out, [N]: classes, or whether an event was observed."""
    return class_labels(targets[:, 1:] if predicted_by(loss) == "times" else targets)


def facts_of_pool(pool: Pool) -> dict[str, Any]:
    """Return the facts about samples that must agree across sites, and the number of samples."""
    return {
        "rows": len(pool),
        "inputs": list(pool.inputs.shape[1:]),
        "input_type": str(pool.inputs.dtype),
        "targets": list(pool.targets.shape[1:]),
        "target_type": str(pool.targets.dtype),
        "weighted": pool.weight is not None,
        "labeled": class_labels(pool.targets.cpu()) is not None,
    }
