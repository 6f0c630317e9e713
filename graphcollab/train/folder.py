"""Folders of tensors in safetensors and everything else in JSON, read whole or not at all.

manifest.json  {"format", "version", "sha256" of the manifest, "files": {name: {"bytes", "sha256"}}, "content"}

All checksums are compared before anything is decoded, and nothing that is read is executed. A file of JSON lines may
have grown since: its first bytes count.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from graphcollab.errors import DamagedError, ExistsError, FormatError, MissingFileError, VersionError
from graphcollab.files import PART, write_whole
from graphcollab.train.lock import LOCK, hold_folder

MANIFEST, LINES, TENSORS = "manifest.json", ".jsonl", r"tensors-[0-9a-f]{16}\.safetensors"
HEAD = re.compile(rb'\{"format": "([\w-]+)", "version": (\d{1,9})\b(?:, "sha256": "([0-9a-f]{64})")?')
BLANK = "0" * 64  # in the place of the manifest's own checksum
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of files, which leads to no other folder
OURS = re.compile(rf"manifest\.json|{TENSORS}|\.(manifest\.json|{TENSORS})\.[0-9a-f]+{re.escape(PART)}|\{LOCK}")
MOST = 2**28  # bytes of a manifest: that of a million sites has less
PATIENCE = 60.0  # seconds that a writer waits for another one
READS = 3  # how often a folder is read that is replaced meanwhile
DAMAGES = (  # what decoding may end in if the content was made up
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, SafetensorError, StopIteration, struct.error),
    *(TypeError, ValueError),
)

Content: TypeAlias = dict[str, Any]
Files: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The entries of files in a manifest, by their names."""


