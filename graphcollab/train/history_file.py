"""Histories as JSON lines, to which a checkpoint appends only what is new."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphcollab.train.history import History

HISTORY = "history.jsonl"
VALUES, BY_ROUND = "values", ("graphs", "scores")
GROWING = ("rounds", "seconds", VALUES, *BY_ROUND)


def small_fields(history: History) -> dict[str, Any]:
    """Return the fields that do not grow with the rounds, which are in the manifest."""
    return {name: value for name, value in vars(history).items() if name not in GROWING}


class HistoryFile:
    """The lines of a file that hold a history's evaluations, graphs and scores, one of them each.

    What an append writes does not depend on the lines that are there. Entries of a history that were written must not
    be changed in place.

    Attributes:
        length: Bytes so far.
    """

    def __init__(self) -> None:
        self.length = 0
        self._digest = hashlib.sha256()
        self._written: dict[str, tuple[int, tuple[Any, ...]]] = dict.fromkeys((VALUES, *BY_ROUND), (0, ()))

    @property
    def entry(self) -> dict[str, Any]:
        """The file's entry in a manifest."""
        return {"bytes": self.length, "sha256": self._digest.hexdigest()}

    def begins(self, history: History) -> bool:
        """Tell whether the lines are the beginning of a history: of each kind the last one is still in its place."""
        for kind, (count, last) in self._written.items():
            found = _entries(history, kind, count - 1)[:1] if count else [()]
            if not found or any(one is not other for one, other in zip(last, found[0], strict=False)):
                return False
        return True

    def append(self, path: Path, history: History) -> None:
        """Write what is new, in place of what a killed run may have left behind the lines, and flush it to disk."""
        lines = []
        for kind, (count, last) in self._written.items():
            new = _entries(history, kind, count)
            lines += [_line(kind, entry, [*history.values]) for entry in new]
            self._written[kind] = (count + len(new), [last, *new][-1])
        content = "".join(f"{line}\n" for line in lines).encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.truncate(self.length)
            file.seek(self.length)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.length += len(content)
        self._digest.update(content)

    @classmethod
    def read(cls, content: bytes, small: Mapping[str, Any]) -> tuple[HistoryFile, History]:
        """Return the file and the history of verified lines and of the fields that `small_fields` has returned."""
        file, history = cls(), History(**small)
        for line in content.splitlines():
            told = json.loads(line)
            if VALUES in told:
                rows = {name: torch.tensor(row, dtype=torch.float64) for name, row in told[VALUES].items()}
                history.add(told["round"], told["seconds"], rows)
            else:
                kind = next(kind for kind in BY_ROUND if kind in told)
                getattr(history, kind)[told["round"]] = tuple(map(_tensor, told[kind]))
        for kind in file._written:
            entries = _entries(history, kind, 0)
            file._written[kind] = (len(entries), [(), *entries][-1])
        file.length = len(content)
        file._digest.update(content)
        return file, history


def _entries(history: History, kind: str, start: int) -> list[tuple[Any, ...]]:
    """Return what lines of a kind hold, from one on: a round's number, and what was measured then."""
    if kind == VALUES:
        columns: list[list[Any]] = [history.rounds, history.seconds, *history.values.values()]
        return [*zip(*(column[start:] for column in columns), strict=True)]
    return [(round_, *found) for round_, found in islice(getattr(history, kind).items(), start, None)]


def _line(kind: str, entry: tuple[Any, ...], names: list[str]) -> str:
    if kind == VALUES:
        round_, seconds, *rows = entry
        values = {name: row.tolist() for name, row in zip(names, rows, strict=True)}
        return json.dumps({"round": round_, "seconds": seconds, VALUES: values})
    round_, *tensors = entry
    return json.dumps({"round": round_, kind: [*map(_plain, tensors)]})


def _plain(tensor: Tensor) -> dict[str, Any]:
    kind = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": kind, "shape": [*tensor.shape], "values": tensor.flatten().tolist()}


def _tensor(plain: Mapping[str, Any]) -> Tensor:
    return torch.tensor(plain["values"], dtype=vars(torch)[plain["dtype"]]).view(plain["shape"])
