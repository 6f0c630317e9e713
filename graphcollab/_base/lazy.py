"""Packages that import their exports on first use (PEP 562), so that importing them does not import PyTorch."""

from __future__ import annotations

import ast
import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

IMPORTING = threading.RLock()  # circular imports of libraries are not safe in several threads at once


class LazyPackage(ModuleType):
    """A package whose exports are imported on first access."""

    def __getattr__(self, name: str) -> Any:
        homes: dict[str, str] = self.__dict__["_homes"]
        with IMPORTING:
            if name in homes:
                value = getattr(import_module(homes[name]), name)
                self.__dict__[name] = value
                return value
            if name.isidentifier() and name[0] != "_" and find_spec(f"{self.__name__}.{name}"):
                return import_module(f"{self.__name__}.{name}")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds submodules to their names; an export of the same name (`methods.ditto`) wins.
        if not (isinstance(value, ModuleType) and name in self.__dict__["_homes"]):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__["_homes"]})


def make_lazy(package: str) -> list[str]:
    """Make a package lazy; return its ``__all__``: names that its ``if TYPE_CHECKING:`` imports ``as`` themselves."""
    module = sys.modules[package]
    homes: dict[str, str] = {}
    for block in ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body:
        for node in block.body if isinstance(block, ast.If) else ():
            if isinstance(node, ast.ImportFrom) and node.module:
                homes |= dict.fromkeys((alias.name for alias in node.names if alias.asname), node.module)
    module.__dict__["_homes"] = homes
    module.__class__ = LazyPackage
    return sorted(homes)
