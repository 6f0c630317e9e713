"""The files of tensors that a manifest names, and verified reading of them."""

from __future__ import annotations

import hashlib
import re
import stat
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

__all__ = ["DAMAGES", "inside", "length_of", "pack", "read_manifest", "read_parts", "require"]

MOST = 2**28  # bytes of a manifest: that of a million sites has less

DAMAGES = (  # what decoding may end in where somebody has made the content up
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, SafetensorError, StopIteration, struct.error),
    *(TypeError, ValueError),
)


def pack(tensors: Mapping[str, Tensor]) -> tuple[bytes, dict[str, Any]]:
    """Return a file's content, and what a manifest says of it, but for its name; tensors may be on any device."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    return content, {"length": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def read_parts(folder: Path, parts: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the tensors of all files, on the CPU; a ValueError, before any is decoded, where one has changed."""
    if len({part["name"] for part in parts}) < len(parts):
        raise ValueError("a part is listed twice")
    for part in parts:
        path = inside(folder, part["name"])
        if (length := length_of(path)) != part["length"]:  # before all of it is read
            raise ValueError(f"{path.name} has {length} bytes, expected {part['length']}")
        with path.open("rb") as opened:
            require(hashlib.file_digest(opened, "sha256").hexdigest() == part["sha256"], part["name"])
    tensors: dict[str, Tensor] = {}
    for part in parts:
        with safe_open(folder / part["name"], "pt") as stored:
            # a clone has the memory layout of any other tensor, so sums come out the same to the last bit
            tensors |= {name: stored.get_tensor(name).clone() for name in stored.keys()}  # noqa: SIM118 - not a dict
    return tensors


def length_of(path: Path) -> int:
    """Return a file's length in bytes; a ValueError if it is none that ends, such as a pipe or a device."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path.name} is no regular file")
    return found.st_size


def read_manifest(path: Path) -> bytes:
    """Return a manifest; a ValueError if it is no regular file, or longer than any."""
    if (length := length_of(path)) > MOST:
        raise ValueError(f"{path.name} has {length} bytes, expected {MOST} at most")
    return path.read_bytes()


def require(fits: bool, name: str) -> None:
    """Refuse what is not as a checksum says."""
    if not fits:
        raise ValueError(f"the checksum of {name} does not fit")


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file that a manifest names, which leads to no other folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name):
        raise ValueError(f"{name!r} is no name of a part")
    return folder / name
