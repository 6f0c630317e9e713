"""Checkpoints: folders with a manifest and parts, written whole or not at all, and verified before they are decoded.

round-000100/
manifest.json          one line with format and SHA-256, then JSON: what the run is, and what the parts hold
part-00000.safetensors the tensors of the state, in a run of several processes without the rows of nodes' models
rows-00000.safetensors the rows of the nodes of one process, named by the first of them; one file for each process
history.log            the history; its first bytes, as many as the manifest says (see `Journal`)
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.shares import join_rows, with_rows
from graphcollab.files import own_name, write_new
from graphcollab.settings import checked
from graphcollab.train.history import History
from graphcollab.train.journal import LOG, Journal, decode, encode
from graphcollab.train.parts import DAMAGES, inside, length_of, pack, read_manifest, read_parts, require

__all__ = [
    "is_stale",
    "latest_checkpoint",
    "list_checkpoints",
    "load_checkpoint",
    "newest",
    "read_checkpoint",
    "remove_checkpoint",
    "write_checkpoint",
    "write_rows",
]

FORMAT, VERSION = "graphcollab-checkpoint", 4
MANIFEST, PART = "manifest.json", "part-00000.safetensors"
NAME = re.compile(r"round-(\d{6,})(?:-(\d+))?")  # the second number where a round was saved again

Loaded = tuple[Data, History, dict[str, Any]]


def write_rows(folder: Path, nodes: Tensor, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of some nodes, [k], and return what the manifest is to say of them."""
    tensors: dict[str, Tensor] = {}
    name = f"rows-{int(nodes[0]):05d}"
    state = encode({"nodes": nodes, "rows": dict(rows)}, name, tensors)
    stored, part = pack(tensors)
    write_new(folder / f"{name}.safetensors", stored)
    return {"part": {"name": f"{name}.safetensors", **part}, "state": state}


