"""What functions, classes and modules do, as short text that is the same in every process."""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["codes_in", "fingerprint", "layers", "settings"]

LIBRARIES = frozenset({"numpy", "torch", "torch_geometric"})  # their versions say what their code does
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, Enum, torch.dtype, torch.device)
INSIDE = frozenset({*vars(nn.Module()), "training"})  # what every module has
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
SHOWN = frozenset({"__init__", "extra_repr", "_get_name"})  # how an object is made shows in it, how it is printed never


def fingerprint(value: object) -> str:
    """Return what a value is: plain values as they are, tensors by checksum, functions and classes by their bytecode.

    A function's defaults, the variables it closes over, and the functions, classes, numbers and tensors that it uses
    by name are part of it; variables that it sets itself, comments, and places in files and memory are not. Of the
    standard library, NumPy and PyTorch only names are: their versions say the rest. What a function reaches through a
    module (``mine.loss``) is not followed.

    Example:
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
        True
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
        False
    """
    return _Reader().text(value)


def settings(module: nn.Module) -> str:
    """Describe one module without its children: class, attributes, hooks, what is frozen, and code of the user's own.

    Example:
        >>> settings(nn.Dropout(0.3))
        'Dropout(inplace=False, p=0.3)'
    """
    return _Reader().module(module)


def layers(model: nn.Module) -> dict[str, str]:
    """Return the `settings` of every module in a model, by its path; the model's own is ``""``."""
    classes: dict[type, str] = {}
    return {path: _Reader(classes).module(module) for path, module in model.named_modules()}


