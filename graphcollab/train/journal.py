"""What checkpoints hold: values as JSON with tensors put aside, and histories as files that grow; no code."""

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

from graphcollab.nn import Mixer
from graphcollab.relation import Relation
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.train.history import Finding, History

__all__ = ["LOG", "Journal", "decode", "encode"]

LOG = "history.log"
CHUNK = 1000  # entries of a track that are written at a time: the header of a block stays small
SIZES = struct.Struct("<QQ")  # bytes of a block's description and of its tensors

Track: TypeAlias = tuple[str, str, str | None]
"""A part of a history that grows: name of the field, kind, and key where the field is a mapping of lists."""

_VALUES = {kind.__name__: kind for kind in (Stacks, ParamSpec, Relation, Mixer, History, Finding)}


def encode(value: Any, name: str, tensors: dict[str, Tensor], copy: bool = True) -> Any:
    """Turn a tensor, a plain value, one of the package's values, or containers of such into JSON.

    Tensors are put aside under their names, on the CPU, each with memory of its own or not; of rows that are all the
    same only one is kept. Anything else is a TypeError.
    """
    if isinstance(value, Tensor):
        repeated = value.shape[0] if value.dim() > 1 and value.stride(0) == 0 and value.shape[0] > 1 else 0
        kept = (value[:1] if repeated else value).detach().cpu().contiguous()
        tensors[name] = kept.clone() if copy else kept
        return {"tensor": name, "repeated": repeated}
    if type(value) in _VALUES.values():
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"value": type(value).__name__, "fields": encode(fields, name, tensors, copy)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, bool | int | float | str | None):
                raise TypeError(f"{name} has a key of type {type(key).__name__}, which a checkpoint cannot hold")
        keys = [{"key": key, "value": encode(item, f"{name}.{key}", tensors, copy)} for key, item in value.items()]
        return {"mapping": keys}
    if isinstance(value, tuple | list):
        items = [encode(item, f"{name}.{i}", tensors, copy) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, bool | int | float | str):
        return {"plain": value}
    raise TypeError(f"{name} is a {type(value).__name__}, which a checkpoint cannot hold")


def decode(code: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo `encode`."""
    kind, content = next(iter(code.items()))
    if kind == "tensor":
        tensor = tensors[content]
        return tensor.expand(code["repeated"], *tensor.shape[1:]) if code["repeated"] else tensor
    if kind == "value":
        return _VALUES[content](**decode(code["fields"], tensors))
    if kind == "mapping":
        return {item["key"]: decode(item["value"], tensors) for item in content}
    if kind in ("tuple", "list"):
        items = [decode(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    return content


class Journal:
    """What one file holds of a history: what a checkpoint adds to it does not depend on what is there already.

    A history has fields that grow with the rounds: lists (``rounds``), mappings of lists (``values``), and mappings
    by the number of a round (``graphs``). They are written in blocks, each with what has come since the block before
    it; what was taken back at the end is taken back. All other fields are small and left to `rest`. Which field is
    which is read off its value, so new fields need no word here. Entries that were written must not be changed in
    place afterwards.

    Attributes:
        length: Bytes so far.
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
        return {name: value for name, value in vars(history).items() if name not in inside}

    def grow(self, history: History) -> bytes:
        """Return the bytes to append for all that has changed since the last time."""
        return self._count(b"".join(self._blocks(history)))

    def _count(self, content: bytes) -> bytes:
        self.length += len(content)
        self._digest.update(content)
        return content

    def _blocks(self, history: History) -> Iterator[bytes]:
        growing: dict[Track, list[Any] | dict[int, Any]] = {track: [] for track in self._written}  # emptied, or:
        growing |= dict(_tracks(history))
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
        """Return a journal and its history from undamaged bytes, the tracks they must hold, and the other fields."""
        journal, start = cls(), 0
        wanted = {(field, kind, key): count for field, kind, key, count in tracks}
        journal._written = {track: [] for track in wanted}
        while start < len(content):
            sizes = SIZES.unpack_from(content, start)
            start += SIZES.size
            description, block = content[start : start + sizes[0]], content[start + sizes[0] : start + sum(sizes)]
            start += sum(sizes)
            # a clone has the memory layout of any other tensor, so sums come out the same to the last bit
            tensors = {name: tensor.clone() for name, tensor in load(block).items()} if block else {}
            for field, kind, key, kept, code in json.loads(description):
                journal._written.setdefault((field, kind, key), [])[kept:] = decode(code, tensors)
        if {track: len(entries) for track, entries in journal._written.items()} != wanted or start != len(content):
            raise ValueError(f"{LOG} holds other entries of the history than it should")
        journal._count(content)
        fields: dict[str, Any] = dict(rest)
        for (field, kind, key), entries in journal._written.items():
            if kind == "lists":
                fields.setdefault(field, {})[key] = list(entries)
            else:
                fields[field] = list(entries) if kind == "list" else dict(entries)
        return journal, History(**fields)


def _tracks(history: History) -> Iterator[tuple[Track, list[Any] | dict[int, Any]]]:
    for name, value in vars(history).items():
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

    def same(one: Any, other: Any) -> bool:
        if isinstance(value, list):
            return one is other
        return one[0] == other[0] and one[1] is other[1]  # the pairs of a mapping are made anew whenever it is read

    first = max(len(written) - 1, 0)
    if isinstance(value, list):
        end = value[first:]
    else:
        end = list(islice(reversed(value.items()), max(len(value) - first, 0)))[::-1]
    if written and end and same(end[0], written[-1]):
        return len(written), end[1:]
    everything = list(value) if isinstance(value, list) else list(value.items())
    kept = min(len(everything), len(written))
    while kept and not same(everything[kept - 1], written[kept - 1]):
        kept -= 1
    return kept, everything[kept:]
