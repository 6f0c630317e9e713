"""Histories as JSON lines: one for every evaluation, recorded graph and score."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphcollab.train.history import History

HISTORY = "history.jsonl"
VALUES, BY_ROUND = "values", ("graphs", "scores")
GROWING = ("rounds", "seconds", VALUES, *BY_ROUND)

Known: TypeAlias = dict[tuple[Any, ...], tuple[tuple[Any, ...], str]]
"""Lines that were made, with what they hold, by the identities of that."""


def small_fields(history: History) -> dict[str, Any]:
    """Return the fields that do not grow with the rounds, which are in the manifest."""
    return {name: value for name, value in vars(history).items() if name not in GROWING}


def to_lines(history: History, known: Known) -> bytes:
    """Return a history's lines, reusing those ``known`` and adding others; entries must not be changed in place."""
    before = dict(known)
    known.clear()
    for kind in (VALUES, *BY_ROUND):
        for entry in _entries(history, kind):
            key = (kind, *map(id, entry))
            known[key] = before.get(key) or (entry, _line(kind, entry, [*history.values]))
    return "".join(line for _, line in known.values()).encode()


def from_lines(content: bytes, small: Mapping[str, Any]) -> History:
    """Return the history of lines and of the fields that `small_fields` has returned."""
    history = History(**small)
    for line in content.splitlines():
        told = json.loads(line)
        if VALUES in told:
            rows = {name: torch.tensor(row, dtype=torch.float64) for name, row in told[VALUES].items()}
            history.add(told["round"], told["seconds"], rows)
        else:
            kind = next(kind for kind in BY_ROUND if kind in told)
            getattr(history, kind)[told["round"]] = tuple(map(_tensor, told[kind]))
    return history


def _entries(history: History, kind: str) -> list[tuple[Any, ...]]:
    if kind == VALUES:
        return [*zip(history.rounds, history.seconds, *history.values.values(), strict=True)]
    return [(round_, *found) for round_, found in getattr(history, kind).items()]


def _line(kind: str, entry: tuple[Any, ...], names: list[str]) -> str:
    if kind == VALUES:
        round_, seconds, *rows = entry
        values = {name: row.tolist() for name, row in zip(names, rows, strict=True)}
        return json.dumps({"round": round_, "seconds": seconds, VALUES: values}) + "\n"
    round_, *tensors = entry
    return json.dumps({"round": round_, kind: [*map(_plain, tensors)]}) + "\n"


def _plain(tensor: Tensor) -> dict[str, Any]:
    kind = str(tensor.dtype).removeprefix("torch.")
    return {"dtype": kind, "shape": [*tensor.shape], "values": tensor.flatten().tolist()}


def _tensor(plain: Mapping[str, Any]) -> Tensor:
    return torch.tensor(plain["values"], dtype=vars(torch)[plain["dtype"]]).view(plain["shape"])