def pack(tensors: Mapping[str, Tensor]) -> tuple[bytes, dict[str, Any]]:
    """Return a file's content and its entry in a manifest; tensors may be on any device."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content, {"bytes": len(content), "sha256": _digest(content)}


def entry_of(path: Path) -> dict[str, Any]:
    """Return a file's entry in a manifest."""
    with path.open("rb") as opened:
        return {"bytes": _length_of(path), "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def write_manifest(folder: Path, kind: str, version: int, files: Files, content: Mapping[str, Any]) -> None:
    """Write a manifest in place of the one before, after the files that it names."""
    manifest = {"format": kind, "version": version, "sha256": BLANK, "files": files, "content": content}
    text = json.dumps(manifest)
    write_whole(folder / MANIFEST, text.replace(BLANK, _digest(text.encode()), 1).encode())


def write_folder(
    folder: str | Path, kind: str, version: int, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write into a folder that is missing, empty, or of the same kind, whose content is replaced.

    A concurrent reader finds the old content or the new one: the manifest is replaced when the file of tensors is on
    disk. Concurrent writers, in any process, wait for each other.

    Raises:
        ExistsError: If the folder holds anything else; nothing is changed.
        InUseError: If another writer holds it for more than a minute.
        InvalidValueError: If it cannot be written to.
    """
    folder = Path(folder)
    _require_kind(folder, kind)
    stored, entry = pack(tensors)
    name = f"tensors-{entry['sha256'][:16]}.safetensors"
    with hold_folder(folder, "folder", PATIENCE):
        _require_kind(folder, kind)  # another writer may have put something there
        write_whole(folder / name, stored)
        write_manifest(folder, kind, version, {name: entry}, content)
        for path in folder.iterdir():  # the content before, and files that a killed process was writing
            if path.name not in (MANIFEST, name, LOCK) and OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)
    return folder


def read_folder(folder: str | Path, kind: str, version: int) -> tuple[Content, dict[str, Tensor]]:
    """Return the content and the tensors of a folder, on the CPU.

    Raises:
        MissingFileError: If there is no such folder, or no manifest in it.
        DamagedError, FormatError, VersionError: As `verify` does.
    """
    folder = Path(folder)
    for again in reversed(range(READS)):
        if not (folder / MANIFEST).is_file():
            there = f"has no {MANIFEST}" if folder.is_dir() else "is a file" if folder.exists() else "is not there"
            raise MissingFileError(f"folder {folder}", f"expected a folder of {kind}, but {folder} {there}")
        text = _read_manifest(folder)
        try:
            content, files = verify(folder, kind, version)
            with damage_of(folder):
                return content, read_tensors(folder, files)
        except DamagedError:
            if not again or _read_manifest(folder) == text:  # else it was replaced meanwhile
                raise
    raise AssertionError("the last read returns or raises")


def verify(folder: Path, kind: str, version: int) -> tuple[Content, Files]:
    """Return a manifest's content and its entries of files, all of whose checksums fit.

    Raises:
        DamagedError: If the manifest or a file is missing or was changed.
        FormatError: If the folder is of another kind.
        VersionError: If it is of another version of its format.
    """
    require_version(folder, kind, version)
    text = _read_manifest(folder)
    with damage_of(folder):
        if not _fits(text):
            raise ValueError(f"the checksum of {MANIFEST} does not fit")
        manifest = json.loads(text)
        found = manifest["format"], manifest["version"]
    if found != (kind, version):
        raise FormatError(f"folder {folder}", f"{folder} holds {found[0]!r}, and {kind!r} was expected")
    with damage_of(folder):
        for name, entry in manifest["files"].items():
            _verify_file(folder, name, entry)
        return dict(manifest["content"]), manifest["files"]


def read_tensors(folder: Path, files: Files) -> dict[str, Tensor]:
    """Return the tensors of all verified files of safetensors, on the CPU."""
    tensors: dict[str, Tensor] = {}
    for name in files:
        if not name.endswith(LINES):
            with safe_open(folder / name, "pt") as stored:
                # a clone has the memory layout of any other tensor, so sums come out the same to the last bit
                tensors |= {key: stored.get_tensor(key).clone() for key in stored.keys()}  # noqa: SIM118 - not a dict
    return tensors


def require_version(folder: Path, kind: str, version: int, advice: str = "use the graphcollab that wrote it") -> None:
    """Refuse a folder of another version of its format; a manifest that cannot be read has none."""
    try:
        text = _read_manifest(folder)
    except DamagedError:
        return
    head = HEAD.match(text)
    if head is None or head[1] != kind.encode() or int(head[2]) == version:
        return
    if head[3] and not _fits(text):  # a disk has changed the number
        return
    raise VersionError(
        f"folder {folder}",
        f"{folder} is of version {int(head[2])} of {kind}, this package reads version {version}: {advice}",
    )


def require_own(folder: Path, is_own: Callable[[Path], bool]) -> None:
    """Refuse to write into a folder with anything that is not one's own; an ExistsError names it."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ExistsError(f"folder {folder}", f"expected a folder, or nothing there yet, and {folder} is a file")
    strange = sorted(path.name for path in folder.iterdir() if not is_own(path))
    if strange:
        raise ExistsError(
            f"folder {folder}",
            f"{folder} holds something else ({', '.join(map(repr, strange[:3]))}), which is not overwritten: give "
            "another folder",
        )


@contextmanager
def damage_of(folder: Path) -> Iterator[None]:
    """Turn errors of reading and decoding into a DamagedError."""
    try:
        yield
    except (OSError, *DAMAGES) as error:
        raise DamagedError(f"folder {folder}", f"{folder} is damaged: {type(error).__name__} {error}") from error


def _require_kind(folder: Path, kind: str) -> None:
    def is_own(path: Path) -> bool:
        if path.name != MANIFEST:
            return OURS.fullmatch(path.name) is not None
        try:
            head = HEAD.match(_read_manifest(folder))
        except DamagedError:
            return False
        return head is not None and head[1] == kind.encode()

    require_own(folder, is_own)


def _read_manifest(folder: Path) -> bytes:
    """Return a manifest's bytes; a DamagedError if it is missing, no regular file, or longer than any."""
    with damage_of(folder):
        if (length := _length_of(folder / MANIFEST)) > MOST:
            raise ValueError(f"{MANIFEST} has {length} bytes, expected {MOST} at most")
        return (folder / MANIFEST).read_bytes()


def _verify_file(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a file")
    path, expected = folder / name, entry["bytes"]
    length = _length_of(path)
    if length != expected and not (name.endswith(LINES) and 0 <= expected < length):  # before all of it is read
        raise ValueError(f"{name} has {length} bytes, expected {expected}")
    if length == expected:
        found = entry_of(path)["sha256"]
    else:
        with path.open("rb") as opened:
            found = _digest(opened.read(expected))
    if found != entry["sha256"]:
        raise ValueError(f"the checksum of {name} does not fit")


def _length_of(path: Path) -> int:
    """Return a file's length in bytes; a ValueError if it is a pipe or a device, which do not end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is no regular file")
    return found.st_size


def _fits(text: bytes) -> bool:
    """Tell whether a manifest has its own checksum."""
    head = HEAD.match(text)
    if head is None or not head[3]:
        return False
    return _digest(text.replace(head[3], BLANK.encode(), 1)) == head[3].decode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
