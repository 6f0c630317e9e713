"""`question`: what a site asks the coordinator, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Collection

from graphcollab.sites.frame import Frame, FrameError

__all__ = ["question"]

ALWAYS = {"verb": str, "epoch": int, "step": int, "life": str}
FIELDS = ALWAYS | {
    "what": str,
    "sum": bool,
    "commit": bool,
    "round": int,
    "clock": float,
    "run": int,
    "sites": list,
    "kind": str,
    "why": str,
}
"""The types of what questions say; the value that a site tells the others is for them to read."""


def question(content: object, verbs: Collection[str]) -> Frame:
    """Return the question that bytes hold; a `FrameError` says what is wrong with them.

    Args:
        content: What has come.
        verbs: What can be asked.
    """
    asked = Frame.unpack(content)
    for name, kind in FIELDS.items():
        if (name in ALWAYS or name in asked.about) and type(asked.about.get(name)) is not kind:
            raise FrameError(
                f"a question has a {type(asked.about.get(name)).__name__} as its {name}, not a {kind.__name__}"
            )
    if asked.about["verb"] not in verbs:
        raise FrameError(f"nothing is asked by the verb {asked.about['verb'][:50]!r}")
    if not all(type(site) is str for site in asked.about.get("sites", [])):
        raise FrameError("a question says what is no name among its sites")
    return asked