def write_checkpoint(
    folder: Path,
    data: Mapping[str, Any],
    history: History,
    about: Mapping[str, Any],
    journal: Journal,
    rows: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the state and the manifest into a folder, which holds the history's file already, flushed.

    Where ``rows`` are in files of their own, these are what `write_rows` has returned, and the ``data`` lack them.
    """
    tensors: dict[str, Tensor] = {}
    state = encode({name: data[name] for name in sorted(data)}, "data", tensors)
    rest = encode(journal.rest(history), "history", tensors)
    stored, part = pack(tensors)
    write_new(folder / PART, stored)
    content = {
        "round": data["round"],
        "parts": [{"name": PART, **part}, *(one["part"] for one in rows)],
        "log": {"name": LOG, "length": journal.length, "sha256": journal.digest, "tracks": journal.tracks},
        "data": state,
        "rows": [one["state"] for one in rows],
        "history": rest,
        "about": dict(about),
    }
    text = json.dumps(content).encode()
    write_new(folder / MANIFEST, _head(text) + text)


def read_checkpoint(path: Path) -> tuple[Loaded, Journal]:
    """Read a checkpoint as `load_checkpoint` does; nothing is decoded before all checksums were found right."""
    if path.is_file():
        raise ValueError(f"{path} is no checkpoint; a checkpoint ({FORMAT} {VERSION}) is a folder with a {MANIFEST}")
    if not path.is_dir():
        raise FileNotFoundError(f"there is no checkpoint at {path}")
    _require_version(path)
    try:
        head, _, text = read_manifest(path / MANIFEST).partition(b"\n")
        require(head + b"\n" == _head(text), MANIFEST)
        content = json.loads(text)
        tensors = read_parts(path, content["parts"])
        log = content["log"]
        length = length_of(inside(path, log["name"]))
        if not 0 <= log["length"] <= length:  # later checkpoints may have added to it
            raise ValueError(f"{log['name']} has {length} bytes, expected {log['length']} or more")
        with inside(path, log["name"]).open("rb") as opened:
            grown = opened.read(log["length"])
        require(hashlib.sha256(grown).hexdigest() == log["sha256"], log["name"])
        journal, history = Journal.read(grown, log["tracks"], decode(content["history"], tensors))
        state, apart = decode(content["data"], tensors), [decode(one, tensors) for one in content["rows"]]
        if apart:
            state = with_rows(state, join_rows([(one["nodes"], one["rows"]) for one in apart]))
        return (Data(**state), history, dict(content["about"])), journal
    except OSError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    except DAMAGES as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__} {error}") from error


@checked
def load_checkpoint(path: str | Path) -> Loaded:
    """Return the state on the CPU, the history and what the run was; nothing in the checkpoint is executed.

    The path is that of one checkpoint, such as ``runs/digits/round-000020``; see `latest_checkpoint`. Without a
    checkpoint it is a FileNotFoundError; a ValueError if it is something else, of another version, or damaged.
    """
    return read_checkpoint(Path(path))[0]


@checked
def latest_checkpoint(folder: str | Path) -> Path | None:
    """Return the newest undamaged checkpoint of a run, or None where there is no checkpoint.

    Checkpoints are renamed into place only when they are whole, so a damaged one is the work of a disk or of somebody;
    it is passed over with a warning. All of it is read to tell. If all are damaged that is a ValueError, and so is one
    of another version of the format.
    """
    found = newest(folder)
    return None if found is None else found[0]


def newest(folder: str | Path) -> tuple[Path, Loaded, Journal] | None:
    """Return the newest undamaged checkpoint with its content; see `latest_checkpoint`."""
    paths, problem = list_checkpoints(folder), None
    for path in paths:  # older ones as well: the run would remove them
        _require_version(path)
    for path in reversed(paths):
        try:
            return path, *read_checkpoint(path)
        except (ValueError, FileNotFoundError) as error:
            warnings.warn(f"{error}; trying the checkpoint before it", RuntimeWarning, stacklevel=3)
            problem = error
    if problem is not None:
        raise ValueError(
            f"none of the {len(paths)} checkpoints in {folder} can be read ({problem}): remove them, or start afresh "
            "with resume=False"
        )
    return None


def list_checkpoints(folder: str | Path) -> list[Path]:
    """List the checkpoints in a folder, oldest first; those still being written have another name."""
    inside = Path(folder).iterdir() if Path(folder).is_dir() else ()
    found = {path: [int(part or 0) for part in name.groups()] for path in inside if (name := NAME.fullmatch(path.name))}
    return sorted(found, key=lambda path: found[path])


def is_stale(path: Path) -> bool:
    """Tell whether a name is that of a checkpoint that was being written."""
    return re.fullmatch(r"\.round-.*\.part", path.name) is not None


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint; it loses its name first, so it is there whole or not at all."""
    if path.is_dir() and not path.is_symlink():
        path = path if is_stale(path) else path.rename(own_name(path))
        shutil.rmtree(path)
    else:
        path.unlink()


def _require_version(path: Path) -> None:
    """Check that a checkpoint does not say that it is of another version; what cannot be read says nothing."""
    try:
        head, _, text = read_manifest(path / MANIFEST).partition(b"\n")
    except (OSError, ValueError):
        return
    if head.endswith(_head(text).split()[-1]):  # one of ours, whose number a disk has changed
        return
    if (other := re.match(rb"%s (\d{1,9})\s" % FORMAT.encode(), head)) and int(other[1]) != VERSION:
        raise ValueError(
            f"{path} is of version {int(other[1])} of the format, this package reads version {VERSION}: finish the run "
            "with the package that wrote it, use another folder, or start afresh with resume=False, which removes it"
        )


def _head(text: bytes) -> bytes:
    digest = hashlib.sha256(f"{FORMAT} {VERSION}\n".encode() + text).hexdigest()
    return f"{FORMAT} {VERSION} {digest}\n".encode()
