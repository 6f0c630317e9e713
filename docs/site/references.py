"""What docstrings refer to, found by the names that they have in code, and signatures that can be read."""

from __future__ import annotations

import re
from typing import Any

from docutils.nodes import Element, reference
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import stringify_annotation

from graphcollab import settings
from names import Name, homes

SETTINGS = {
    stringify_annotation(one.what, "smart").removeprefix("~typing."): f"~{one.full}"
    for one in homes().values()
    if one.home == settings.__name__ and type(one.what).__name__ in ("_AnnotatedAlias", "_LiteralGenericAlias")
}


def known_as() -> dict[str, list[Name]]:
    """Return the public names by what they may be called: as they are, with their home, and with their file."""
    found: dict[str, list[Name]] = {}
    for one in homes().values():
        file = f"{getattr(one.what, '__module__', '')}.{getattr(one.what, '__qualname__', '')}"
        for called in {one.name, one.full, one.full.removeprefix("graphcollab."), file}:
            found.setdefault(called, []).append(one)
    return found


KNOWN = known_as()


def target(called: str, module: str, inside: str) -> str | None:
    """Return the place of what is called so in a docstring; of what has no place of its own, its class's."""
    first, *rest = called.split(".")
    for end in range(called.count(".") + 1, 0, -1):
        head, tail = ".".join([first, *rest][:end]), [first, *rest][end:]
        for one in sorted(KNOWN.get(head, []), key=lambda one: (one.home != module, len(one.home))):
            if not tail or (len(tail) == 1 and has(one.what, tail[0])):
                return ".".join([one.full, *tail])
    [*_, owner] = [*KNOWN.get(f"{module}.{inside}", []), None]
    return f"{owner.full}.{called}" if owner and has(owner.what, called) else None


def has(what: object, name: str) -> bool:
    """Tell whether something has an attribute, or a field."""
    return hasattr(what, name) or any(name in getattr(one, "__annotations__", {}) for one in getattr(what, "__mro__", ()))


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: Element) -> reference | None:
    """Return the link for a name that Sphinx does not find by itself, or None, which is warned of."""
    if node.get("refdomain") != "py":
        return None
    place = target(node["reftarget"], node.get("py:module") or "", node.get("py:class") or "")
    objects = env.domains["py"].data["objects"]
    found = next((one for one in (place, (place or "").rpartition(".")[0]) if one in objects), None)
    if found is None:
        return None
    return make_refnode(app.builder, node["refdoc"], objects[found].docname, objects[found].node_id, text, found)


def shorten(text: str) -> str:
    """Return a type with the names of settings, and without what else is said of it for checks."""
    text = re.sub(r"~?[\w.]*\b(?=Annotated\[|Literal\[)", "", text)
    for long, short in SETTINGS.items():
        text = text.replace(long, short)
    while "Annotated[" in text:
        head, _, rest = text.partition("Annotated[")
        inner, after = bracket(rest)
        text = head + inner + after
    return text


def bracket(text: str) -> tuple[str, str]:
    """Return the first item of a list that an open bracket begins, and what follows the closing one."""
    depth, quote, first = 0, "", len(text)
    for at, sign in enumerate(text):
        if quote or sign in "'\"":
            quote = "" if sign == quote else quote or sign
        elif sign == "]" and not depth:
            return text[: min(first, at)], text[at + 1 :]
        elif sign == "," and not depth:
            first = min(first, at)
        else:
            depth += (sign in "[({") - (sign in "])}")
    raise ValueError(f"expected a closing bracket in {text}")


def signature(_: Sphinx, *told: Any) -> tuple[str | None, str | None]:
    """Shorten a signature."""
    *_, arguments, returned = told
    return tuple(one and shorten(one) for one in (arguments, returned))


def docstring(_: Sphinx, what: str, *told: Any) -> None:
    """Link pages, and keep a colon in what a property is from being taken for its type."""
    lines = told[-1]
    lines[:] = [""] * (what in ("attribute", "data", "property")) + [
        re.sub(r"(?<![\w/`])docs/(\w+)\.md", r":doc:`docs/\1.md </docs/\1>`", line) for line in lines
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Say when this is asked."""
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before it is read as one of Google's style
    return {"parallel_read_safe": True, "parallel_write_safe": True}
