"""Checkpoints: folders of packed files, named by the number of their round.

round-000100/
state.safetensors      identity of the run, state and history; in a multi-process run without the rows of nodes' models
rows-00000.safetensors the rows of the nodes of one process, named by its first node; one file per process
"""

from __future__ import annotations

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
from graphcollab._base.files import PART, own_name, write_new
from graphcollab._base.packed import checksum_of, damage_of, pack, read_packed, unpack
from graphcollab._base.settings import checked
from graphcollab.components.state import join_rows, with_rows
from graphcollab.persistence.folder import decode, encode
from graphcollab.persistence.history import History

KIND, VERSION, STATE = "graphcollab-checkpoint", 6, "state.safetensors"
NAME = re.compile(r"round-(\d{6,})(?:-(\d+))?")  # the second number if a round was saved again
ROWS = re.compile(r"rows-\d{5,}\.safetensors")  # names that lead to no other folders
ADVICE = (
    "finish the run with the package that wrote it, use another folder, or start afresh with resume=False, which "
    "removes it"
)

Loaded: TypeAlias = tuple[Data, History, dict[str, Any]]


def write_rows(folder: Path, nodes: Tensor, rows: Mapping[str, Any]) -> dict[str, str]:
    """Write the rows of some nodes, [k], and return the name and the checksum of their file."""
    tensors: dict[str, Tensor] = {}
    code = encode({"nodes": nodes, "rows": dict(rows)}, "rows", tensors, copy=False)
    packed, name = pack(KIND, VERSION, code, tensors), f"rows-{int(nodes[0]):05d}.safetensors"
    write_new(folder / name, packed)
    return {"file": name, "sha256": checksum_of(packed)}


def write_checkpoint(
    folder: Path,
    data: Mapping[str, Any],
    history: History,
    about: Mapping[str, Any],
    rows: Sequence[Mapping[str, str]] = (),
) -> None:
    """Write a checkpoint except for the ``rows`` that `write_rows` has written, which are not in ``data``."""
    tensors: dict[str, Tensor] = {}
    content = {
        "state": encode({name: data[name] for name in sorted(data)}, "data", tensors, copy=False),
        "history": encode(_stacked(history), "history", tensors, copy=False),
        "rows": [*rows],
        "about": dict(about),
    }
    write_new(folder / STATE, pack(KIND, VERSION, content, tensors))


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
    subject = f"folder {path}"
    with damage_of(subject):
        packed = read_packed(path / STATE)
    content, tensors = unpack(packed, KIND, VERSION, subject, ADVICE)
    with damage_of(subject):
        history = _unstacked(decode(content["history"], tensors))
        state, rows = decode(content["state"], tensors), [_read_rows(path, **one) for one in content["rows"]]
        if rows:
            state = with_rows(state, join_rows([(one["nodes"], one["rows"]) for one in rows]))
        return Data(**state), history, dict(content["about"])


def _read_rows(path: Path, file: str, sha256: str) -> dict[str, Any]:
    if not ROWS.fullmatch(file):
        raise ValueError(f"{file!r} is no name of a file of rows")
    packed = read_packed(path / file)
    if checksum_of(packed) != sha256:
        raise ValueError(f"{file} belongs to another checkpoint")
    found: dict[str, Any] = decode(*unpack(packed, KIND, VERSION, f"file {path / file}"))
    return found


def _stacked(history: History) -> dict[str, Any]:
    """Return a history's fields, with the values of all evaluations in one tensor, [T, K]."""
    values = {name: torch.stack(rows) for name, rows in history.values.items() if rows}
    return {**vars(history), "values": values}


def _unstacked(fields: Mapping[str, Any]) -> History:
    return History(**{**fields, "values": {name: [*rows.unbind()] for name, rows in fields["values"].items()}})


def newest(folder: str | Path) -> tuple[Path, Loaded] | None:
    """Return the newest undamaged checkpoint with its content, or None; a DamagedError if all are damaged."""
    paths, found, problem = list_checkpoints(folder), None, None
    for path in reversed(paths):
        try:
            loaded = load_checkpoint(path)  # older ones as well: the run would remove one of another version
            found = found or (path, loaded)
        except (DamagedError, FormatError, MissingFileError) as error:
            problem = error
            if found is None:
                issue("damaged", f"checkpoint {path.name}", f"{error}; trying the checkpoint before it")
    if found is None and problem is not None:
        raise DamagedError(
            "checkpoint",
            f"none of the {len(paths)} in {folder} can be read ({problem}): start afresh with resume=False",
        )
    return found


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
