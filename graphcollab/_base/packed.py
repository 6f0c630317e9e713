"""Packed content: tensors and JSON as one safetensors file with a checksum; nothing that is read is executed.

The metadata of the file have one entry, a JSON text {"sha256", "format", "version", "content"}. The checksum is that of
the whole file with zeros in its own place, and is compared before anything is decoded.
"""

from __future__ import annotations

import hashlib
import json
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from graphcollab._base.errors import DamagedError, FormatError, VersionError

BEGINNING = b'{"__metadata__":{"graphcollab":"{\\"sha256\\": \\"'
START = 8 + len(BEGINNING)
END = START + hashlib.sha256().digest_size * 2
BLANK = b"0" * (END - START)
DAMAGES = (  # errors that decoding of invalid content may raise
    *(ArithmeticError, AttributeError, LookupError, RuntimeError, SafetensorError, StopIteration, struct.error),
    *(TypeError, ValueError),
)


def pack(kind: str, version: int, content: Any, tensors: Mapping[str, Tensor]) -> bytes:
    """Return content that JSON can hold and tensors, on any device, as bytes of a kind and a version."""
    told = {"sha256": BLANK.decode(), "format": kind, "version": version, "content": content}
    plain = {name: one.detach().cpu().clone(memory_format=torch.contiguous_format) for name, one in tensors.items()}
    blank = save(plain, {"graphcollab": json.dumps(told)})
    return b"".join([blank[:START], _digest(blank), memoryview(blank)[END:]])


def unpack(
    packed: bytes, kind: str, version: int, subject: str, advice: str = "use the graphcollab that wrote it"
) -> tuple[Any, dict[str, Tensor]]:
    """Return the content and the tensors, on the CPU.

    Raises:
        DamagedError: If the bytes are not those that were packed; ``subject`` names them.
        FormatError: If they are of another kind.
        VersionError: If they are of another version.
    """
    with damage_of(subject):
        if not is_whole(packed):
            raise ValueError("its checksum does not fit")
        length = int.from_bytes(packed[:8], "little")
        told = json.loads(json.loads(packed[8 : 8 + length])["__metadata__"]["graphcollab"])
        found, number = told["format"], told["version"]
    if found != kind:
        raise FormatError(subject, f"{subject} holds {found!r}, and {kind!r} was expected")
    if number != version:
        raise VersionError(
            subject, f"{subject} is of version {number} of {kind}, this package reads version {version}: {advice}"
        )
    with damage_of(subject):  # a clone has the memory layout of any other tensor, so sums are equal to the last bit
        return told["content"], {name: tensor.clone() for name, tensor in sorted(load(packed).items())}


def is_whole(packed: bytes) -> bool:
    """Return whether bytes are packed content with the right checksum."""
    return packed.startswith(BEGINNING, 8) and packed[START:END] == _digest(packed)


def checksum_of(packed: bytes) -> str:
    """Return the checksum that packed content holds."""
    return packed[START:END].decode(errors="replace")


def is_packed(path: Path) -> bool:
    """Return whether a file begins as packed content does."""
    with path.open("rb") as file:
        return file.read(START)[8:] == BEGINNING


def read_packed(path: Path) -> bytes:
    """Return the bytes of a file of packed content; a ValueError if it has no end, or another length than it says."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path.name} is no regular file")
    with safe_open(path, "pt"):  # compares the lengths
        return path.read_bytes()


@contextmanager
def damage_of(subject: str) -> Iterator[None]:
    """Turn errors of reading and decoding into a DamagedError."""
    try:
        yield
    except (OSError, *DAMAGES) as error:
        raise DamagedError(subject, f"{subject} is damaged: {type(error).__name__} {error}") from error


def _digest(packed: bytes) -> bytes:
    made = hashlib.sha256(packed[:START])
    made.update(BLANK)
    made.update(memoryview(packed)[END:])
    return made.hexdigest().encode()
