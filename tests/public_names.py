"""The names that the package shows: ``python -m tests.public_names`` records those of every package and every module of
the top folder in public_names.txt.

A name that comes or goes is then seen in the change that makes it so.
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE, RECORDED = Path(__file__).parents[1] / "graphcollab", Path(__file__).with_name("public_names.txt")


def public_names() -> str:
    """Return a line for every public module, its path and what its ``__all__`` names."""
    files = [*PACKAGE.rglob("__init__.py"), *PACKAGE.glob("[!_]*.py")]
    modules = {".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file for file in files}
    found = {module.removesuffix(".__init__"): listed(file) for module, file in modules.items()}
    return "".join(f"{module}: {' '.join(sorted(names))}\n" for module, names in sorted(found.items()) if names)


def listed(file: Path) -> list[str]:
    """Return the names in a file's ``__all__``, and as they stand the names of other lists that it takes over."""
    names: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            elements = node.value.elts if isinstance(node.value, ast.List) else [ast.Starred(node.value)]
            names += [one.value if isinstance(one, ast.Constant) else ast.unparse(one) for one in elements]
    return names


if __name__ == "__main__":
    RECORDED.write_text(public_names(), encoding="utf-8")
