"""Packed files that say something else, with checksums that fit, as somebody may make them who means harm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.packed import BLANK, END, START, _digest
from graphcollab.persistence import History
from graphcollab.persistence.checkpoint import newest
from graphcollab.persistence.saver import Saver

FILES = ("models.safetensors", "state.safetensors", "about.safetensors")


def file_of(folder: Path) -> Path:
    """Return the file of a folder that says what is in it."""
    return next(path for path in map(folder.joinpath, FILES) if path.exists())


def told_by(packed: bytes) -> dict[str, Any]:
    """Return what packed content says, without its checksum."""
    header = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])
    found = json.loads(header["__metadata__"]["graphcollab"])
    del found["sha256"]
    return found


def sealed(packed: bytes) -> bytes:
    """Return packed content, whatever it is, with the right checksum."""
    return packed[:START] + _digest(packed) + packed[END:]


def saying(text: str, tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors, packed with the text of a mapping or of whatever it is."""
    return sealed(save(dict(tensors), {"graphcollab": f'{{"sha256": "{BLANK.decode()}", {text[1:]}'}))


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return what a folder's file says, without its checksum."""
    return told_by(file_of(folder).read_bytes())


def seal(folder: Path, text: str) -> None:
    """Let a folder's file say something else, the text of a mapping or of whatever it is."""
    path = file_of(folder)
    path.write_bytes(saying(text, load(path.read_bytes())))


def forge(folder: Path, content: Any, **fields: Any) -> Path:
    """Write another content into a folder's file, and other fields besides."""
    seal(folder, json.dumps({**manifest_of(folder), **fields, "content": content}))
    return folder


def change(folder: Path, change: Any) -> Path:
    """Change what a folder's file says in place, content or fields."""
    manifest = manifest_of(folder)
    change(manifest)
    seal(folder, json.dumps(manifest))
    return folder


def save_checkpoint(folder: Path, data: Data, history: History, about: dict[str, Any]) -> Path:
    """Write a checkpoint into a run's folder, as a run does that is resumed, and return where it is."""
    saver = Saver(folder)
    saver.resume()
    saver.begin(about, data, afresh=False)
    return saver.save(data, history)


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint that a run would go on from, or None."""
    found = newest(folder)
    return None if found is None else found[0]
