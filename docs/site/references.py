"""What docstrings refer to, found by the names that they have in code."""

from __future__ import annotations

from importlib import import_module

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

from names import Name, exports, homes


def known_as() -> dict[str, list[Name]]:
    """Return the public names by what they may be called: as they are, with their home, and with their file."""
    found: dict[str, list[Name]] = {}
    for other in exports():
        one = homes()[other.name, id(other.what)]
        file = f"{getattr(one.what, '__module__', '')}.{getattr(one.what, '__qualname__', '')}"
        for called in {one.name, one.full, other.full, one.full.removeprefix("graphcollab."), file}:
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
    kinds = getattr(what, "__mro__", ())
    return hasattr(what, name) or any(name in getattr(kind, "__annotations__", {}) for kind in kinds)


def is_type(called: str) -> bool:
    """Tell whether a type in a signature exists, and is not public: it is shown by its name."""
    module, _, name = called.rpartition(".")
    return module.startswith("graphcollab.") and called not in KNOWN and hasattr(import_module(module), name)


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: Element) -> Element | None:
    """Return the link for a name that Sphinx does not find by itself, or None, which is warned of."""
    if node.get("refdomain") != "py":
        return None
    if node["reftype"] == "class" and is_type(node["reftarget"]):
        return text
    place = target(node["reftarget"], node.get("py:module") or "", node.get("py:class") or "")
    objects = env.domains["py"].data["objects"]
    found = next((one for one in (place, (place or "").rpartition(".")[0]) if one in objects), None)
    if found is None:
        return None
    return make_refnode(app.builder, node["refdoc"], objects[found].docname, objects[found].node_id, text, found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Say when this is asked."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
