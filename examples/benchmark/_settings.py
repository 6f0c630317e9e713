"""Settings of different kinds to compare methods on: tasks by seed, the model of every node, and how long to train."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from torch import nn

from graphcollab import Tasks, build_model, load_dataset
from graphcollab.data.datasets import LabeledArrays, SiteTable
from graphcollab.data.partition import grouped_tasks, shard_tasks

Rows: TypeAlias = tuple[np.ndarray, np.ndarray]
Root: TypeAlias = str | os.PathLike[str] | None

OFTEN_MISSING = ("chol", "slope", "ca", "thal")  # for more than a fifth of all patients


@dataclass(frozen=True)
class Setting:
    """What is played.

    Args:
        tasks: Function from a seed to tasks.
        model: Makes the model of every node.
        rounds: How many are played.
        batch_size: Samples of a batch.
    """

    tasks: Callable[[int], Tasks]
    model: Callable[[], nn.Module]
    rounds: int
    batch_size: int = 10


def images(
    dataset: str, draw: Callable[..., Tasks], model: Callable[..., nn.Module], rounds: int, batch_size: int, root: Root
) -> Setting:
    """Return a setting with images that are dealt out to the nodes."""
    data = _images(dataset, root)
    made = partial(model, input_shape=data.input_shape, num_classes=data.num_classes)
    return Setting(lambda seed: draw(data, seed=seed), made, rounds, batch_size)


def hospitals(root: Root) -> Setting:
    """Return a setting with the patients of four hospitals: who has a heart disease?

    Of every hospital's patients, healthy and diseased alike, 30 % are for testing and a fifth of the others for
    validation.
    """
    table = load_dataset("heart_disease")
    tables = _by_site(table)
    often = [_inputs(table).index(name) for name in OFTEN_MISSING]

    def tasks(seed: int) -> Tasks:
        drawn = []
        for k, (_, diseased) in enumerate(tables.values()):
            order = np.random.default_rng([seed, k]).permutation(len(diseased))
            drawn.append(_joined([_cut(order[diseased[order] == label]) for label in (0, 1)]))
        return _tasks(tables, drawn, often)

    width = len(_inputs(table)) + len(often)
    return Setting(tasks, partial(build_model, "mlp", (width,), 2, hidden=16), rounds=40)


def patients(root: Root) -> Setting:
    """Return a setting with the recordings of 42 patients: how severe is their Parkinson's disease?

    Of every patient's recordings 24 are for training, 6 for validation, and all others for testing.
    """
    table = load_dataset("parkinsons", root)
    tables = _by_site(table)

    def tasks(seed: int) -> Tasks:
        orders = [
            np.random.default_rng([seed, k]).permutation(len(target)) for k, (_, target) in enumerate(tables.values())
        ]
        drawn = [tuple(np.split(order, [24, 30])) for order in orders]
        return _tasks(tables, drawn, loss="mse", metric="mse")

    return Setting(tasks, partial(build_model, "mlp", (len(_inputs(table)),), 1, hidden=32), rounds=60)


@cache
def _images(dataset: str, root: Root) -> LabeledArrays:
    """Return a dataset, read once however many settings use it."""
    return load_dataset(dataset, root)


def _inputs(table: SiteTable) -> list[str]:
    """Return the columns to predict from."""
    return [name for name in table.columns if name not in (table.node, table.target)]


def _by_site(table: SiteTable) -> dict[str, Rows]:
    """Return the inputs [n, columns] and targets [n] of every site, in order of their names."""
    inputs = np.stack([table.columns[name] for name in _inputs(table)], 1).astype(np.float64)
    sites = table.columns[table.node]
    return {str(site): (inputs[sites == site], table.columns[table.target][sites == site]) for site in np.unique(sites)}


def _cut(order: np.ndarray) -> list[np.ndarray]:
    """Cut samples into those for training, validation and testing."""
    test = round(0.3 * len(order))
    val = round(0.2 * (len(order) - test))
    return np.split(order, [len(order) - test - val, len(order) - test])


def _joined(cuts: list[list[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Put the samples of all classes together, split by split."""
    return tuple(np.concatenate(parts) for parts in zip(*cuts, strict=True))


def _tasks(
    tables: Mapping[str, Rows],
    drawn: Sequence[Sequence[np.ndarray]],
    often_missing: Sequence[int] = (),
    **about: Any,
) -> Tasks:
    """Return tasks of tables, given the rows for training, validation and testing of every node.

    Columns, and targets that are no labels, are standardized by the training samples of all nodes together. Missing
    values become the mean; of columns that are often missing, further columns say for whom they are.
    """
    seen = [(inputs[rows[0]], target[rows[0]]) for (inputs, target), rows in zip(tables.values(), drawn, strict=True)]
    x, y = (np.concatenate(values) for values in zip(*seen, strict=True))
    mean, deviation = np.nanmean(x, 0), np.nanstd(x, 0)
    labels = y.dtype == np.int64

    def samples(inputs: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        known = np.nan_to_num((inputs - mean) / deviation)
        missing = np.isnan(inputs[:, list(often_missing)])
        return np.hstack([known, missing]).astype(np.float32), target if labels else (target - y.mean()) / y.std()

    pairs = [samples(*table) for table in tables.values()]
    train, val, test = ([(x[rows[s]], y[rows[s]]) for (x, y), rows in zip(pairs, drawn, strict=True)] for s in range(3))
    return Tasks.from_samples(train, val, test, names=list(tables), **about)


MLP, CNN = partial(build_model, "mlp"), partial(build_model, "small_cnn")
NARROW = partial(CNN, hidden=24, padding="same")
SHARDS5 = partial(shard_tasks, classes_per_node=5)
SHARDS2 = partial(shard_tasks, classes_per_node=2)

SETTINGS: dict[str, Callable[[Root], Setting]] = {
    # 100 nodes with two classes each, and about 13 images
    "digits": partial(images, "digits", partial(SHARDS2, shards=20), MLP, 50, 10),
    # 15 nodes in five groups with the same task each, Fig. 4 of L2C
    "groups": partial(images, "digits", grouped_tasks, MLP, 40, 10),
    # 40 nodes with five classes and 75 images each
    "fashion_mlp": partial(
        images, "fashion_mnist", partial(SHARDS5, shards=20, shard_size=15), partial(MLP, hidden=100), 40, 10
    ),
    # 20 nodes with five classes and 100 images each; 56,714 parameters
    "fashion_cnn": partial(images, "fashion_mnist", partial(SHARDS5, shards=10, shard_size=20), CNN, 30, 10),
    # 20 nodes with five classes and 250 images each; 54,514 parameters
    "cifar10": partial(images, "cifar10", partial(SHARDS5, shards=10, shard_size=50), NARROW, 25, 20),
    # 20 nodes with two classes and 100 images each; the same model, and FedAvg's with 878,538 parameters
    "cifar10_two": partial(images, "cifar10", partial(SHARDS2, shards=4, shard_size=50), NARROW, 25, 20),
    "cifar10_wide": partial(
        images, "cifar10", partial(SHARDS2, shards=4, shard_size=50), partial(build_model, "fedavg_cnn"), 25, 20
    ),
    "hospitals": hospitals,
    "patients": patients,
}
