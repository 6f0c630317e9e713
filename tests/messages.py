"""The wording of all errors and warnings in one file: ``make messages`` writes tests/messages.txt, and a test compares.

Tests elsewhere assert on codes and subjects. A change of wording is seen here, and here only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from graphcollab._base import errors

ROOT = Path(__file__).parents[1]
WRITTEN = Path(__file__).with_suffix(".txt")
KINDS = {name for name in vars(errors) if name.endswith("Error")}


def template(node: ast.expr) -> str:
    """Return a text as the code has it, with the source of what is filled in."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(map(template, node.values))
        case ast.BinOp(op=ast.Add()):
            return template(node.left) + template(node.right)
    return f"{{{ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)}}}"


def messages(file: Path) -> Iterator[str]:
    """Yield code, subject and message of all errors and warnings that a file makes, sorted."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            texts = [template(one) for one in node.args]
            if node.func.id in KINDS and len(texts) == 2:
                yield f"{getattr(errors, node.func.id).code} | {texts[0]} | {texts[1]}"
            elif node.func.id == "issue" and len(texts) == 3:
                yield f"warning {texts[0]} | {texts[1]} | {texts[2]}"


def snapshot() -> str:
    """Return the text of the file, with a heading for every file of the package."""
    parts = []
    for file in sorted((ROOT / "graphcollab").rglob("*.py")):
        if found := sorted(messages(file)):
            parts.append("\n".join([f"## {file.relative_to(ROOT).as_posix()}", *found, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    WRITTEN.write_text(snapshot(), encoding="utf-8")
