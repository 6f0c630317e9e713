"""What values of any class are and do, as short text that is the same in every process."""

from __future__ import annotations

import copyreg
import dis
import functools
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.inspector import Inspector

from graphcollab.train.checksum import checksum, hashed

__all__ = ["HOOKS", "INSIDE", "MODELS", "PLAIN", "Reader", "fingerprint"]

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, torch.dtype, torch.device)
INSIDE = frozenset(vars(nn.Module()))  # what every module has
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
SHOWN = frozenset({"__init__", "extra_repr", "_get_name"})  # how an object is made shows in it, how it is printed never
MADE = frozenset({"__init__", "__new__", "__post_init__", "__setstate__"})  # what they set, an object was made with
DEEP = 40  # values inside one another that are read at once; those further inside are read afterwards
MANY = 10**6  # values of which more than their class is read
LONG = 2000  # characters of a text that is shown, and not only its checksum
CONTAINERS = (dict, list, tuple, set, frozenset)
GENERATED = (torch.fx.GraphModule, torch.jit.ScriptModule, torch.jit.ScriptFunction)  # torch's class, a user's code
MODELS = frozenset({"peft", "transformers"})  # libraries of models; runs with such note the libraries' versions
PLACES = frozenset(
    {"_name_or_path", "base_model_name_or_path", "name_or_path"}
)  # where models of these were loaded from
LIBRARIES = MODELS | {"numpy", "torch", "torch_geometric"}  # their versions say what their code does
OWN = "graphcollab"  # and so does this package's; what its objects keep to themselves is read all the same
RUNNING = frozenset(  # what their objects hold is of the program that runs, and another time something else
    {"_contextvars", "_io", "_random", "_thread", "_weakref", "asyncio", "concurrent", "contextvars", "io", "logging"}
    | {"multiprocessing", "os", "queue", "random", "selectors", "socket", "subprocess", "tempfile", "threading"}
    | {"weakref"}
)


def fingerprint(value: object) -> str:
    """Return what a value is: plain values as they are, tensors by checksum, functions and classes by their bytecode.

    A function's defaults, attributes, the variables it closes over, and what it uses by name are part of it; variables
    that it sets itself, comments, and places in files and memory are not. Objects are what they hold, containers in
    them and slots included, but for attributes that they set when they are used, and the code of their class. Of the
    code of the standard library, of `LIBRARIES` and of this package only names are: their versions say the rest. What a
    function reaches through a module (``mine.loss``) is not followed. Neither are random generators, threads, locks,
    files and loggers.
    """
    reader = Reader()
    return reader.finish(reader.text(value))


