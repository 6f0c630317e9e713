"""`Frame`: the content of one message between sites, serialized as bytes that are validated before use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.errors import DamagedError, FormatError, VersionError
from graphcollab._base.packed import is_whole, pack, unpack

KIND, VERSION = "graphcollab-message", 1
AXES, NESTED, TENSORS = 32, 100, 10_000  # maxima of a tensor, of a description and of a frame
DESCRIBED = 2**24  # maximum bytes of a description, each of which may take 40 in memory

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
    """One message: a description ``about``, as JSON, and tensors, packed. Nothing in it is ever executed."""

    about: Mapping[str, Any]
    tensors: Sequence[Tensor] = field(default=())

    def pack(self) -> bytes:
        """Return the frame as bytes."""
        return pack(KIND, VERSION, dict(self.about), {str(n): one for n, one in enumerate(self.tensors)})

    @classmethod
    def unpack(cls, content: object, described: int = DESCRIBED) -> Frame:
        """Return the frame in some bytes, its description of at most ``described`` bytes; else raise a `FrameError`."""
        if not isinstance(content, bytes):
            raise FrameError("message", f"a frame is bytes, got a {type(content).__name__}")
        if (length := int.from_bytes(content[:8], "little")) > described:
            raise FrameError("message", f"a frame's description has {length} bytes, and may have {described}")
        try:
            about, named = unpack(content, KIND, VERSION, "message")
            tensors = tuple(named[str(n)] for n in range(len(named)))
        except VersionError as error:
            raise OtherVersionError(
                "message", "messages of another version of graphcollab: install the same one everywhere"
            ) from error
        except (DamagedError, FormatError, KeyError) as error:
            if not is_whole(content):
                raise FrameError("checksum", "a frame is damaged: it was cut or changed on its way") from error
            raise FrameError("message", f"a frame cannot be read: {error}") from error
        if not isinstance(about, dict) or _is_deep(about, NESTED):
            raise FrameError("message", f"a frame's description is no mapping, or nested more than {NESTED} deep")
        if len(tensors) > TENSORS or any(one.dim() > AXES for one in tensors):
            message = f"a frame has {len(tensors)} tensors, and may have {TENSORS}, of {AXES} axes"
            raise FrameError("message", message)
        return cls(about, tensors)

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


def _line(value: Any, longest: int | None) -> Any:
    if longest is None or not isinstance(value, str):
        return value
    plain = "".join(one if one.isprintable() else " " for one in value[: longest + 1])
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
