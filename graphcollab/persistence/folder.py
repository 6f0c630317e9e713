"""Folders with tensors in safetensors and everything else in JSON, read completely or not at all.

manifest.json  {"sha256" of the manifest, "format", "version", "files": {name: {"bytes", "sha256"}}, "content"}

All checksums are compared before anything is decoded, and nothing that is read is executed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from graphcollab._base.errors import (
    DamagedError,
    ExistsError,
    FormatError,
    InvalidTypeError,
    MissingFileError,
    VersionError,
)
from graphcollab._base.files import PART, write_new, write_whole
from graphcollab._base.findings import Finding
from graphcollab.comm.relation import Relation
from graphcollab.engine.stack import ParamSpec, Stacks
from graphcollab.nn import MixingEncoder
from graphcollab.persistence.lock import LOCK, hold_folder

MANIFEST, TENSORS = "manifest.json", r"tensors-[0-9a-f]{16}\.safetensors"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # file names, which cannot lead to other folders
OURS = re.compile(rf"manifest\.json|{TENSORS}|\.(manifest\.json|{TENSORS})\.[0-9a-f]+{re.escape(PART)}|\{LOCK}")
MOST = 2**28  # maximum size of a manifest in bytes: that of a million sites is smaller
PATIENCE = 60.0  # seconds that a writer waits for another one
READS = 3  # attempts to read a folder that is replaced meanwhile
DAMAGES = (  # errors that decoding of invalid content may raise
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, SafetensorError, StopIteration, struct.error),
    *(TypeError, ValueError),
)

Content: TypeAlias = dict[str, Any]
Files: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Entries of files in a manifest, by file name."""


def write_file(path: Path, content: bytes) -> dict[str, Any]:
    """Write a new file, and return its manifest entry by name."""
    write_new(path, content)
    return {path.name: _entry(content)}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Write tensors, on any device, into a new file, and return its manifest entry by name."""
    return write_file(path, _packed(tensors))


def entry_of(path: Path) -> dict[str, Any]:
    """Return the manifest entry of a file."""
    with path.open("rb") as opened:
        return {"bytes": _length_of(path), "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def write_manifest(folder: Path, kind: str, version: int, files: Files, content: Mapping[str, Any]) -> None:
    """Replace the manifest, after the files that it names have been written."""
    manifest = {"format": kind, "version": version, "files": files, "content": content}
    write_whole(folder / MANIFEST, _sealed(json.dumps(manifest).encode()))


def write_folder(
    folder: str | Path, kind: str, version: int, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write into a folder that is missing, empty, or of the same kind, whose content is replaced; else an ExistsError.

    Concurrent readers find the old content or the new: the manifest is replaced when the tensors are on disk.
    Concurrent writers, in any process, wait for each other (InUseError after a minute).
    """
    folder = Path(folder)
    _require_kind(folder, kind)
    stored = _packed(tensors)
    entry = _entry(stored)
    name = f"tensors-{entry['sha256'][:16]}.safetensors"
    with hold_folder(folder, "folder", PATIENCE):
        _require_kind(folder, kind)  # another writer may have put something there
        write_whole(folder / name, stored)
        write_manifest(folder, kind, version, {name: entry}, content)
        for path in folder.iterdir():  # the previous content, and files of a killed process
            if path.name not in (MANIFEST, name, LOCK) and OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)
    return folder


def read_folder(folder: str | Path, kind: str, version: int) -> tuple[Content, dict[str, Tensor]]:
    """Return the content and the tensors of a folder, on the CPU; a MissingFileError, or the errors of `verify`."""
    folder = Path(folder)
    for again in reversed(range(READS)):
        if not (folder / MANIFEST).is_file():
            there = f"has no {MANIFEST}" if folder.is_dir() else "is a file" if folder.exists() else "is not there"
            raise MissingFileError(f"folder {folder}", f"expected a folder of {kind}, but {folder} {there}")
        try:
            content, files = verify(folder, kind, version)
            with damage_of(folder):
                return content, read_tensors(folder, files)
        except DamagedError:  # or replaced meanwhile
            if not again:
                raise
    raise AssertionError("the last read returns or raises")


def verify(folder: Path, kind: str, version: int) -> tuple[Content, Files]:
    """Return a manifest's content and files if checksums match; else a DamagedError, FormatError or VersionError."""
    require_version(folder, kind, version)
    manifest = _read_manifest(folder)
    with damage_of(folder):
        found = manifest["format"]
    if found != kind:
        raise FormatError(f"folder {folder}", f"{folder} holds {found!r}, and {kind!r} was expected")
    with damage_of(folder):
        for name, entry in manifest["files"].items():
            _verify_file(folder, name, entry)
        return dict(manifest["content"]), manifest["files"]


