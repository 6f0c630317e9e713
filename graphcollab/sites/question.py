"""`question`: what a site asks the coordinator, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from graphcollab.sites.frame import Frame, FrameError

__all__ = ["ERROR", "clipped", "printable", "question"]

ERROR = {"module": 200, "name": 100, "subject": 200, "message": 2000}  # characters of the parts of an error
LONGEST = {"what": 1000, "life": 64, "why": 2000, "site": 200, **ERROR}  # characters of a text that a peer may set
LINE = 200  # characters of it in a line of a log

ALWAYS = {"verb": str, "epoch": int, "step": int, "life": str}
FIELDS = ALWAYS | {
    "what": str,
    "sum": bool,
    "commit": bool,
    "round": int,
    "clock": float,
    "run": int,
    "sites": list,
    "why": str,
    **dict.fromkeys(ERROR, str),
}
"""The types of what questions say; the value that a site tells the others is for them to read."""


def question(content: object, verbs: Collection[str]) -> Frame:
    """Return the question that bytes hold; a `FrameError` says what is wrong with them.

    Args:
        content: What has come.
        verbs: What can be asked.
    """
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
    """Return a message whose texts for people are printable lines of bounded length, whatever a peer has sent."""
    about = {name: _line(value, LONGEST.get(name)) for name, value in frame.about.items()}
    if isinstance(lost := about.get("lost"), Mapping):
        about["lost"] = {_line(site, LONGEST["site"]): _line(why, LONGEST["why"]) for site, why in lost.items()}
    return Frame(about, frame.tensors)


def clipped(text: object) -> str:
    """Return a text as part of one line of a log."""
    return str(_line(str(text), LINE))


def _line(value: Any, longest: int | None) -> Any:
    if longest is None or not isinstance(value, str):
        return value
    plain = "".join(one if one.isprintable() else " " for one in value[: longest + 1])
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
