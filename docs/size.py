"""Print how large the package is: ``make size``.

Code is counted by Python's tokenizer: lines that hold something else than docstrings, comments and imports.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "graphcollab"
STACK = ("torch", "torch-geometric", "torchvision", "scikit-learn")
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def lines_of_code(text: str) -> int:
    """Return how many lines of a file hold code."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        if is_import or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = {line for token in tokens if token.type not in NOT_CODE for line in range(token.start[0], token.end[0] + 1)}
    return len(used - skipped)


def exported(text: str) -> int:
    """Return how many names an ``__init__.py`` imports ``as`` themselves: those are exported."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return sum(alias.asname == alias.name for node in nodes for alias in node.names)


def texts(paths: Iterable[Path]) -> list[str]:
    """Return the texts of the Python files in folders, or of files."""
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return [file.read_text(encoding="utf-8") for file in files]


def row(name: str, found: list[str]) -> str:
    """Return a row of the table: files, lines, and lines of code."""
    lines, code = (sum(map(count, found)) for count in (lambda text: text.count("\n"), lines_of_code))
    return f"{name:34} {len(found):6,} {lines:8,} {code:8,}"


def name_of(requirement: str) -> str:
    """Return the name of the package that a requirement names, in its normal form."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def brought_by(names: Iterable[str]) -> set[str]:
    """Return packages and all that they require, extras left out; it takes an environment with the packages."""
    found, left = set(), [*names]
    while left:
        if (name := left.pop()) in found:
            continue
        found.add(name)
        try:
            left += [name_of(one) for one in requires(name) or [] if "extra ==" not in one]
        except PackageNotFoundError:  # required on other platforms
            continue
    return found


def main() -> None:
    """Print the tables."""
    print(f"{'':34} {'files':>6} {'lines':>8} {'of code':>8}")
    for part in sorted(path for path in PACKAGE.iterdir() if path.is_dir() and texts([path])):
        print(row(f"{PACKAGE.name}/{part.name}", texts([part])))
    print(row(f"{PACKAGE.name}/*.py", texts(PACKAGE.glob("*.py"))))
    for name, folder in (("package", PACKAGE), ("tests", ROOT / "tests"), ("examples", ROOT / "examples")):
        print(row(name, texts([folder])))
    shown = [path.name for path in PACKAGE.iterdir() if path.name not in ("__init__.py", "__pycache__")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    faces = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("__init__.py")]
    print(f"names in {PACKAGE.name}/: {len(shown)}")
    print(f"exported names: {sum(map(exported, faces))}")
    needed = [name_of(one) for one in project["dependencies"]]
    beyond = [name for name in needed if name not in brought_by(STACK)]
    print(f"hard dependencies: {len(needed)}")
    print(f"  beyond what {', '.join(STACK)} bring: {len(beyond)} ({', '.join(beyond)})")
    print(f"docs/design.md: {(ROOT / 'docs' / 'design.md').read_text(encoding='utf-8').count(chr(10))} lines")


if __name__ == "__main__":
    main()
