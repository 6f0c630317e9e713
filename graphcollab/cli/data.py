"""The table or dataset of a command as tasks, and the model of every site."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from graphcollab._base.errors import ConflictError, MissingFileError, PathError
from graphcollab._base.naming import close
from graphcollab.cli.options import Columns, Dealing, Table
from graphcollab.cli.values import entries
from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.datasets.catalog import DATASETS, TABLES, load_dataset
from graphcollab.data.partition import grouped_tasks, shard_tasks
from graphcollab.data.quality_of_values import of_many_classes, warn_of
from graphcollab.data.tasks import Tasks
from graphcollab.models.catalog import build_model
from graphcollab.train.start import Models

WIDTH = 64  # width of the hidden layer, where none are asked for
STEP_SIZES = (0.01, 0.1)  # step sizes that comparisons of tables choose from, unless others are asked for
POOLED = "partial_pooling"  # what a benefit of tables tries beside meta_l2c
OF_SAMPLES = ("val_fraction", "stratify", "loss", "metric")  # options of tables that datasets without sites have, too


def require_data(data: str) -> None:
    """Check that a file or dataset exists."""
    if data in TABLES or data in DATASETS or os.path.isfile(data):
        return
    if os.path.isdir(data):
        raise PathError("data", f"{data} is a folder: give the path of a CSV or Parquet file")
    files = [str(path) for path in Path(data).parent.glob("*") if path.suffix in (".csv", ".parquet")]
    hint = close(data, [*TABLES, *DATASETS, *files], 1)
    raise MissingFileError("data", f"there is no file {data}; {hint}".rstrip("; "))


def changed(kind: type[Columns | Dealing], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a group that differ from their defaults; categories by column."""
    found = {name: settings[name] for name, usual in vars(kind()).items() if settings[name] != usual}
    if words := found.get("categories"):
        found["categories"] = entries("categories", words, "chest_pain=1,2")
    return found


def tasks_for(data: str, settings: Mapping[str, Any]) -> Callable[[int], Tasks]:
    """Return a function from a seed to tasks; a file is read anew for every seed."""
    own = changed(Table, settings)
    if data in DATASETS:
        return _dealt(load_dataset(data), settings, own)
    if dealing := [*changed(Dealing, settings)]:
        raise ConflictError(dealing[0], f"only datasets without sites are dealt out, and {data} is a table")
    if data in TABLES:
        table: Any = load_dataset(data)
        return lambda seed: table.tasks(seed=seed, **own)

    def make(seed: int) -> Tasks:
        tasks = Tasks.from_frame(data, seed=seed, **own)
        target = None if tasks.preparation is None else tasks.preparation.target
        if target is not None and target.numbers and "loss" not in own and target.name not in own.get("categories", ()):
            warn_of(of_many_classes(target.name, len(target.categories or ()), above=2))  # which may be counts
        return tasks

    return make


def _dealt(data: LabeledArrays, settings: Mapping[str, Any], own: Mapping[str, Any]) -> Callable[[int], Tasks]:
    if unfit := [name for name in own if name not in OF_SAMPLES]:
        raise ConflictError(unfit[0], f"only tables have this option, and {data.name} is not a table")
    own = {**own, "shard_size": settings["shard_size"]}
    sites, groups, each = settings["sites"], settings["groups"], settings["classes_per_node"]
    if settings["partition"] == "groups":
        _require_divisible("sites", sites, groups)
        return lambda seed: grouped_tasks(data, groups, sites // groups, seed, **own)
    _require_divisible("classes_per_node", data.num_classes, each)
    _require_divisible("sites", sites * each, data.num_classes)
    return lambda seed: shard_tasks(data, sites * each // data.num_classes, each, seed, **own)


def _require_divisible(option: str, whole: int, part: int) -> None:
    if part < 1 or whole % part:
        raise ConflictError(option, f"classes cannot be dealt out evenly, as {part} does not divide {whole}")


def models_for(data: str, hidden: Sequence[int] | None) -> Models:
    """Return the models to choose from: of tables a linear one and one with a hidden layer, unless layers are given."""
    if hidden is None and data not in DATASETS:
        return {"linear": model_for(()), f"hidden layer of {WIDTH}": model_for((WIDTH,))}
    return model_for(hidden)


def step_sizes(data: str, lrs: Sequence[float] | None) -> tuple[float, ...]:
    """Return the step sizes to choose from; none: each method's own."""
    usual = () if data in DATASETS else STEP_SIZES
    return usual if lrs is None else tuple(lrs)


def methods_for(asked: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the methods of a benefit, and the words of ``--set``: those of tables where none are named."""
    named, words = asked["methods"], asked["set"]
    if named is not None or str(asked["data"]) in DATASETS or asked["event"] is not None:  # risks have no intercept
        return ["meta_l2c"] if named is None else [*named], [*words]
    warmups = [str(many) for many in sorted({0, asked["rounds"] // 3})]
    own = {f"{POOLED}.lam": "none,30", f"{POOLED}.shrink": "0,10", f"{POOLED}.warmup": ",".join(warmups)}
    given = {word.split("=")[0] for word in words}
    return ["meta_l2c", POOLED], [*words, *(f"{name}={value}" for name, value in own.items() if name not in given)]


def model_for(hidden: Sequence[int] | None) -> Callable[[Tasks], nn.Module]:
    """Return a function from tasks to a site's model: fully connected layers."""
    widths = (WIDTH,) if hidden is None else hidden
    return lambda tasks: build_model("mlp", tasks.input_shape, _outputs(tasks), hidden=widths)


def _outputs(tasks: Tasks) -> int:
    if tasks.preparation is None:
        return 1 + max(int(pool.targets.max()) for pool in tasks.pools.values())
    return len(tasks.preparation.classes) if tasks.loss == "cross_entropy" else 1
