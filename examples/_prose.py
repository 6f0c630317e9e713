"""English prose that every environment has: what the documentation strings of installed packages say."""

from __future__ import annotations

import ast
import inspect
import re
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_LEAST, _LETTERS = 80, 0.93  # characters of a paragraph, and which share of them are letters, spaces, or end a clause
_ODD = re.compile(r"[^A-Za-z ,.;'()-]")
_CODE = re.compile(r">>>|::|``|\$|\w\.\w|_\w|\w\(|\\|==|--|https?:|\w:\s\w+ ")


def prose_of(package: str, most: int | None = None) -> list[str]:
    """Return the paragraphs of prose in a package's documentation strings, one document for each file that has any.

    Args:
        package: Name of an installed package, or ``"python"`` for the standard library.
        most: Characters to stop after. Default: all there are.

    Raises:
        ModuleNotFoundError: If no package of that name is installed.
    """
    documents, seen, length = [], set[str](), 0
    for file in _files(package):
        paragraphs = [text for text in _paragraphs(file) if text not in seen]
        seen.update(paragraphs)
        if paragraphs:
            documents.append("\n".join(dict.fromkeys(paragraphs)))
            length += len(documents[-1])
        if most is not None and length >= most:
            break
    return documents


def is_prose(text: str) -> bool:
    """Return whether a paragraph reads like sentences: long enough, mostly letters, and nothing of code in it."""
    whole = len(text) >= _LEAST and text[0].isupper() and text[-1] == "."
    return whole and not _CODE.search(text) and len(_ODD.sub("", text)) >= _LETTERS * len(text)


def _files(package: str) -> list[Path]:
    """Return the Python files of a package, in a fixed order; tests have no prose."""
    if package == "python":
        folder = Path(sysconfig.get_paths()["stdlib"])
    else:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"expected an installed package to take prose from, got {package!r}: install it")
        folder = Path(spec.submodule_search_locations[0])
    files = sorted(file.relative_to(folder) for file in folder.rglob("*.py"))
    return [folder / file for file in files if not {"site-packages", "test", "tests"}.intersection(file.parts)]


def _paragraphs(file: Path) -> Iterator[str]:
    """Yield the paragraphs of prose in a file's documentation strings, and in other long texts in it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # some packages ship templates that are no Python
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) >= _LEAST:
            for text in re.split(r"\n\s*\n", inspect.cleandoc(node.value)):
                if is_prose(joined := " ".join(text.split())):
                    yield joined