class Reader:
    """Reads one value; what it meets again it only names, so values may hold themselves.

    Args:
        classes: What is known of classes already.
        met: What has been met already.
        named: Modules, by their identity, that are described elsewhere: they are only named.
    """

    def __init__(
        self,
        classes: dict[type, str] | None = None,
        met: dict[int, Any] | None = None,
        named: Mapping[int, str] | None = None,
    ) -> None:
        self._met = {} if met is None else met  # held on to, so that no other object gets its number
        self._named = {} if named is None else named
        self._classes = {} if classes is None else classes
        self._depth = 0
        self._later: list[object] = []

    def text(self, value: object) -> str:
        """Describe a value."""
        if isinstance(value, types.ModuleType):
            return value.__name__
        if id(value) in self._named:
            return f"module {self._named[id(value)]!r}"
        if id(value) in self._met:
            return f"number {self._met[id(value)][0]}"
        try:
            if isinstance(value, PLAIN) and not isinstance(value, Enum):
                return repr(value)
            self._met[id(value)] = len(self._met), value
            if isinstance(value, Tensor | np.ndarray | np.generic) and value.dtype != np.dtype(object):
                return checksum(value)
            if len(self._met) > MANY:
                return type(value).__qualname__
            if self._depth >= DEEP:
                self._later.append(value)
                return f"later {len(self._met)}"
            self._depth += 1
            try:
                return self._deep(value)
            finally:
                self._depth -= 1
        except Exception:  # no object may keep a run from being saved
            return type(value).__qualname__

    def finish(self, text: str) -> str:
        """Add what was too deep inside, and shorten what is too long."""
        parts = []
        while self._later:
            value = self._later.pop(0)
            try:
                parts.append(self._deep(value))
            except Exception:
                parts.append(type(value).__qualname__)
        text += f" and {hashed(*parts)}" if parts else ""
        return text if len(text) <= LONG else f"{text[:LONG]}… {hashed(text)}"

    def module(self, module: nn.Module) -> str:
        """Describe a module without its children."""
        kind, held = type(module), vars(module)
        own = {name: held[name] for name in held if name not in INSIDE and _is_setting(kind, name, held[name])}
        own = _settings(kind, own)
        own |= {hooks: list(held[hooks].values()) for hooks in HOOKS if held.get(hooks)}
        parameters = dict(module.named_parameters(recurse=False))
        hooked = {name: one._backward_hooks for name, one in parameters.items() if one._backward_hooks}
        own |= {f"hooks of {name}": list(hooks.values()) for name, hooks in hooked.items()}
        if frozen := [name for name, one in parameters.items() if not one.requires_grad]:
            own["frozen"] = frozen
        if isinstance(module, GENERATED):
            own["code"] = self._generated(module)
        return f"{kind.__name__}({self._fields(own)}){self._class(kind)}"

    def _deep(self, value: Any) -> str:
        if isinstance(value, nn.Module):
            tensors = (*value.named_parameters(recurse=False), *value.named_buffers(recurse=False))
            inside = [f"{name}: {self.text(one)}" for name, one in (*tensors, *value.named_children())]
            return ", ".join([self.module(value) + ("" if value.training else " in evaluation mode"), *inside])
        if isinstance(value, type):
            return value.__qualname__ + self._class(value)
        if type(value) in CONTAINERS:
            return self._content(value)
        if isinstance(value, functools.partial):
            return f"partial {self.text(value.func)}({self.text(value.args)}, {self.text(value.keywords)})"
        if isinstance(value, types.MethodType):
            return f"{self.text(value.__func__)} of {self.text(value.__self__)}"
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            given = value.__self__
            bound = "" if given is None or isinstance(given, type | types.ModuleType) else f" of {self.text(given)}"
            return f"{value.__qualname__}{bound}"
        return self._object(value)

    def _object(self, value: Any) -> str:
        """Describe an object by its class and all that it holds."""
        kind = type(value)
        if _is_running(kind) or kind is Inspector:  # which holds more of a class in its first object than in others
            return kind.__qualname__
        if isinstance(value, Enum):
            return f"{kind.__qualname__}.{value.name}={self.text(value.value)}{self._class(kind)}"
        if isinstance(value, GENERATED):
            return self._generated(value)
        name = ""
        with suppress(Exception):  # NumPy's functions have one, say
            name = str(getattr(value, "__name__", ""))
        held = self._content(value) if isinstance(value, (Mapping, *CONTAINERS)) else ""
        held += "".join(map(self.text, _state(value)))
        if isinstance(value, np.ndarray):
            held += self.text(value.tolist())
        own = self._fields(_settings(kind, _attributes(value)))
        return f"{name}{kind.__qualname__}{held}({own}){self._class(kind)}"

    def _content(self, value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self.text(key)}: {self.text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(self.text, value)) + "]"
        texts = []
        for item in value:  # in no order, so no item may change how another one is read
            reader = Reader(dict(self._classes), dict(self._met), self._named)
            texts.append(reader.finish(reader.text(item)))
        return "{" + ", ".join(sorted(texts)) + "}"

    def _generated(self, value: Any) -> str:
        """Describe code that was traced or compiled, and the functions that it calls."""
        nodes = value.graph.nodes if isinstance(value, torch.fx.GraphModule) else ()
        targets = [node.target for node in nodes if callable(node.target)]
        return f"code {hashed(str(getattr(value, 'code', '')), *map(self.text, targets))}"

    def _fields(self, fields: Mapping[str, Any]) -> str:
        return ", ".join(f"{name}={self.text(fields[name])}" for name in sorted(fields))

    def _function(self, function: types.FunctionType) -> str:
        code = function.__code__
        counted = _names(code, "STORE_ATTR")  # and what torch.compile notes are numbers of the process
        held = {one: function.__dict__[one] for one in vars(function) if one not in counted and one[:6] != "_torch"}
        if _versioned(function):
            return f"{function.__module__}.{function.__qualname__}" + (f"({self._fields(held)})" if held else "")
        parts = [_code(code, function.__doc__), self.text([function.__defaults__, function.__kwdefaults__, held])]
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in _names(code, "STORE_DEREF"):
                content = None
                with suppress(ValueError):  # not filled yet
                    content = cell.cell_contents
                parts.append(self.text(content))
        for name in sorted(_names(code, "LOAD_GLOBAL") - _names(code, "STORE_GLOBAL")):
            parts.append(f"{name}: {self.text(function.__globals__.get(name))}")
        return f"code {hashed(*parts)}"

    def _class(self, kind: type) -> str:
        """Return the code of a class and of those it inherits from, but for what a library's version says."""
        if kind in self._classes:
            return self._classes[kind]
        own = [one for one in kind.__mro__ if not _versioned(one)]
        self._classes[kind] = f" code of {kind.__qualname__}"  # while it is read: it may use itself
        parts = []
        for one in own:
            for name, value in sorted(vars(one).items()):
                if name == "__call__" or (name not in SHOWN and not name.startswith("__")):
                    parts += [f"{name}={self.text(part)}" for part in _functions(value)]
        self._classes[kind] = f" code {hashed(*parts)}" if own else ""
        return self._classes[kind]


