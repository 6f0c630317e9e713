"""`Frame`: the content of one message between sites, serialized as bytes that are validated before use."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.errors import DamagedError

MAGIC = b"graphcollab 1\n"
AXES, NESTED, TENSORS = 32, 100, 10_000  # maxima of a tensor, of a description and of a frame
DESCRIBED = 2**24  # maximum bytes of a description, each of which may take 40 in memory
HEAD = struct.Struct("<16sI")  # checksum of everything after it, and length of the description
TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}

ERROR = {"module": 200, "name": 100, "subject": 200, "message": 2000}  # maximum characters of the parts of an error
LONGEST = {"what": 1000, "life": 64, "why": 2000, "site": 200, **ERROR}  # maximum characters of texts set by a peer
LINE = 200  # maximum characters of such a text in a log line

ALWAYS = {"verb": str, "epoch": int, "step": int, "life": str}
FIELDS = ALWAYS | {
    "what": str,
    "sum": bool,
    "commit": bool,
    "round": int,
    "run": int,
    "sites": list,
    "why": str,
    **dict.fromkeys(ERROR, str),
}
"""Types of the entries of questions; the value that a site sends to the others is for them to read."""


class FrameError(DamagedError):
    """Bytes that are no frame, or not the expected one: truncated, altered, or of another shape or number type."""


class OtherVersionError(FrameError):
    """The messages come from another version of graphcollab."""

    code = "version"


@dataclass(frozen=True)
class Frame:
    """One message: a description ``about``, as JSON, and tensors as raw numbers. Nothing in it is ever executed."""

    about: Mapping[str, Any]
    tensors: Sequence[Tensor] = field(default=())

    def pack(self) -> bytes:
        """Return the frame as bytes."""
        plain = [one.detach().cpu().contiguous() for one in self.tensors]
        kinds = [[str(one.dtype).removeprefix("torch."), list(one.shape)] for one in plain]
        text = json.dumps({"about": dict(self.about), "tensors": kinds}).encode()
        body = b"".join([text, *map(_raw, plain)])
        return MAGIC + HEAD.pack(_digest(len(text), body), len(text)) + body

    @classmethod
    def unpack(cls, content: object, described: int = DESCRIBED) -> Frame:
        """Return the frame in some bytes, its description of at most ``described`` bytes; else raise a `FrameError`."""
        if not isinstance(content, bytes):
            raise FrameError("message", f"a frame is bytes, got a {type(content).__name__}")
        start = len(MAGIC) + HEAD.size
        if content.startswith(MAGIC[:-2]) and not content.startswith(MAGIC):
            raise OtherVersionError(
                "message", "messages of another version of graphcollab: install the same one everywhere"
            )
        if len(content) < start or not content.startswith(MAGIC):
            raise FrameError("message", f"{len(content)} bytes are no frame of this version")
        digest, length = HEAD.unpack_from(content, len(MAGIC))
        if length > described:
            raise FrameError("message", f"a frame's description has {length} bytes, and may have {described}")
        body = content[start:]
        if length > len(body) or _digest(length, body) != digest:
            raise FrameError("checksum", "a frame is damaged: it was cut or changed on its way")
        try:
            held = json.loads(body[:length])
            about, kinds = dict(held["about"]), [(TYPES[name], tuple(shape)) for name, shape in held["tensors"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FrameError("message", f"a frame's description cannot be read ({type(error).__name__})") from error
        if len(kinds) > TENSORS:
            raise FrameError("message", f"a frame has {len(kinds)} tensors, and may have {TENSORS}")
        if _is_deep(about, NESTED):
            raise FrameError("message", f"a frame's description is nested more than {NESTED} deep")
        tensors, at = [], length
        for kind, shape in kinds:
            if not all(type(size) is int and size >= 0 for size in shape):
                raise FrameError("message", f"a frame says that a tensor has the shape {list(shape)}")
            if len(shape) > AXES or math.prod(max(size, 1) for size in shape) * kind.itemsize >= 2**63:
                raise FrameError("message", "a frame says that a tensor has a shape that no tensor can have")
            end = at + math.prod(shape) * kind.itemsize
            if end > len(body):
                raise FrameError(
                    "message", f"a frame has {len(body) - at} bytes left for a tensor {list(shape)} of {kind}"
                )
            raw = torch.frombuffer(bytearray(body[at:end]), dtype=torch.uint8) if end > at else torch.empty(0)
            if kind is torch.bool and bool((raw > 1).any()):
                raise FrameError("message", "a frame has other bytes than 0 and 1 for a tensor of torch.bool")
            tensors.append(raw.view(kind).view(shape) if end > at else torch.empty(shape, dtype=kind))
            at = end
        if at != len(body):
            raise FrameError("message", f"a frame has {len(body) - at} bytes more than it says")
        return cls(about, tuple(tensors))

    def require(self, *wanted: tuple[torch.dtype, tuple[int | None, ...]]) -> Frame:
        """Check that the tensors have these number types and shapes (None: any size), and return the frame."""
        got = [(one.dtype, tuple(one.shape)) for one in self.tensors]
        fits = len(got) == len(wanted) and all(
            kind is other
            and len(shape) == len(sizes)
            and all(w in (None, s) for s, w in zip(sizes, shape, strict=True))
            for (kind, shape), (other, sizes) in zip(wanted, got, strict=True)
        )
        if not fits:
            raise FrameError(
                "message", f"a frame was due that holds {_told(wanted)}, and one came that holds {_told(got)}"
            )
        return self


def wrong_message(site: str, why: object) -> FrameError:
    """Return the error for an invalid message of a site."""
    return FrameError(f"site {site!r}", f"a message of {site} is not as it should be: {why}")


def question(content: object, verbs: Collection[str]) -> Frame:
    """Return the question in some bytes, with one of ``verbs``; a `FrameError` says what is wrong with them."""
    asked = printable(Frame.unpack(content))
    for name, kind in FIELDS.items():
        if (name in ALWAYS or name in asked.about) and type(asked.about.get(name)) is not kind:
            raise FrameError(
                name, f"a question has a {type(asked.about.get(name)).__name__} as its {name}, not a {kind.__name__}"
            )
    if asked.about["verb"] not in verbs:
        raise FrameError("verb", f"nothing is asked by the verb {asked.about['verb'][:50]!r}")
    if not all(type(site) is str for site in asked.about.get("sites", [])):
        raise FrameError("sites", "a question says what is no name among its sites")
    return asked


def printable(frame: Frame) -> Frame:
    """Return a message whose human-readable texts are printable lines of bounded length, whatever a peer has sent."""
    about = {name: _line(value, LONGEST.get(name)) for name, value in frame.about.items()}
    if isinstance(lost := about.get("lost"), Mapping):
        about["lost"] = {_line(site, LONGEST["site"]): _line(why, LONGEST["why"]) for site, why in lost.items()}
    return Frame(about, frame.tensors)


def clipped(text: object) -> str:
    """Return a text clipped for use in one line of a log."""
    return str(_line(str(text), LINE))


def _is_deep(held: Any, most: int) -> bool:
    inner = held.values() if isinstance(held, dict) else held
    return most == 0 or any(_is_deep(one, most - 1) for one in inner if isinstance(one, dict | list))


def _told(kinds: Sequence[tuple[torch.dtype, tuple[int | None, ...]]]) -> str:
    return ", ".join(f"{['any' if s is None else s for s in shape]} of {kind}" for kind, shape in kinds) or "nothing"


def _raw(value: Tensor) -> bytes:
    return value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""


def _digest(length: int, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16, salt=struct.pack("<I", length)).digest()


def _line(value: Any, longest: int | None) -> Any:
    if longest is None or not isinstance(value, str):
        return value
    plain = "".join(one if one.isprintable() else " " for one in value[: longest + 1])
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
