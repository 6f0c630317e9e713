"""Sites as threads of one process, which meet in a room and tell each other values of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any


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

    def everyone(self, value: Any) -> list[Any]:
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


def made(found: Sequence[Any]) -> list[Any]:
    """Return what sites made; raise what one of them raised."""
    for one in found:
        if isinstance(one, Exception):
            raise one
    return list(found)


def refusal(found: Sequence[Any]) -> str:
    """Return the error that all sites raise, which must be the same."""
    texts = {f"{type(one).__name__}: {one}" for one in found}
    assert len(texts) == 1, texts
    kind, _, text = texts.pop().partition(": ")
    assert kind == "ValueError", text
    return text
