"""Bundles: a folder with a manifest in JSON and a file of tensors, replaced whole or not at all, and verified.

manifest.json                what the folder holds, with format, version and SHA-256 checksums
tensors-<digits>.safetensors its tensors; the digits are the first of its checksum
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from graphcollab.files import PART, write_whole
from graphcollab.train.lock import LOCK, hold_folder
from graphcollab.train.parts import DAMAGES, pack, read_manifest, read_parts, require

__all__ = ["MANIFEST", "read_bundle", "write_bundle"]

MANIFEST, TENSORS = "manifest.json", r"tensors-[0-9a-f]{16}\.safetensors"
OURS = re.compile(rf"manifest\.json|{TENSORS}|\.(manifest\.json|{TENSORS})\.[0-9a-f]+{re.escape(PART)}|\{LOCK}")
PATIENCE = 60.0  # seconds that a writer waits for another one
READS = 3  # how often a bundle is read that is replaced meanwhile

Content = dict[str, Any]


def write_bundle(
    folder: str | Path, kind: str, version: int, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write a bundle into a folder that is not there, empty, or holds one of the same kind, which it replaces.

    Whoever reads meanwhile finds the old one or the new one: the manifest, which names the tensors' file, is renamed
    into place when both are on disk. Of several that write at a time, in any process, one waits for the other.

    Raises:
        FileExistsError: If the folder holds anything else; nothing is changed.
        NotADirectoryError: If a file is in its place.
        InUseError: If somebody else writes to it for more than a minute.
        ValueError: If it cannot be written to.
    """
    folder = Path(folder)
    _require_ours(folder, kind)
    stored, part = pack(tensors)
    name = f"tensors-{part['sha256'][:16]}.safetensors"
    told = {"parts": [{"name": name, **part}], **content}
    manifest = {"format": kind, "version": version, "sha256": _digest(kind, version, told), "content": told}
    text = json.dumps(manifest, indent=1, allow_nan=False).encode()
    with hold_folder(folder, "folder", PATIENCE):
        _require_ours(folder, kind)  # who held it may have put something there
        write_whole(folder / name, stored)
        write_whole(folder / MANIFEST, text)
        for path in folder.iterdir():  # of the bundle that was there, and what was being written when a process died
            if path.name not in (MANIFEST, name, LOCK) and OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)
    return folder


def read_bundle(folder: str | Path, kind: str, version: int) -> tuple[Content, dict[str, Tensor]]:
    """Return what a bundle holds, its tensors on the CPU; nothing is decoded before the checksums were found right.

    Raises:
        FileNotFoundError: If there is no such folder, or no manifest in it.
        ValueError: If it is of another kind or version, or damaged.
    """
    folder = Path(folder)
    for again in reversed(range(READS)):
        if not (folder / MANIFEST).is_file():
            there = "has no manifest.json" if folder.is_dir() else "is a file" if folder.exists() else "is not there"
            raise FileNotFoundError(errno.ENOENT, f"expected a folder of {kind}, but it {there}", str(folder))
        text = _text(folder)
        try:
            return _read(folder, text, kind, version)
        except ValueError:
            if not again or _text(folder) == text:  # else it has been replaced meanwhile
                raise
    raise AssertionError("the last read returns or raises")


def _text(folder: Path) -> bytes:
    """Return the manifest."""
    try:
        return read_manifest(folder / MANIFEST)
    except ValueError as error:
        raise ValueError(f"{folder} is damaged: {error}") from error


def _read(folder: Path, text: bytes, kind: str, version: int) -> tuple[Content, dict[str, Tensor]]:
    """Return what a bundle with this manifest holds."""
    try:
        manifest = json.loads(text)
        found, number = manifest["format"], manifest["version"]
    except DAMAGES as error:
        raise ValueError(f"{folder} is damaged: its {MANIFEST} cannot be read ({error!r})") from error
    if found != kind:
        raise ValueError(f"{folder} holds {found!r}, and {kind!r} was expected")
    if number != version:
        newer = isinstance(number, int) and number > version
        hint = "written by a newer graphcollab: update" if newer else "load it with the graphcollab that wrote it"
        raise ValueError(f"{folder} is of version {number!r} of {kind}, this package reads version {version}: {hint}")
    try:
        content = manifest["content"]
        require(_digest(kind, version, content) == manifest["sha256"], MANIFEST)
        return content, read_parts(folder, content["parts"])
    except (OSError, *DAMAGES) as error:
        raise ValueError(f"{folder} is damaged: {error}") from error


def _require_ours(folder: Path, kind: str) -> None:
    """Refuse a folder that holds something else."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "expected a folder, or nothing there yet; this is a file", str(folder))
    strange = sorted(path.name for path in folder.iterdir() if not OURS.fullmatch(path.name))
    if not strange and (folder / MANIFEST).exists():
        try:
            strange = [] if json.loads(read_manifest(folder / MANIFEST))["format"] == kind else [MANIFEST]
        except DAMAGES:
            strange = [MANIFEST]
    if strange:
        raise FileExistsError(
            errno.EEXIST,
            f"the folder holds something else ({', '.join(map(repr, strange[:3]))}), which is not overwritten: give "
            "another one",
            str(folder),
        )


def _digest(kind: str, version: int, content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(f"{kind} {version}\n{text}".encode()).hexdigest()
