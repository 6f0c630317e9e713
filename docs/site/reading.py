"""Signatures that can be read, and docstrings as Sphinx reads them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

from names import homes

LONG = 80  # characters of a type, beyond which it is called by its name in the code
ALIASES = ("_AnnotatedAlias", "_LiteralGenericAlias", "_UnionGenericAlias")


def modules() -> Iterator[Any]:
    """Yield what has been imported of the package."""
    yield from [module for name, module in sorted(sys.modules.items()) if name.partition(".")[0] == "graphcollab"]


def text_of(annotation: object) -> str:
    """Return a type as Sphinx writes it, but that marks are left out of what ``typing`` has."""
    return plain(stringify_annotation(annotation, "smart"))


def plain(text: str) -> str:
    """Return a type without the places of what ``typing`` has, which Sphinx does not always know."""
    return re.sub(r"~?[\w.]*\b(?=(?:Annotated|Literal)\[)", "", text)


def aliases() -> dict[str, str]:
    """Return the names that types are shown by: those that are public, and those that would be very long."""
    public = {id(one.what): f"~{one.full}" for one in homes().values()}
    found = {}
    for module in modules():
        for name, what in vars(module).items():
            if type(what).__name__ in ALIASES and (id(what) in public or len(text_of(what)) > LONG):
                found[text_of(what)] = public.get(id(what), f"~{module.__name__}.{name}")
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


ALIAS = aliases()


def shorten(text: str) -> str:
    """Return types by their names, and without what is said of them for checks."""
    text = plain(text)
    for long, short in ALIAS.items():
        text = text.replace(long, short)
    while "Annotated[" in text:
        head, _, rest = text.partition("Annotated[")
        inner, after = bracket(rest)
        text = head + inner + after
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)


def bracket(text: str) -> tuple[str, str]:
    """Return the first item of a list whose bracket is open, and what follows the bracket that closes it."""
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


def made(what: object) -> Iterator[str]:
    """Yield the defaults of a dataclass that are made anew for every instance."""
    for field in fields(what) if isinstance(what, type) and is_dataclass(what) else ():
        if field.init and field.default_factory is not MISSING:
            yield re.sub(r"<.*>", "...", repr(field.default_factory()))


def signature(_: Sphinx, what: str, name: str, of: object, options: object, arguments: str, returned: str) -> Any:
    """Return a signature, and what is returned, in short."""
    for default in made(of):
        arguments = arguments.replace("<factory>", default, 1)
    return [one and shorten(one) for one in (arguments, returned)]


def docstring(_: Sphinx, what: str, name: str, of: object, options: object, lines: list[str]) -> None:
    """Link pages, and keep a colon in what a property is from being taken for its type.

    Of a constant or a type, the docstring is that beside it, not that of its class.
    """
    if what == "data":
        lines[:] = next(said(name, of), [])
    lines[:] = [*items(lines)]
    lines[:] = [re.sub(r"(?<![\w/`])docs/(\w+)\.md", r":doc:`docs/\1.md </docs/\1>`", line) for line in lines]
    if what in ("attribute", "data", "property") and lines and ":" in lines[0]:
        before = lines[0].partition(":")[0].rpartition(" ")[0]  # only the first line is taken for a type
        lines[:1] = [before or "..", *[""] * (not before), lines[0].removeprefix(before).strip()]


def items(lines: list[str]) -> Iterator[str]:
    """Yield a docstring whose shapes are a list."""
    inside = False
    for line in lines:
        inside = line == "Shapes:" if re.match(r"\S", line) else inside
        if inside and re.match(r"    [\w`., *-]+: ", line):
            yield f"    - {line.strip().removeprefix('- ')}"
        else:
            yield f"      {line.strip()}" if inside and line.startswith("    ") else line


def said(name: str, of: object) -> Iterator[list[str]]:
    """Yield what stands below a name, in the files that have it."""
    name = name.rpartition(".")[2]
    for module in modules():
        if vars(module).get(name) is of and (found := ModuleAnalyzer.for_module(module.__name__).find_attr_docs()):
            yield from [found["", name]] if ("", name) in found else []


def setup(app: Sphinx) -> dict[str, bool]:
    """Say when this is asked."""
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before it is read as one of Google's style
    return {"parallel_read_safe": True, "parallel_write_safe": True}
