"""The data of a command: a table in a file, or one by name, as tasks, and the model of every site."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from graphcollab.command.dealing import DEALING, deal
from graphcollab.command.declared import Setting, settings_of
from graphcollab.datasets import DATASETS, TABLES, load_dataset
from graphcollab.models import MLP, build_model
from graphcollab.naming import close
from graphcollab.tasks import Tasks
from graphcollab.tasks.doubts import of_many_classes, warn_of

__all__ = ["DATA", "MODEL", "OF_TABLE", "model_for", "require_data", "tasks_for"]

DATA = Setting(
    "data",
    str,
    text="A CSV or Parquet file with a row for every sample, or the name of a dataset (graphcollab datasets).",
    words=(*TABLES, *DATASETS),
    required=True,
)


def _categories(line: Sequence[str], table: Mapping[str, Any]) -> dict[str, tuple[str, ...]] | None:
    """Return the categories of columns, of a line and of a file of settings; None where none are given."""
    found = {}
    for name, values in table.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"categories.{name} must list categories, such as {name} = ['1', '2'], got {values!r}")
        found[name] = tuple(map(str, values))
    for word in line:
        name, equals, text = word.partition("=")
        if not (name and equals and text):
            raise ValueError(f"--categories must be COLUMN=A,B, such as chest_pain=1,2, got {word!r}")
        found[name] = tuple(one.strip() for one in text.split(","))
    return found or None


CATEGORIES = Setting(
    "categories",
    Sequence[str],
    text="All categories that a column may have, chest_pain=1,2,3,4, also those that no row has yet; of the target all "
    "classes. In a file of settings a table, [categories].",
    is_table=True,
    read=_categories,
)
OF_TABLE = [*settings_of(Tasks.from_frame, "table", also=(Tasks.from_arrays, Tasks)), CATEGORIES]
MODEL = settings_of(MLP.for_shape, "model", also=(MLP,), only=("hidden",))


def require_data(data: str) -> None:
    """Check that there are such data, before anything else is done."""
    if data in TABLES or data in DATASETS or os.path.isfile(data):
        return
    if os.path.isdir(data):
        raise ValueError(f"{data} is a folder: give the path of a CSV or Parquet file")
    hint = close(data, [*TABLES, *DATASETS, *_files(data)], 1)
    raise ValueError(f"there is no file {data}; {hint}".rstrip("; "))


def _files(data: str) -> list[str]:
    """Return the paths of tables that lie where a file was looked for."""
    folder = os.path.dirname(data)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return []
    return [os.path.join(folder, one) for one in names if one.endswith((".csv", ".parquet"))]


def tasks_for(data: str, settings: Mapping[str, Any]) -> Callable[[int], Tasks]:
    """Return a function from a seed to tasks; tables in files are read anew for every seed."""
    usual = {one.name: one.default for one in OF_TABLE}
    own = {name: settings[name] for name in usual if settings[name] != usual[name]}
    if data in TABLES:
        table: Any = load_dataset(data)
        return lambda seed: table.tasks(seed=seed, **own)
    if data in DATASETS:
        return deal(load_dataset(data), settings, own)
    dealing = [one.name for one in DEALING if settings.get(one.name, one.default) != one.default]
    if dealing:
        raise ValueError(f"{dealing[0]}= is of datasets without sites, and {data} is a table: leave it out")

    named = settings["categories"] or ()

    def make(seed: int) -> Tasks:
        tasks = Tasks.from_frame(data, seed=seed, **own)
        target = None if tasks.preparation is None else tasks.preparation.target
        if settings["loss"] is None and target is not None and target.numbers and target.name not in named:
            warn_of(of_many_classes(target.name, len(target.categories or ()), above=2))  # which may be counts
        return tasks

    return make


def model_for(hidden: int | Sequence[int]) -> Callable[[Tasks], nn.Module]:
    """Return a function from tasks to a site's model: fully connected layers that fit the table."""
    return lambda tasks: build_model("mlp", tasks.input_shape, outputs_of(tasks), hidden=hidden)


def outputs_of(tasks: Tasks) -> int:
    """Return how many numbers a model returns for a row; of samples that are no table's, one for every class."""
    classes = () if tasks.preparation is None else tasks.preparation.classes
    if tasks.preparation is None:
        return 1 + max(int(pool.targets.max()) for pool in tasks.pools.values())
    return len(classes) if tasks.loss == "cross_entropy" else 1
