"""Four hospitals, each with a third of its own patients only, that meet in threads of one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from torch import nn

from graphcollab import Tasks, build_model, load_dataset, site
from graphcollab.data import Preparation
from graphcollab.sites import Site, connected
from graphcollab.sites.connection import Connection
from graphcollab.sites.hall import Hall

TABLE = load_dataset("heart_disease")
COLUMNS = {name: values[::3] for name, values in TABLE.columns.items() if name != "ca"}  # hardly known in two
PLACE = COLUMNS["hospital"]
NAMES = tuple(TABLE.sizes)
ROWS = {
    name: {column: values[name == PLACE] for column, values in COLUMNS.items() if column != "hospital"}
    for name in NAMES
}
SETTINGS: dict[str, Any] = {"target": "disease", "categorical": list(TABLE.categorical)}


@cache
def known() -> Preparation:
    """Return how the hospitals prepare their patients, to the last digit."""
    return replace(meet(lambda here: here.tasks().preparation)["va"], node="hospital")


def pooled_tasks(seed: int = 0) -> Tasks:
    """Return the tasks of all hospitals, as they would be with all patients in one place, prepared as between them."""
    tasks = Tasks.from_frame(COLUMNS, node="hospital", seed=seed, preparation=known(), **SETTINGS)
    return replace(tasks, preparation=known())  # as if it had been told


def small(tasks: Tasks) -> nn.Module:
    """Return a model for the hospitals."""
    return build_model("mlp", tasks.input_shape, 2)


def meet(
    act: Callable[[Site], Any],
    hall: Hall | None = None,
    beat: float = 0.2,
    **own: Mapping[str, Any],
) -> dict[str, Any]:
    """Let every hospital act, and return what each returns, or the error by which it has failed.

    Args:
        act: What a hospital does.
        hall: Where they meet.
        beat: Seconds between signs of life.
        own: Settings of `site` by hospital, in place of the usual ones; ``rows`` are its patients.
    """

    def one(connection: Connection) -> Any:
        given = {**SETTINGS, "rows": ROWS[connection.name], "name": connection.name, **own.get(connection.name, {})}
        with connected(connection):
            try:
                return act(site(given.pop("name"), given.pop("rows"), **given))
            except BaseException as error:
                connection.leave(error)
                return error

    return (hall or Hall(NAMES, poll=0.5)).play(one, beat=beat)
