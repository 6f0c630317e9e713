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

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from graphcollab.files import PART, write_whole

__all__ = ["read_bundle", "write_bundle"]

MANIFEST, TENSORS = "manifest.json", re.compile(r"tensors-[0-9a-f]{16}\.safetensors")
OURS = re.compile(rf"manifest\.json|{TENSORS.pattern}|\.(manifest\.json|{TENSORS.pattern})\.[0-9a-f]+{re.escape(PART)}")

Content = dict[str, Any]


def write_bundle(
    folder: str | Path, kind: str, version: int, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write a bundle into a folder that is not there, empty, or holds one of the same kind, which it replaces.

    Whoever reads meanwhile finds the old one or the new one: the manifest, which names the tensors' file, is renamed
    into place when both are on disk.

    Raises:
        FileExistsError: If the folder holds anything else; nothing is changed.
        NotADirectoryError: If a file is in its place.
    """
    folder = Path(folder)
    _require_ours(folder, kind)
    stored = save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
    digest = hashlib.sha256(stored).hexdigest()
    name = f"tensors-{digest[:16]}.safetensors"
    told = {"parts": [{"name": name, "length": len(stored), "sha256": digest}], **content}
    manifest = {"format": kind, "version": version, "sha256": _digest(kind, version, told), "content": told}
    write_whole(folder / name, stored)
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1, allow_nan=False).encode())
    for path in folder.iterdir():  # of the bundle that was there, and what was being written when a process died
        if OURS.fullmatch(path.name) and path.name not in (MANIFEST, name):
            path.unlink(missing_ok=True)
    return folder


def read_bundle(folder: str | Path, kind: str, version: int) -> tuple[Content, dict[str, Tensor]]:
    """Return what a bundle holds, its tensors on the CPU; nothing is decoded before the checksums were found right.

    Raises:
        FileNotFoundError: If there is no such folder, or no manifest in it.
        ValueError: If it is of another kind or version, or damaged.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        there = "has no manifest.json" if folder.is_dir() else "is a file" if folder.exists() else "is not there"
        raise FileNotFoundError(errno.ENOENT, f"expected a folder of {kind}, but it {there}", str(folder))
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        found, number = manifest["format"], manifest["version"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{folder} is damaged: its {MANIFEST} cannot be read ({error!r})") from error
    if found != kind:
        raise ValueError(f"{folder} holds {found!r}, and {kind!r} was expected")
    if number != version:
        newer = isinstance(number, int) and number > version
        hint = "written by a newer graphcollab: update" if newer else "load it with the graphcollab that wrote it"
        raise ValueError(f"{folder} is of version {number!r} of {kind}, this package reads version {version}: {hint}")
    try:
        content = manifest["content"]
        _require(_digest(kind, version, content) == manifest["sha256"], MANIFEST)
        tensors: dict[str, Tensor] = {}
        for part in content["parts"]:
            _require(TENSORS.fullmatch(part["name"]) is not None, f"the name {part['name']!r}")
            with (folder / part["name"]).open("rb") as opened:
                _require(hashlib.file_digest(opened, "sha256").hexdigest() == part["sha256"], part["name"])
            with safe_open(folder / part["name"], "pt") as file:
                tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{folder} is damaged: {error}") from error
    return content, tensors


def _require_ours(folder: Path, kind: str) -> None:
    """Refuse a folder that holds something else."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "expected a folder, or nothing there yet; this is a file", str(folder))
    strange = sorted(path.name for path in folder.iterdir() if not OURS.fullmatch(path.name))
    if not strange and (folder / MANIFEST).exists():
        try:
            strange = [] if json.loads((folder / MANIFEST).read_bytes())["format"] == kind else [MANIFEST]
        except (ValueError, LookupError, TypeError, RecursionError):
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


def _require(fits: bool, name: str) -> None:
    if not fits:
        raise ValueError(f"the checksum of {name} does not fit")