def codes_in(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Iterate over the functions that a value holds, and the objects whose classes are not this package's.

    Args:
        value: A method, one of its parts, or a container.
        name: What to call it.

    Returns:
        Where each is, and its fingerprint.
    """
    if isinstance(value, (nn.Module, Tensor, *PLAIN)):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from codes_in(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from codes_in(item, f"{name}[{number}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type) and _root(type(value)) == "graphcollab":
        for field in dataclasses.fields(value):
            yield from codes_in(getattr(value, field.name), f"{name}.{field.name}".lstrip("."))
    else:
        yield name, fingerprint(value)


class _Reader:
    """Reads one value; what it meets again it only names, so values may hold themselves."""

    def __init__(self, classes: dict[type, str] | None = None) -> None:
        self._met: dict[int, tuple[int, object]] = {}  # held on to, so that no other object gets its number
        self._classes = {} if classes is None else classes

    def text(self, value: object) -> str:
        if isinstance(value, PLAIN):
            return repr(value)
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return _array(value)
        if isinstance(value, types.ModuleType):
            return value.__name__
        if id(value) in self._met:
            return f"number {self._met[id(value)][0]}"
        self._met[id(value)] = len(self._met), value
        return self._deep(value)

    def module(self, module: nn.Module) -> str:
        """Describe a module without its children."""
        kind = type(module)
        private = not _known(kind)
        names = [name for name in vars(module) if name not in INSIDE and (private or not name.startswith("_"))]
        own = {name: vars(module)[name] for name in names}
        if "forward" in vars(module):
            own["forward"] = vars(module)["forward"]
        own |= {hooks: list(vars(module)[hooks].values()) for hooks in HOOKS if vars(module).get(hooks)}
        if frozen := [name for name, tensor in module.named_parameters(recurse=False) if not tensor.requires_grad]:
            own["frozen"] = frozen
        return f"{kind.__name__}({self._fields(own)}){self._class(kind)}"

    def _deep(self, value: Any) -> str:
        if isinstance(value, nn.Module):
            tensors = (*value.named_parameters(recurse=False), *value.named_buffers(recurse=False))
            inside = [f"{name}: {self.text(one)}" for name, one in (*tensors, *value.named_children())]
            return ", ".join([self.module(value), *inside])
        if isinstance(value, type):
            return value.__qualname__ + self._class(value)
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self.text(key)}: {self.text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(self.text, value)) + "]"
        if isinstance(value, set | frozenset):
            return "{" + ", ".join(sorted(map(fingerprint, value))) + "}"
        if isinstance(value, functools.partial):
            return f"partial {self.text(value.func)}({self.text(value.args)}, {self.text(value.keywords)})"
        if isinstance(value, types.MethodType):
            return f"{self.text(value.__func__)} of {self.text(value.__self__)}"
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.BuiltinFunctionType) or _standard(_root(type(value))):
            return getattr(value, "__qualname__", type(value).__qualname__)
        kind, name = type(value), getattr(value, "__name__", "")  # a name have NumPy's functions, say
        return f"{name}{kind.__qualname__}({self._fields(getattr(value, '__dict__', {}))}){self._class(kind)}"

    def _fields(self, fields: Mapping[str, Any]) -> str:
        return ", ".join(f"{name}={self.text(fields[name])}" for name in sorted(fields))

    def _function(self, function: types.FunctionType) -> str:
        if _known(function):
            return f"{function.__module__}.{function.__qualname__}"
        code = function.__code__
        parts = [_code(code, function.__doc__), self.text([function.__defaults__, function.__kwdefaults__])]
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        parts += [self.text(_content(cell)) for name, cell in cells if name not in _names(code, "STORE_DEREF")]
        for name in sorted(_names(code, "LOAD_GLOBAL") - _names(code, "STORE_GLOBAL")):
            value = function.__globals__.get(name)
            if callable(value) or isinstance(
                value, (Tensor, np.ndarray, *PLAIN)
            ):  # others may change while a program runs
                parts.append(f"{name}: {self.text(value)}")
        return f"code {_hash(*parts)}"

    def _class(self, kind: type) -> str:
        """Return the code of a class and of those it inherits from, but for what a library's version says."""
        if kind in self._classes:
            return self._classes[kind]
        own = [one for one in kind.__mro__ if not _known(one)]
        self._classes[kind] = f" code of {kind.__qualname__}"  # while it is read: it may use itself
        parts = []
        for one in own:
            for name, value in sorted(vars(one).items()):
                if name == "__call__" or (name not in SHOWN and not name.startswith("__")):
                    parts += [f"{name}={self.text(part)}" for part in _functions(value)]
        self._classes[kind] = f" code {_hash(*parts)}" if own else ""
        return self._classes[kind]


def _code(code: types.CodeType, doc: str | None = None) -> str:
    """Describe bytecode: its operations, names and constants, those of functions inside included."""
    constants = [
        _code(one) if isinstance(one, types.CodeType) else fingerprint(one)
        for number, one in enumerate(code.co_consts)
        if number or one not in (None, doc)  # the first is the docstring, or None
    ]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return _hash(code.co_code.hex(), repr(code.co_names), repr(arguments), str(code.co_flags), *constants)


def _names(code: types.CodeType, operation: str) -> set[str]:
    """Return the names that a function, and those inside it, use in one way."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname == operation}
    return names.union(*(_names(one, operation) for one in code.co_consts if isinstance(one, types.CodeType)))


def _functions(value: Any) -> list[object]:
    """Return what there is to read of an entry of a class: the functions behind it, or a plain value."""
    if isinstance(value, classmethod | staticmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [one for one in (value.fget, value.fset) if one is not None]
    if isinstance(value, functools.cached_property):
        return [value.func]
    return [value] if isinstance(value, (types.FunctionType, *PLAIN)) else []


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _array(value: Tensor | np.ndarray | np.generic) -> str:
    tensor = value.detach().cpu() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return f"{list(tensor.shape)} {tensor.dtype} {hashlib.sha256(content).hexdigest()[:12]}"


def _root(value: object) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def _known(value: object) -> bool:
    """Tell whether a function or class is of a library whose version says what it does."""
    return _root(value) in LIBRARIES or _standard(_root(value))


@functools.cache
def _standard(root: str) -> bool:
    """Tell whether a module is of the standard library, and not a file of the user's that has its name."""
    if root != "builtins" and root not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is None or any(Path(file).is_relative_to(sysconfig.get_path(one)) for one in ("stdlib", "platstdlib"))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