def read_tensors(folder: Path, files: Files) -> dict[str, Tensor]:
    """Return the tensors of all verified safetensors files, on the CPU."""
    tensors: dict[str, Tensor] = {}
    for name in files:
        if name.endswith(".safetensors"):
            with safe_open(folder / name, "pt") as stored:
                # a clone has the memory layout of any other tensor, so sums are equal to the last bit
                tensors |= {key: stored.get_tensor(key).clone() for key in stored.keys()}  # noqa: SIM118 - not a dict
    return tensors


def require_version(folder: Path, kind: str, version: int, advice: str = "use the graphcollab that wrote it") -> None:
    """Reject a folder of another version of its format; an unreadable manifest has no version."""
    with suppress(DamagedError):
        manifest = _read_manifest(folder)
        if manifest.get("format") == kind and (found := manifest.get("version")) != version:
            raise VersionError(
                f"folder {folder}",
                f"{folder} is of version {found} of {kind}, this package reads version {version}: {advice}",
            )


def require_own(folder: Path, is_own: Callable[[Path], bool]) -> None:
    """Reject a folder that contains foreign files; an ExistsError names one."""
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
        with suppress(DamagedError):
            return _read_manifest(folder).get("format") == kind
        return False

    require_own(folder, is_own)


def _read_manifest(folder: Path) -> Content:
    """Return the content of a manifest; a DamagedError if it is missing, no regular file, too long, or was changed."""
    with damage_of(folder):
        if (length := _length_of(folder / MANIFEST)) > MOST:
            raise ValueError(f"{MANIFEST} has {length} bytes, expected {MOST} at most")
        found = (folder / MANIFEST).read_bytes()
        text = b"{" + found[len(_sealed(b"{")) :]
        if _sealed(text) != found:
            raise ValueError(f"the checksum of {MANIFEST} does not fit")
        return dict(json.loads(text))


def _sealed(text: bytes) -> bytes:
    """Return the JSON of a mapping with its checksum as the first entry."""
    return b'{"sha256": "%s", ' % _digest(text).encode() + text[1:]


def _verify_file(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a file")
    if (length := _length_of(folder / name)) != entry["bytes"]:  # checked before all of it is read
        raise ValueError(f"{name} has {length} bytes, expected {entry['bytes']}")
    if entry_of(folder / name)["sha256"] != entry["sha256"]:
        raise ValueError(f"the checksum of {name} does not fit")


def _length_of(path: Path) -> int:
    """Return a file's length in bytes; a ValueError if it is a pipe or a device, which have no end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is no regular file")
    return found.st_size


def _packed(tensors: Mapping[str, Tensor]) -> bytes:
    content: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content


def _entry(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": _digest(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_VALUES = {kind.__name__: kind for kind in (Stacks, ParamSpec, Relation, MixingEncoder, Finding)}


def encode(value: Any, name: str, tensors: dict[str, Tensor], copy: bool = True) -> Any:
    """Encode a tensor, plain value, value of the package, or containers of these as JSON; else an InvalidTypeError.

    Tensors are put into ``tensors`` on the CPU (``copy``: in memory of their own), of equal rows only one.
    """
    if isinstance(value, Tensor):
        repeated = value.shape[0] if value.dim() > 1 and value.stride(0) == 0 and value.shape[0] > 1 else 0
        kept = (value[:1] if repeated else value).detach().cpu().contiguous()
        tensors[name] = kept.clone() if copy else kept
        return {"tensor": name, "repeated": repeated}
    if type(value) in _VALUES.values():
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"value": type(value).__name__, "fields": encode(fields, name, tensors, copy)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, bool | int | float | str | None):
                raise InvalidTypeError(
                    name, f"{name} has a key of type {type(key).__name__}, which a checkpoint cannot hold"
                )
        return {"mapping": [[key, encode(item, f"{name}.{key}", tensors, copy)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        items = [encode(item, f"{name}.{i}", tensors, copy) for i, item in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidTypeError(name, f"{name} is a {type(value).__name__}, which a checkpoint cannot hold")


def decode(code: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Invert `encode`."""
    if isinstance(code, list):
        return [decode(item, tensors) for item in code]
    if not isinstance(code, dict):
        return code
    kind, content = next(iter(code.items()))
    if kind == "tensor":
        tensor = tensors[content]
        return tensor.expand(code["repeated"], *tensor.shape[1:]) if code["repeated"] else tensor
    if kind == "value":
        return _VALUES[content](**decode(code["fields"], tensors))
    items = decode(content, tensors)
    return tuple(items) if kind == "tuple" else dict(items)
