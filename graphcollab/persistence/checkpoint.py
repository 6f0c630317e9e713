"""Checkpoints: folders that `train.folder` reads, named by the number of their round.

round-000100/
manifest.json          identity of the run, and the structure of the tensors
state.safetensors      the tensors of the state; in a multi-process run without the rows of nodes' models
rows-00000.safetensors the rows of the nodes of one process, named by its first node; one file per process
history.jsonl          the history, a line per evaluation, recorded graph and score
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.errors import DamagedError, FormatError, MissingFileError
from graphcollab._base.files import PART, own_name
from graphcollab._base.settings import checked
from graphcollab.components.state import join_rows, with_rows
from graphcollab.persistence.folder import (
    damage_of,
    decode,
    encode,
    read_tensors,
    require_version,
    verify,
    write_file,
    write_manifest,
    write_tensors,
)
from graphcollab.persistence.history import History

KIND, VERSION, STATE = "graphcollab-checkpoint", 5, "state.safetensors"
NAME = re.compile(r"round-(\d{6,})(?:-(\d+))?")  # the second number if a round was saved again
ADVICE = (
    "finish the run with the package that wrote it, use another folder, or start afresh with resume=False, which "
    "removes it"
)

HISTORY = "history.jsonl"
VALUES, BY_ROUND = "values", ("graphs", "scores")
GROWING = ("rounds", "seconds", VALUES, *BY_ROUND)

Known: TypeAlias = dict[tuple[Any, ...], tuple[tuple[Any, ...], str]]
"""Lines already made, with their contents, by the identities of these."""
Loaded: TypeAlias = tuple[Data, History, dict[str, Any]]


def write_rows(folder: Path, nodes: Tensor, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of some nodes, [k], and return the entry that `write_checkpoint` needs for them."""
    tensors: dict[str, Tensor] = {}
    name = f"rows-{int(nodes[0]):05d}"
    code = encode({"nodes": nodes, "rows": dict(rows)}, name, tensors)
    return {"files": write_tensors(folder / f"{name}.safetensors", tensors), "rows": code}


def write_checkpoint(
    folder: Path,
    data: Mapping[str, Any],
    history: History,
    about: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]] = (),
    known: Known | None = None,
) -> None:
    """Write a checkpoint except for the ``rows`` that `write_rows` has written, which are not in ``data``."""
    tensors: dict[str, Tensor] = {}
    content = {
        "state": encode({name: data[name] for name in sorted(data)}, "data", tensors),
        "rows": [one["rows"] for one in rows],
        "history": encode(small_fields(history), "history", tensors),
        "about": dict(about),
    }
    files = write_tensors(folder / STATE, tensors)
    for one in rows:
        files |= one["files"]
    files |= write_file(folder / HISTORY, to_lines(history, {} if known is None else known))
    write_manifest(folder, KIND, VERSION, files, content)


@checked
def load_checkpoint(path: str | Path) -> Loaded:
    """Return the state on the CPU, the history and the identity of the run; nothing in the checkpoint is executed.

    The path is that of one checkpoint, such as ``runs/digits/round-000020``.

    Raises:
        MissingFileError: If there is no checkpoint.
        DamagedError, FormatError, VersionError: If it is damaged, something else, or of another version.
    """
    path = Path(path)
    if not path.is_dir():
        raise MissingFileError(f"folder {path}", f"there is no checkpoint at {path}")
    require_version(path, KIND, VERSION, ADVICE)
    content, files = verify(path, KIND, VERSION)
    with damage_of(path):
        tensors = read_tensors(path, files)
        history = from_lines((path / HISTORY).read_bytes(), decode(content["history"], tensors))
        state, rows = decode(content["state"], tensors), [decode(one, tensors) for one in content["rows"]]
        if rows:
            state = with_rows(state, join_rows([(one["nodes"], one["rows"]) for one in rows]))
        return Data(**state), history, dict(content["about"])


def newest(folder: str | Path) -> tuple[Path, Loaded] | None:
    """Return the newest undamaged checkpoint of a run with its content, or None if there is no checkpoint.

    Checkpoints are renamed into place when complete, so damage comes from a disk or a person; a damaged one is skipped
    with a warning. A DamagedError is raised if all are damaged, a VersionError if one is of another version.
    """
    paths, problem = list_checkpoints(folder), None
    for path in paths:  # older ones as well: the run would remove them
        require_version(path, KIND, VERSION, ADVICE)
    for path in reversed(paths):
        try:
            return path, load_checkpoint(path)
        except (DamagedError, FormatError, MissingFileError) as error:
            issue("damaged", f"checkpoint {path.name}", f"{error}; trying the checkpoint before it")
            problem = error
    if problem is not None:
        raise DamagedError(
            "checkpoint",
            f"none of the {len(paths)} checkpoints in {folder} can be read ({problem}): remove them, or start afresh "
            "with resume=False",
        )
    return None


def list_checkpoints(folder: str | Path) -> list[Path]:
    """List the checkpoints in a folder, oldest first; unfinished ones have another name."""
    inside = Path(folder).iterdir() if Path(folder).is_dir() else ()
    found = {path: [int(part or 0) for part in name.groups()] for path in inside if (name := NAME.fullmatch(path.name))}
    return sorted(found, key=lambda path: found[path])


def is_stale(path: Path) -> bool:
    """Return whether a name is that of an unfinished checkpoint."""
    return path.name.startswith(".round-") and path.name.endswith(PART)


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint; it is renamed first, so it exists completely or not at all."""
    if path.is_dir() and not path.is_symlink():
        path = path if is_stale(path) else path.rename(own_name(path))
        shutil.rmtree(path)
    else:
        path.unlink()


def small_fields(history: History) -> dict[str, Any]:
    """Return the fields that do not grow with the rounds, which are stored in the manifest."""
    return {name: value for name, value in vars(history).items() if name not in GROWING}


def to_lines(history: History, known: Known) -> bytes:
    """Return a history's lines, reusing those in ``known`` and adding others; entries must not be changed in place."""
    before = dict(known)
    known.clear()
    for kind in (VALUES, *BY_ROUND):
        for entry in _entries(history, kind):
            key = (kind, *map(id, entry))
            known[key] = before.get(key) or (entry, _line(kind, entry, [*history.values]))
    return "".join(line for _, line in known.values()).encode()


def from_lines(content: bytes, small: Mapping[str, Any]) -> History:
    """Return the history, given its lines and the fields of `small_fields`."""
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
