"""Fingerprints that are equal in every process: settings and names as plain values, tensors by checksum."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import inspect
import json
import math
import sys
import types
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from datetime import date, timedelta
from enum import Enum
from numbers import Number
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.inspector import Inspector

from graphcollab._base.keyed import keyed_bits
from graphcollab.data.samples import ELSEWHERE, Split

_WORD_STREAM = 175
_WORDS = 2**22  # words of 8 bytes that are multiplied at a time
_DIGEST = 16  # bytes
_known: MutableMapping[Tensor, tuple[int, str]] = WeakIdKeyDictionary()
"""Version of a tensor when its content was read, and the result: a base model is read only once."""


def checksum(value: Tensor | np.ndarray | np.generic) -> str:
    """Return the shape, number type and checksum of an array."""
    if isinstance(value, np.ndarray | np.generic):
        held = np.asarray(value)
        try:
            value = torch.as_tensor(held)
        except (TypeError, ValueError):  # strings, dates and the like
            return f"{list(held.shape)} {held.dtype} {hashed(np.ascontiguousarray(held).tobytes())}"
    tensor = value.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_sparse_coo().coalesce()
        return f"{list(tensor.shape)} sparse {checksum(tensor.indices())} {checksum(tensor.values())}"
    return f"{list(tensor.shape)} {tensor.dtype} {hashed(_content(tensor))}"


def weights_checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the BLAKE2b of tensors (names, shapes, types, bytes) in any order, 32 digits; read once if unchanged."""
    told = [f"{name} {_digest(tensors[name])}\n" for name in sorted(tensors)]
    return hashlib.blake2b("".join(told).encode(), digest_size=_DIGEST).hexdigest()


def _digest(tensor: Tensor) -> str:
    version = -1 if tensor.is_inference() else tensor._version  # inference tensors have no version counter
    if version < 0 or _known.get(tensor, (None,))[0] != version:
        found = hashlib.blake2b(_content(tensor.detach()), digest_size=_DIGEST).hexdigest()
        _known[tensor] = version, f"{list(tensor.shape)} {tensor.dtype} {found}"
    return _known[tensor][1]


def _content(tensor: Tensor) -> memoryview | bytes:
    if not tensor.numel():
        return b""
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    content: memoryview = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return content