def _code(code: types.CodeType, doc: str | None = None) -> str:
    """Describe bytecode: its operations, names and constants, those of functions inside included."""
    constants = [
        _code(one) if isinstance(one, types.CodeType) else fingerprint(one)
        for number, one in enumerate(code.co_consts)
        if number or one not in (None, doc)  # the first is the docstring, or None
    ]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return hashed(code.co_code.hex(), repr(code.co_names), repr(arguments), str(code.co_flags), *constants)


@functools.lru_cache(maxsize=4096)  # as every run reads the code of its method
def _names(code: types.CodeType, operation: str) -> frozenset[str]:
    """Return the names that a function, and those inside it, use in one way."""
    names = frozenset(one.argval for one in dis.get_instructions(code) if one.opname == operation)
    return names.union(*(_names(one, operation) for one in code.co_consts if isinstance(one, types.CodeType)))


def _functions(value: Any) -> list[object]:
    """Return what there is to read of an entry of a class: the functions behind it, or its value."""
    if isinstance(value, classmethod | staticmethod | property | functools.cached_property):
        found = (getattr(value, name, None) for name in ("__func__", "fget", "fset", "func"))
        return [one for one in found if one is not None]
    return [] if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType) else [value]


def _is_setting(kind: type, name: str, value: object) -> bool:
    """Tell whether a module's attribute is read: what a library's class keeps to itself only where it is plain."""
    if not (_known(kind) and name.startswith("_")):
        return True
    return value is not None and type(value) in PLAIN and _root(kind) not in MODELS  # which note how they were loaded


def _attributes(value: object) -> dict[str, Any]:
    """Return an object's attributes, those in slots included."""
    with suppress(Exception):
        found: Any = object.__getstate__(value)
        own, slots = found if isinstance(found, tuple) else (found, None)
        return {str(name): item for name, item in {**(slots or {}), **(own or {})}.items()}
    return {}


def _settings(kind: type, held: dict[str, Any]) -> dict[str, Any]:
    """Return what an object holds but for what it notes in use, as metrics do, and where models were loaded from."""
    others = _set_by_use(kind) | (PLACES if any(_root(one) in MODELS for one in kind.__mro__) else frozenset())
    return {name: value for name, value in held.items() if name not in others}


@functools.lru_cache(maxsize=4096)
def _set_by_use(kind: type) -> frozenset[str]:
    """Return the attributes that objects set when they are called, or used by operators, by the code of that."""
    found: frozenset[str] = frozenset()
    met, ahead = set(MADE), ["forward", *(name for name in dir(kind) if name.startswith("__"))]
    while ahead and not _versioned(kind):
        if (name := ahead.pop()) in met:
            continue
        met.add(name)
        function = inspect.getattr_static(kind, name, None)
        if isinstance(function, types.FunctionType) and not _versioned(function):
            found |= _names(function.__code__, "STORE_ATTR")
            ahead += [*_names(function.__code__, "LOAD_ATTR"), *_names(function.__code__, "LOAD_METHOD")]
    return found


def _state(value: object) -> list[Any]:
    """Return what an object holds that no attribute shows (a ``deque``), as the standard library would pickle it."""
    kind = type(value)
    found: Any = ()
    with suppress(Exception):
        if isinstance(value, Iterator):  # reading on would change it
            return []
        if _standard(_root(kind)) and kind in copyreg.dispatch_table:
            found = copyreg.dispatch_table[kind](value)
        for name, given in (("__reduce_ex__", (4,)), ("__reduce__", ())):
            owner = next(one for one in kind.__mro__ if name in vars(one))
            if not found and owner is not object and _standard(_root(owner)) and not _is_running(owner):
                found = vars(owner)[name](value, *given)
        if isinstance(found, tuple):
            return [*found[1:3], *(list(one) for one in found[3:5] if one is not None)]
        return [found]
    return []


def _root(value: object) -> str:
    module = getattr(value, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""


def _known(value: object) -> bool:
    """Tell whether a function or class is of a library whose version says what it does."""
    return _root(value) in LIBRARIES or _standard(_root(value))


def _versioned(value: object) -> bool:
    """Tell whether a version that every run notes says what a function or class does."""
    return _known(value) or _root(value) == OWN


def _is_running(kind: type) -> bool:
    return _root(kind) in RUNNING and _standard(_root(kind))


@functools.cache
def _standard(name: str) -> bool:
    """Tell whether a module is of the standard library, and not a file of the user's that has its name."""
    if name != "builtins" and name not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or any(Path(file).is_relative_to(sysconfig.get_path(one)) for one in ("stdlib", "platstdlib"))
