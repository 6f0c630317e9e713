"""Sites as threads of one process, which meet in a room and tell each other values of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np

from graphcollab import GraphcollabError, Tasks
from graphcollab.data.table import open_table, read_column


class Room:
    """A meeting of some sites; ``heard`` are all messages, as text."""

    def __init__(self, sites: int) -> None:
        self.said: list[str] = [""] * sites
        self.heard: list[list[str]] = [[] for _ in range(sites)]
        self.barrier = Barrier(sites, timeout=20)

    def meet(self, place: int, value: Any) -> list[Any]:
        self.barrier.wait()
        self.said[place] = json.dumps(value)
        self.heard[place].append(self.said[place])
        self.barrier.wait()
        return [json.loads(one) for one in self.said]


class Door:
    """The room as one site sees it."""

    def __init__(self, room: Room, place: int, change: Callable[[Any], Any] = lambda value: value) -> None:
        self.room, self.place, self.change = room, place, change

    def all_gather_object(self, value: Any) -> list[Any]:
        return self.room.meet(self.place, self.change(value))


def at_sites(
    make: Callable[[Door, int], Any], sites: int, change: Callable[[Any], Any] | None = None
) -> tuple[list[Any], Room]:
    """Return what every site makes, or the error that it raises, and the room; the last one's messages are changed."""
    room = Room(sites)

    def play(place: int) -> Any:
        door = Door(room, place, change) if change is not None and place == sites - 1 else Door(room, place)
        try:
            return make(door, place)
        except Exception as error:
            return error

    with ThreadPoolExecutor(sites) as pool:
        return list(pool.map(play, range(sites))), room


def results_of(found: Sequence[Any]) -> list[Any]:
    """Return what sites made; raise what one of them raised."""
    for one in found:
        if isinstance(one, Exception):
            raise one
    return list(found)


def refusal(found: Sequence[Any]) -> str:
    """Return the text of the error that all sites raise, which must be the same."""
    assert all(isinstance(one, GraphcollabError) for one in found), found
    texts = {(one.code, one.subject, str(one)) for one in found}
    assert len(texts) == 1, texts
    return texts.pop()[2]


def prepared(tables: Any, **settings: Any) -> Tasks:
    """Return the tasks of all tables in one process, prepared as between sites: by all rows that may train."""
    rows = tables
    if "split" in settings:
        word = settings["split"]
        kept = {name: [k for k, one in enumerate(table[word]) if one == "train"] for name, table in tables.items()}
        rows = {n: {key: [values[k] for k in kept[n]] for key, values in t.items()} for n, t in tables.items()}
    if settings.get("pooled") != "per_site" and isinstance(rows, dict):
        rows = {name: _without_few(table) for name, table in rows.items()}
    known = Tasks.from_frame(rows, **{**settings, "val_fraction": 0, "test_fraction": 0}).preparation
    fitted = {"categories", "pooled", "indicator_above", "standardize_target", "preparation", "refit"}
    how = {name: value for name, value in settings.items() if name not in fitted}
    tasks = Tasks.from_frame(tables, **how, preparation=known)
    return replace(tasks, preparation=known)  # as if it had been told


def _without_few(table: Any) -> Any:
    """Return a site's table without the values of numeric columns of which it has too few to tell their sums."""
    if isinstance(table, Path):
        opened = open_table(table)
        table = {name: read_column(opened, name) for name in opened}
    if not isinstance(table, dict):
        return table
    few = {n for n, v in table.items() if isinstance(v, np.ndarray) and v.dtype == float and (v == v).sum() < 6}
    return {name: values * np.nan if name in few else values for name, values in table.items()}
