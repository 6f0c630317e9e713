"""A history as a file that only grows: what a checkpoint adds to it does not depend on what is there already."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from safetensors.torch import load, save
from torch import Tensor

from graphcollab.train.encoding import decode, encode
from graphcollab.train.history import History

__all__ = ["LOG", "Journal"]

LOG = "history.log"

Track: TypeAlias = tuple[str, str, str | None]
"""A part of a history that grows: name of the field, kind, and key where the field is a mapping of lists."""

CHUNK = 1000  # entries of a track that are written at a time: the header of a block stays small
SIZES = struct.Struct("<QQ")  # bytes of a block's description and of its tensors


class Journal:
    """What one file holds of a history.

    A history has fields that grow with the rounds: lists (``rounds``), mappings of lists (``values``), and mappings
    by the number of a round (``graphs``). They are written in blocks, each with what has come since the block before
    it; what was taken back at the end is taken back. All other fields are small and left to `rest`. Which field is
    which is read off its value, so new fields need no word here. Entries that were written must not be changed in
    place afterwards.

    Attributes:
        length: Bytes so far.

    Example:
        >>> journal, history = Journal(), History(("a",), rounds=[1, 2])
        >>> content = journal.grow(history)
        >>> journal.grow(history)
        b''
        >>> Journal.read(content, journal.tracks, journal.rest(history))[1].rounds
        [1, 2]
    """

    def __init__(self) -> None:
        self.length = 0
        self._digest = hashlib.sha256()
        self._written: dict[Track, list[Any]] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of all bytes so far."""
        return self._digest.hexdigest()

    @property
    def tracks(self) -> list[list[Any]]:
        """What the file holds: field, kind, key and number of entries of every track."""
        return [[*track, len(entries)] for track, entries in self._written.items()]

    def copy(self) -> Journal:
        """Return a journal that goes on from the same content."""
        other = Journal()
        other.length, other._digest = self.length, self._digest.copy()
        other._written = {track: list(entries) for track, entries in self._written.items()}
        return other

    def rest(self, history: History) -> dict[str, Any]:
        """Return the fields that are not in the file."""
        inside = {field for field, _, _ in self._written}
        names = (field.name for field in dataclasses.fields(history))
        return {name: getattr(history, name) for name in names if name not in inside}

    def grow(self, history: History) -> bytes:
        """Return the bytes to append for all that has changed since the last time."""
        content = b"".join(self._blocks(history))
        self._advance(content)
        return content

    def _advance(self, content: bytes) -> None:
        self.length += len(content)
        self._digest.update(content)

    def _blocks(self, history: History) -> Iterator[bytes]:
        growing = dict(_tracks(history))
        for track in [track for track in self._written if track not in growing]:
            growing[track] = []  # a mapping that was emptied
        more = True
        while more:
            more, changes, tensors = False, [], dict[str, Tensor]()
            for number, (track, value) in enumerate(growing.items()):
                written = self._written.setdefault(track, [])
                kept, new = _since(value, written)
                if kept == len(written) and not new:
                    continue
                more = more or len(new) > CHUNK
                new = new[:CHUNK]
                written[kept:] = new
                changes.append([*track, kept, encode(new, str(number), tensors)])
            if changes:
                description = json.dumps(changes).encode()
                block = save(tensors) if tensors else b""
                yield SIZES.pack(len(description), len(block)) + description + block

    @classmethod
    def read(cls, content: bytes, tracks: list[list[Any]], rest: Mapping[str, Any]) -> tuple[Journal, History]:
        """Return a journal and its history.

        Args:
            content: The bytes; they have been found undamaged.
            tracks: What they must hold.
            rest: The other fields.

        Raises:
            ValueError: If they hold something else.
        """
        journal = cls()
        wanted = {(field, kind, key): count for field, kind, key, count in tracks}
        journal._written = {track: [] for track in wanted}
        start = 0
        while start < len(content):
            sizes = SIZES.unpack_from(content, start)
            start += SIZES.size
            description, block = content[start : start + sizes[0]], content[start + sizes[0] : start + sum(sizes)]
            start += sum(sizes)
            # a clone has the memory layout of any other tensor, so sums come out the same to the last bit
            tensors = {name: tensor.clone() for name, tensor in load(block).items()} if block else {}
            for field, kind, key, kept, code in json.loads(description):
                journal._written.setdefault((field, kind, key), [])[kept:] = decode(code, tensors)
        found = {track: len(entries) for track, entries in journal._written.items()}
        if found != wanted or start != len(content):
            raise ValueError(f"{LOG} holds other entries of the history than it should")
        journal._advance(content)
        return journal, History(**{**rest, **journal._fields()})

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for (field, kind, key), entries in self._written.items():
            if kind == "lists":
                fields.setdefault(field, {})[key] = list(entries)
            else:
                fields[field] = list(entries) if kind == "list" else dict(entries)
        return fields


def _tracks(history: History) -> Iterator[tuple[Track, list[Any] | dict[int, Any]]]:
    """Iterate over the parts of a history that grow."""
    for name in (field.name for field in dataclasses.fields(history)):
        value = getattr(history, name)
        if isinstance(value, list):
            yield (name, "list", None), value
        elif isinstance(value, dict) and value and all(isinstance(one, list) for one in value.values()):
            yield from (((name, "lists", key), one) for key, one in value.items())
        elif isinstance(value, dict) and value and isinstance(next(iter(value)), int):
            yield (name, "rounds", None), value


def _since(value: list[Any] | dict[int, Any], written: list[Any]) -> tuple[int, list[Any]]:
    """Return how many entries that were written still hold, and the entries after them.

    Where the last one written is still in its place all before it are, so this takes as long as there is news.
    """
    listed, first = isinstance(value, list), max(len(written) - 1, 0)
    end = value[first:] if isinstance(value, list) else _last(value, len(value) - first)
    if not written:
        return 0, end
    if end and _same(end[0], written[-1], listed):
        return len(written), end[1:]
    everything = list(value) if isinstance(value, list) else list(value.items())
    kept = min(len(everything), len(written))
    while kept and not _same(everything[kept - 1], written[kept - 1], listed):
        kept -= 1
    return kept, everything[kept:]


def _last(value: dict[int, Any], count: int) -> list[tuple[int, Any]]:
    return list(islice(reversed(value.items()), max(count, 0)))[::-1]


def _same(one: Any, other: Any, listed: bool) -> bool:
    """Tell whether two entries are the same object; the pairs of a mapping are made anew whenever it is read."""
    return one is other if listed else one[0] == other[0] and one[1] is other[1]