def digests(split: Split, values: Tensor) -> Tensor:
    """Return a checksum of every node's share of values [N, ...], in its order, [K] int64; 0 for nodes elsewhere.

    Positions in the pool do not count. Words of 8 bytes are multiplied by keyed odd numbers and summed modulo 2^64, so
    two samples collide with a probability of about 2^-63. The sums of samples, keyed by position, are then summed.
    """
    here = (split.index != ELSEWHERE).nonzero().flatten()
    rows = split.index[here]
    owner = split.owner[here]
    place = here - split.ptr[owner]
    used, which = rows.unique(return_inverse=True)
    found = torch.zeros(len(used), dtype=torch.int64)
    width = -(-values[:1].numel() * values.element_size() // 8) if len(values) else 0
    key = keyed_bits(0, _WORD_STREAM, torch.arange(width)) | 1
    for start in range(0, len(used), step := max(_WORDS // max(width, 1), 1)):
        some = values[used[start : start + step].to(values.device)].detach().cpu().contiguous()
        raw = torch.zeros(len(some), 8 * width, dtype=torch.uint8)
        content = some.reshape(len(some), -1).view(torch.uint8)
        raw[:, : content.shape[1]] = content
        found[start : start + step] = (raw.view(torch.int64) * key).sum(1)
    mixed = keyed_bits(0, _WORD_STREAM, found[which], place)
    return torch.zeros(split.num_nodes, dtype=torch.int64).index_add(0, owner, mixed)


def hashed(content: str | bytes | memoryview) -> str:
    """Return a short checksum of a text or bytes."""
    return hashlib.sha256(content.encode() + b"\n" if isinstance(content, str) else content).hexdigest()[:12]


PLAIN = (bool, int, float, str, type(None))
VALUES = (bytes, bytearray, Number, PurePath, date, timedelta, range, slice, type(Ellipsis), torch.dtype, torch.device)
NAMED = (type, np.ufunc, functools._lru_cache_wrapper)
WHOLE = (*PLAIN, *VALUES, *NAMED, Enum, Tensor, np.ndarray, types.ModuleType)
INSIDE = frozenset(vars(nn.Module()))  # attributes of every module
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GENERATED = (torch.fx.GraphModule, torch.jit.ScriptModule)  # their class does not define what they compute
MODELS = frozenset({"peft", "transformers"})  # model libraries; runs that use them record the libraries' versions
PLACES = frozenset({"_name_or_path", "base_model_name_or_path", "name_or_path"})  # where their models were loaded from
LIBRARIES = MODELS | {"numpy", "torch", "torch_geometric"}
PLAIN_OBJECTS = ("argparse", "types")  # of the standard library; objects of its other modules are not read
DEEP = 50  # maximum nesting depth that is read
LONG = 1000  # longest value, in characters, that is shown in full; longer ones are shown by checksum only


def describe(value: object, name: str, tensors: bool = True) -> dict[str, Any]:
    """Return a description of a value by plain values whose names give the location, such as ``method.local.epochs``.

    It covers types, settings and other plain attributes, tensors by checksum (with ``tensors=False``, none of modules,
    nor their mode), and functions and classes by qualified name with what a partial or an attribute sets; it does not
    cover function bodies or closures. Objects with a ``reset()`` are described in their reset state, without what a
    metric has counted. Objects that are neither plain nor have attributes are described by type alone.
    """
    found: dict[str, Any] = {}
    _Reader(found, tensors).read(value, name, ())
    return found


def fingerprint(value: object) -> str:
    """Return a checksum of the description of a value; see `describe`."""
    return hashed(json.dumps(describe(value, ""), sort_keys=True))


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reader of one value into a mapping; ``inside`` are the objects around it."""

    found: dict[str, Any]
    tensors: bool

    def read(self, value: Any, name: str, inside: tuple[int, ...]) -> None:
        try:
            self.found[name] = _short(_leaf(value))
            around = (*inside, id(value))
            held = [] if id(value) in inside or len(inside) > DEEP else [*self._held(value, around)]
        except Exception:  # no object may prevent a run from being saved
            self.found[name], held = _named(type(value)), []
        for place, item in held:
            self.read(item, name + place, around)

    def _key(self, value: Any, around: tuple[int, ...]) -> str:
        """Return the name of a key of a mapping, or of an element of a set, by its type and content."""
        found: dict[str, Any] = {}
        _Reader(found, self.tensors).read(value, "", around)
        return repr(found[""]) if len(found) == 1 else f"{found['']!r} {hashed(json.dumps(found, sort_keys=True))}"

    def _held(self, value: Any, around: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
        if isinstance(value, Mapping):
            yield from ((f"[{self._key(key, around)}]", item) for key, item in value.items())
        elif isinstance(value, set | frozenset) and not _is_plain(value):
            yield from (("{}", key) for key in [sorted(self._key(item, around) for item in value)])
        elif isinstance(value, np.ndarray) and value.dtype == np.dtype(object):
            yield "[:]", value.tolist()
        elif isinstance(value, list | tuple) and not _is_plain(value):
            yield from ((f"[{number}]", item) for number, item in enumerate(value))
        elif isinstance(value, functools.partial):
            yield from ((f".{key}", getattr(value, key)) for key in ("func", "args", "keywords"))
        elif isinstance(value, types.MethodType):
            yield ".self", value.__self__
        elif isinstance(value, types.FunctionType):
            yield from ((f".{key}", item) for key, item in sorted(vars(value).items()) if key[:1] != "_")
        elif isinstance(value, nn.Module):
            yield from ((f".{key}", item) for key, item in self._of_module(_reset(value) if self.tensors else value))
        elif _is_read(value):
            yield from ((f".{key}", item) for key, item in _attributes(_reset(value)).items())

    def _of_module(self, module: nn.Module) -> Iterator[tuple[str, Any]]:
        held, parameters = vars(module), dict(module.named_parameters(recurse=False))
        own = {name: held[name] for name in held if name not in INSIDE and _is_setting(type(module), name, held[name])}
        yield from sorted(own.items())
        yield from ((hooks, [*held[hooks].values()]) for hooks in HOOKS if held.get(hooks))
        yield from ((f"{n}.hooks", [*p._backward_hooks.values()]) for n, p in parameters.items() if p._backward_hooks)
        if frozen := [name for name, one in parameters.items() if not one.requires_grad]:
            yield "frozen", frozen
        if isinstance(module, GENERATED):
            yield "code", hashed(str(getattr(module, "code", "")))
        if self.tensors:
            yield "training", module.training
            yield from (*parameters.items(), *module.named_buffers(recurse=False))
        yield from module.named_children()


def _leaf(value: Any) -> Any:
    """Return a plain value unchanged, and any other value without its content."""
    if isinstance(value, Enum):
        return f"{_named(type(value))}.{value.name}"
    if isinstance(value, PLAIN):
        return value if not isinstance(value, float) or math.isfinite(value) else repr(value)
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return checksum(value) if value.dtype != np.dtype(object) else f"objects {list(value.shape)}"
    if isinstance(value, VALUES):
        return str(value)
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, list | tuple):
        return [*map(_leaf, value)] if _is_plain(value) else f"{_named(type(value))} of {len(value)}"
    if isinstance(value, set | frozenset):
        return sorted(map(json.dumps, value)) if _is_plain(value) else f"{_named(type(value))} of {len(value)}"
    if inspect.isroutine(value) or isinstance(value, NAMED):
        return _named(value)
    return _named(type(value))


def _short(leaf: Any) -> Any:
    text = leaf if isinstance(leaf, str) else json.dumps(leaf)
    return leaf if len(text) <= LONG else f"{text[:LONG]}… {hashed(text)}"


def _is_plain(value: Any) -> bool:
    return all(isinstance(one, PLAIN) and not isinstance(one, Enum) for one in value)


def _named(value: Any) -> str:
    """Return the qualified name of a function or class; a script has the same name in all of its processes."""
    name = getattr(value, "__qualname__", None) or value.__name__
    module = getattr(value, "__module__", None)
    module = "__main__" if module == "__mp_main__" else module
    return name if module in (None, "builtins") else f"{module}.{name}"


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_read(value: object) -> bool:
    """Return whether an object's attributes define it, rather than the state of the program."""
    kind, root = type(value), _root(type(value))
    if isinstance(value, WHOLE) or inspect.isroutine(value):
        return False
    return kind is not Inspector and (root not in sys.stdlib_module_names or root in PLAIN_OBJECTS)


def _is_setting(kind: type, name: str, value: object) -> bool:
    """Return whether a module's attribute is read: of a library class's private attributes, only plain values."""
    if name in PLACES and any(_root(one) in MODELS for one in kind.__mro__):
        return False
    if not (_root(kind) in LIBRARIES and name.startswith("_")):
        return True
    return value is not None and isinstance(value, PLAIN) and _root(kind) not in MODELS  # which record how they loaded


def _attributes(value: Any) -> dict[str, Any]:
    """Return an object's attributes, including those in slots, without cached results."""
    library = any(_root(one) in MODELS for one in type(value).__mro__)
    if dataclasses.is_dataclass(value) and not library:
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    found: Any = object.__getstate__(value)
    own, slots = found if isinstance(found, tuple) else (found, None)
    kind, held = type(value), {**(slots or {}), **(own or {})}
    cached = {n for n in held if isinstance(inspect.getattr_static(kind, n, None), functools.cached_property)}
    left_out = cached | {name for name in held if library and (name in PLACES or name[:1] == "_")}
    return {name: held[name] for name in sorted(held) if name not in left_out}


def _reset(value: Any) -> Any:
    """Return a value, or a copy in its state after ``reset()``: what a metric has counted is not a setting."""
    with suppress(Exception):
        if callable(getattr(value, "reset", None)):
            copied = copy.deepcopy(value)
            copied.reset()
            return copied
    return value
