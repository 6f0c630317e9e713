"""Write what the package says of itself into exports and pages, from declarations and docstrings: ``make generate``.

First come the exports, from the text of the files alone: an ``__init__.py`` imports names, ``as`` themselves, from the
files of its folder that define them. Methods and pieces are added by themselves, and what is gone goes; whatever else a
folder exports is added by hand. Then docs/pages.py imports the package and makes docs/reference.md and
the tables in docs/methods.md, docs/deploying.md and docs/threat_model.md. A test compares.
"""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLOTS = ("local", "weigh", "exchange", "rewire")  # folders of components, which shows all their classes


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
    """Yield every ``__init__.py`` that exports something, and what it must be."""
    for init in sorted((ROOT / "graphcollab").glob("*/**/__init__.py")):
        files = {path.stem: path.read_text(encoding="utf-8") for path in init.parent.glob("*.py") if path != init}
        files |= {one.parent.name: one.read_text(encoding="utf-8") for one in init.parent.glob("*/__init__.py")}
        for path in (path for slot in SLOTS for path in init.parent.glob(f"{slot}/*.py") if path.stem != "__init__"):
            files[f"{path.parent.name}.{path.stem}"] = path.read_text(encoding="utf-8")
        source = init.read_text(encoding="utf-8")
        if files and exported(source):
            yield init, exporting(source, ".".join(init.parent.relative_to(ROOT / "graphcollab").parts), files)


def exporting(source: str, folder: str, files: dict[str, str]) -> str:
    """Return an ``__init__.py`` with anew its exports from the files of its folder."""
    home = {name: file for file, text in files.items() for name in exported(text) or defined(text)}
    names = {name for file, text in files.items() for name in shown_by_itself(folder, file, text)}
    others = []
    block = [one for one in exporting_block(source) if isinstance(one, ast.ImportFrom)]
    own = {f"graphcollab.{folder}", *(f"graphcollab.{folder}.{slot}" for slot in SLOTS)}
    for one in block:
        if (one.module or "").rpartition(".")[0] in own and one.names[0].asname:
            names |= {alias.name for alias in one.names} & home.keys()
        else:
            shown = [alias.name for alias in one.names if alias.asname]
            text = importing(one.module or "", shown) if shown else f"    {ast.unparse(one)}\n"
            others.append((one.module or "", text))
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(f"graphcollab.{folder}.{home[name]}", []).append(name)
    lines = source.splitlines(keepends=True)
    lines[block[0].lineno - 1 : block[-1].end_lineno] = [
        text for _, text in sorted([*others, *((module, importing(module, names)) for module, names in groups.items())])
    ]
    return "".join(lines)


def shown_by_itself(folder: str, file: str, source: str) -> list[str]:
    """Return what a file shows without being asked: methods, and the classes of pieces in the folders of slots."""
    public = [node for node in ast.parse(source).body if not getattr(node, "name", "_").startswith("_")]
    if folder == "methods":
        return [
            one.name
            for one in public
            if isinstance(one, ast.FunctionDef)
            and "method" in (ast.unparse(getattr(by, "func", by)) for by in one.decorator_list)
        ]
    slot, dot, own = file.partition(".")
    shows = folder == "components" and slot in SLOTS and dot and not own.startswith("_")
    return [one.name for one in public if isinstance(one, ast.ClassDef) and shows]


def exporting_block(source: str) -> list[ast.stmt]:
    """Return the statements that import what a package exports, for type checkers: `make_lazy` reads them, too."""
    return next((node.body for node in ast.parse(source).body if isinstance(node, ast.If)), [])


def exported(source: str) -> list[str]:
    """Return the names that a package exports."""
    imports = [one for one in exporting_block(source) if isinstance(one, ast.ImportFrom)]
    return [alias.name for one in imports for alias in one.names if alias.asname]


def importing(module: str, names: Iterable[str]) -> str:
    """Return an export as the formatter has it."""
    items = [f"{name} as {name}" for name in sorted(names, key=order)]
    line = f"    from {module} import {', '.join(items)}\n"
    if len(line) <= 121:
        return line
    return "\n".join([f"    from {module} import (", *(f"        {item}," for item in items), "    )", ""])


def order(name: str) -> tuple[int, str]:
    """Return the key by which the linter sorts names: constants, classes, functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name.lower()


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
