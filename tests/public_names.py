"""The names that the packages show: ``python -m tests.public_names`` records them in public_names.txt.

A name that comes or goes is then seen in the change that makes it so.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE, RECORDED = Path(__file__).parents[1] / "graphcollab", Path(__file__).with_name("public_names.txt")


def public_names() -> str:
    """Return a line for every package, its path and what it exports."""
    files = PACKAGE.rglob("__init__.py")
    modules = {".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file for file in files}
    found = {module.removesuffix(".__init__"): listed(file) for module, file in modules.items()}
    return "".join(f"{module}: {' '.join(sorted(names))}\n" for module, names in sorted(found.items()) if names)


def listed(file: Path) -> list[str]:
    """Return the names in a module's ``__all__``, or those that a package imports ``as`` itself; else classes."""
    names: list[str] = []
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names += [one.name for one in node.names if one.asname == one.name]
        elif (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and isinstance(node.value, ast.List)
        ):
            names += [one.value for one in node.value.elts if isinstance(one, ast.Constant)]
    return names or [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


if __name__ == "__main__":
    RECORDED.write_text(public_names(), encoding="utf-8")
