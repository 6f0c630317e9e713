"""Folders whose manifests say something else, with checksums that fit, as somebody may make them who means harm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab.persistence import History
from graphcollab.persistence.checkpoint import newest
from graphcollab.persistence.folder import MANIFEST
from graphcollab.persistence.saver import Saver


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return what a manifest says, without its checksum."""
    found = json.loads((folder / MANIFEST).read_bytes())
    del found["sha256"]
    return found


def seal(folder: Path, text: str) -> None:
    """Write a manifest, the text of a mapping or of whatever it is, with the right checksum."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / MANIFEST).write_text(f'{{"sha256": "{digest}", {text[1:]}')


def forge(folder: Path, content: Any, **fields: Any) -> Path:
    """Write another content into a manifest, and other fields besides."""
    seal(folder, json.dumps({**manifest_of(folder), **fields, "content": content}))
    return folder


def change(folder: Path, change: Any) -> Path:
    """Change what a manifest says in place, content or fields."""
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
