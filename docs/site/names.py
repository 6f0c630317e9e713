"""The public names of the package, where each of them is documented, and the pages of the reference."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import graphcollab

ABOUT = """Every public name, documented where it is imported from: what :mod:`graphcollab` exports itself, there, and
everything else with the module that exports it. :ref:`All names <genindex>` are in the index.
"""
SHORT = 60  # characters of a constant that is shown itself


@dataclass(frozen=True)
class Name:
    """A public name: where it is documented, and what it is."""

    home: str  # the shortest of the modules that export it
    name: str
    what: object

    @property
    def full(self) -> str:
        """Return the name with its home."""
        return f"{self.home}.{self.name}"

    @property
    def directive(self) -> str:
        """Return what documents it."""
        if inspect.isclass(self.what):
            return "autoexception" if issubclass(self.what, BaseException) else "autoclass"
        return "autofunction" if inspect.isroutine(self.what) else "autodata"


def shown(module: pkgutil.ModuleInfo) -> list[str]:
    """Return what a module exports: its ``__all__``, and in ``_base``, which has none, what it defines itself."""
    if module.ispkg:
        return getattr(importlib.import_module(module.name), "__all__", [])
    text = Path(graphcollab.__path__[0]).parent.joinpath(*module.name.split(".")).with_suffix(".py").read_text("utf-8")
    if module.name.startswith("graphcollab._base."):
        tree = ast.parse(text).body
        named = [one.name for one in tree if isinstance(one, ast.ClassDef | ast.FunctionDef)]
        named += [one.target.id for one in tree if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
        return sorted(name for name in named if not name.startswith("_") and not name.isupper())
    return importlib.import_module(module.name).__all__ if "\n__all__ = [" in text else []


@cache
def modules() -> dict[str, list[str]]:
    """Return the public modules, packages and those in them that say what they show, with what they export."""
    found = {"graphcollab": graphcollab.__all__}
    for module in pkgutil.walk_packages(graphcollab.__path__, "graphcollab."):
        above, _, name = module.name.rpartition(".")
        if name == "_base" or not name.startswith("_"):
            names = shown(module)
            around = {*found.get(above, ())}
            if names and (name not in around or not {*names} <= around):  # else it is what it exports
                found[module.name] = names
    return found


def exports() -> Iterator[Name]:
    """Yield everything that is exported, as often as it is."""
    for module, names in modules().items():
        for name in names:
            what = getattr(importlib.import_module(module), name)
            if not inspect.ismodule(what):  # which has a page of its own
                yield Name(module, name, what)


@cache
def homes() -> dict[tuple[str, int], Name]:
    """Return where every name is documented: in the first of the shortest modules that export it."""
    found: dict[tuple[str, int], Name] = {}
    for one in sorted(exports(), key=lambda one: (one.home.count("."), len(one.home), one.home)):
        found.setdefault((one.name, id(one.what)), one)
    return found


def reference() -> dict[str, str]:
    """Return the pages of the reference by their place in the site."""
    return {f"api/{name}.rst": text for name, text in {"index": overview(), **{m: page(m) for m in modules()}}.items()}


def overview() -> str:
    """Return the page that lists all modules, packages first, with the first line of their docstrings."""
    lines = [heading("API", "="), ABOUT]
    for title, packages in (("Packages", True), ("Modules in them", False)):
        named = [one for one in modules() if hasattr(importlib.import_module(one), "__path__") == packages]
        lines += [heading(title, "-"), ".. list-table::", ""]
        for one in named:
            about = (importlib.import_module(one).__doc__ or "").partition("\n")[0]
            lines += [f"   * - :doc:`{one}`", f"     - {about}"]
        lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {one}" for one in named), ""]
    return "\n".join(lines)


def page(module: str) -> str:
    """Return the page of a module: a table of its names, and the docstrings of those that are at home in it."""
    named = [homes()[one.name, id(one.what)] for one in exports() if one.home == module]
    own = [one for one in named if one.home == module]
    lines = [heading(module, "="), f".. automodule:: {module}", "   :no-members:"]
    lines += ["   :no-index:"] * any(one.full == module for one in homes().values())  # the name of a method, too
    lines += [""]
    lines += [f".. currentmodule:: {module}", "", ".. autosummary::", "   :nosignatures:", ""]
    lines += [f"   {one.name if one.home == module else '~' + one.full}" for one in named]
    for one in own:
        lines += ["", f".. {one.directive}:: {one.full}"]
        lines += ["   :no-value:"] * (one.directive == "autodata" and len(repr(one.what)) > SHORT)
    return "\n".join([*lines, ""])


def heading(text: str, line: str) -> str:
    """Return a heading of a page."""
    return f"{text}\n{line * len(text)}\n"
