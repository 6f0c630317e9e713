"""Folders whose manifests say something else, with checksums that fit, as somebody may make them who means harm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from graphcollab.train.folder import MANIFEST

BLANK = "0" * 64


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return what a manifest says, with its checksum."""
    return json.loads((folder / MANIFEST).read_bytes())


def seal(folder: Path, text: str) -> None:
    """Write a manifest that has 64 zeros in the place of its checksum, with the right one."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / MANIFEST).write_text(text.replace(BLANK, digest, 1))


def forge(folder: Path, content: Any, **fields: Any) -> Path:
    """Write another content into a manifest, and other fields besides."""
    seal(folder, json.dumps({**manifest_of(folder), **fields, "content": content, "sha256": BLANK}))
    return folder


def change(folder: Path, change: Any) -> Path:
    """Change what a manifest says in place, content or fields."""
    manifest = manifest_of(folder)
    change(manifest)
    seal(folder, json.dumps({**manifest, "sha256": BLANK}))
    return folder
