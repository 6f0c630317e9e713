"""Write what the package says of itself into exports and pages, from declarations and docstrings: ``make generate``.

First come the exports, from the text of the files alone: an ``__init__.py`` imports what its ``__all__`` names from the
files of its folder that define it. Methods and pieces are added to ``__all__`` by themselves, and what is gone goes;
whatever else a folder shows is added by hand. Then docs/pages.py imports the package and makes docs/reference.md and
the tables in docs/methods.md, docs/deploying.md and docs/threat_model.md. A test compares.
"""

from __future__ import annotations

import ast
import runpy
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOTS = ("local", "weigh", "exchange", "rewire")  # folders whose classes are all exported


def main(check: bool = False) -> list[str]:
    """Write all generated texts, or none; with ``check``, write nothing and return the files that would change."""
    wanted = [*exports()]
    before = [(path, path.read_text(encoding="utf-8")) for path, _ in wanted]
    stale = write(wanted, check)
    try:
        return stale + write(runpy.run_path(str(ROOT / "docs" / "pages.py"))["texts"](), check)
    except BaseException:  # the package as its exports have it now fails, or a page does
        write(before, check)
        raise


def write(texts: Iterable[tuple[Path, str]], check: bool) -> list[str]:
    """Write the texts that have changed, unless they are only to be checked, and return their files."""
    stale = [(path, text) for path, text in texts if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path, text in () if check else stale:
        path.write_text(text, encoding="utf-8")
    return [path.relative_to(ROOT).as_posix() for path, _ in stale]


def exports() -> Iterator[tuple[Path, str]]:
    """Yield every ``__init__.py`` that lists what its folder shows, and what it must be."""
    for init in sorted((ROOT / "graphcollab").glob("*/__init__.py")):
        files = {path.stem: path.read_text(encoding="utf-8") for path in init.parent.glob("*.py") if path != init}
        files |= {one.parent.name: one.read_text(encoding="utf-8") for one in init.parent.glob("*/__init__.py")}
        source = init.read_text(encoding="utf-8")
        if files and listed(source):
            yield init, exporting(source, init.parent.name, files)


def exporting(source: str, folder: str, files: dict[str, str]) -> str:
    """Return an ``__init__.py`` with anew its imports from the files of its folder, and its ``__all__``."""
    home = {name: file for file, text in files.items() for name in listed(text) or defined(text)}
    added = {name for file, text in files.items() if not file.startswith("_") for name in shown_by_itself(folder, text)}
    imports = [one for one in importing_block(source) if isinstance(one, ast.ImportFrom) and of_package(one)]
    indent = " " * imports[0].col_offset
    here = {one: (one.module or "").startswith(f"graphcollab.{folder}.") for one in imports}
    names = {alias.name for one in imports if here[one] for alias in one.names} | {*listed(source)}
    others = {alias.name for one in imports if not here[one] for alias in one.names} | {*defined(source)}
    groups: dict[str, list[str]] = {one.module or "": [a.name for a in one.names] for one in imports if not here[one]}
    for name in (names | added) & home.keys():
        groups.setdefault(f"graphcollab.{folder}.{home[name]}", []).append(name)
    shown = sorted({name for name in listed(source) if name in home or name in others} | added, key=order)
    [old] = [one for one in ast.parse(source).body if is_list(one)]
    lines = source.splitlines(keepends=True)
    lines[old.lineno - 1 : old.end_lineno] = [wrapped("__all__ = [", [f'"{name}"' for name in shown], "]")]
    lines[imports[0].lineno - 1 : imports[-1].end_lineno] = [
        textwrap.indent(importing(*group), indent) for group in sorted(groups.items())
    ]
    return "".join(lines)


def shown_by_itself(folder: str, source: str) -> list[str]:
    """Return what a file shows without being asked: methods, and the classes of pieces."""
    public = [node for node in ast.parse(source).body if not getattr(node, "name", "_").startswith("_")]
    if folder == "methods":
        return [
            one.name
            for one in public
            if isinstance(one, ast.FunctionDef) and "method" in map(ast.unparse, one.decorator_list)
        ]
    return [one.name for one in public if isinstance(one, ast.ClassDef) and folder in SLOTS]


def importing_block(source: str) -> list[ast.stmt]:
    """Return the statements among which exports are imported: those for type checkers where the package is lazy."""
    body = ast.parse(source).body
    return next((node.body for node in body if isinstance(node, ast.If)), body)


def importing(module: str, names: Iterable[str]) -> str:
    """Return an import as the formatter has it."""
    names = sorted(names, key=order)
    line = f"from {module} import {', '.join(names)}\n"
    return line if len(line) <= 121 else wrapped(f"from {module} import (", names, ")")


def wrapped(start: str, items: list[str], end: str) -> str:
    """Return items in brackets, on one line or a line for each."""
    line = f"{start}{', '.join(items)}{end}\n"
    return line if len(line) <= 121 else "\n".join([start, *(f"    {item}," for item in items), end, ""])


def order(name: str) -> tuple[int, str]:
    """Return the key by which the linter sorts names: constants, classes, functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name


def of_package(node: ast.ImportFrom) -> bool:
    """Tell whether something of this package is imported."""
    return (node.module or "").startswith("graphcollab.") and node.names[0].name != "*"


def is_list(node: ast.stmt) -> bool:
    """Tell whether a statement is ``__all__ = [...]`` with nothing but strings."""
    return (
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "__all__"
        and isinstance(node.value, ast.List)
        and all(isinstance(one, ast.Constant) for one in node.value.elts)
    )


def listed(source: str) -> list[str]:
    """Return the names in a file's ``__all__``."""
    return [name for node in ast.parse(source).body if is_list(node) for name in ast.literal_eval(node.value)]


def defined(source: str) -> list[str]:
    """Return the names of the functions, classes and constants of a file."""
    names = []
    for node in ast.parse(source).body:
        names += [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


if __name__ == "__main__":
    changed = main(check="--check" in sys.argv)
    print("\n".join(f"{'stale' if '--check' in sys.argv else 'written'}: {path}" for path in changed) or "up to date")
    sys.exit(bool(changed) and "--check" in sys.argv)
