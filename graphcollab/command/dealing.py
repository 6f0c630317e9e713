"""Datasets that have no sites of their own, dealt out to sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from graphcollab.command.declared import Setting, settings_of
from graphcollab.datasets import LabelledArrays
from graphcollab.tasks import Tasks, grouped_tasks, shard_tasks

__all__ = ["DEALING", "deal"]

SHARDS, GROUPS = "shards", "groups"
OF_SAMPLES = ("val_fraction", "stratify", "loss", "metric")
"""Settings of tables that samples have, too."""

DEALING = [
    Setting(
        "partition",
        Literal["shards", "groups"],
        SHARDS,
        "How a dataset without sites is dealt out to them. shards: every site has some of the classes, drawn at "
        "random; groups: classes are drawn for groups of sites, and the sites of a group share them.",
        words=(SHARDS, GROUPS),
    ),
    replace(settings_of(grouped_tasks, "deal", only=("groups",))[0], text="Groups of sites, for groups."),
    Setting("sites", settings_of(grouped_tasks, "deal", only=("groups",))[0].annotation, 20, "Sites in all."),
    replace(
        settings_of(shard_tasks, "deal", only=("classes_per_node",))[0],
        text="Classes of a site, for shards. They must divide the number of classes.",
    ),
    replace(
        settings_of(shard_tasks, "deal", only=("shard_size",))[0],
        text="Samples of a class that a site has; fewer make it harder. Default: all are dealt out.",
    ),
]


def deal(data: LabelledArrays, settings: Mapping[str, Any], of_table: Mapping[str, Any]) -> Callable[[int], Tasks]:
    """Return a function from a seed to tasks of a dataset.

    Args:
        data: The dataset.
        settings: What was asked for.
        of_table: Settings of tables that are not what they are by default.

    Raises:
        ValueError: If a setting of tables was given, or the sites cannot be that many.
    """
    unfit = [name for name in of_table if name not in OF_SAMPLES]
    if unfit:
        raise ValueError(f"{unfit[0]}= is of tables, and {data.name} is none: leave it out")
    own = {**of_table, "shard_size": settings["shard_size"]}
    sites, groups, each = settings["sites"], settings["groups"], settings["classes_per_node"]
    if settings["partition"] == GROUPS:
        _divides(sites, groups, f"sites={sites} in groups={groups}")
        return lambda seed: grouped_tasks(data, groups, sites // groups, seed, **own)
    _divides(data.num_classes, each, f"{data.num_classes} classes with classes_per_node={each}")
    _divides(
        sites * each, data.num_classes, f"sites={sites} with classes_per_node={each} of {data.num_classes} classes"
    )
    return lambda seed: shard_tasks(data, sites * each // data.num_classes, each, seed, **own)


def _divides(whole: int, part: int, what: str) -> None:
    """Check that something can be dealt out evenly."""
    if whole % part:
        raise ValueError(f"{what} cannot be dealt out evenly, as {part} does not divide {whole}: change one of them")
