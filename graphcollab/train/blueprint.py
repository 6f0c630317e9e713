"""Blueprints: what a module is, as JSON, so that it can be built elsewhere without pickle and without its constructor.

A blueprint has a layer's class by import path, its plain attributes, and the names of its parameters, buffers and
children. Values that JSON does not know are objects of one entry, such as ``{"tuple": [2, 2]}``.

Whoever writes a blueprint chooses attributes, so building must be safe whatever they are. It fills ``__dict__`` and
calls nothing of a class: no constructor, no ``__new__``, no ``__setstate__``. What may be named is for `trust` to say.
"""

from __future__ import annotations

import functools
import math
import sys
import weakref
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab.train.fingerprint import HOOKS, INSIDE
from graphcollab.train.trust import FUNCTIONS, class_at, dtype_of, function_at, may_hold, own_restoring

__all__ = ["NotDrawnError", "build", "draw", "tensors_of"]

PLAIN = (bool, int, str, type(None))
LISTS: Mapping[str, type] = {"tuple": tuple, "size": torch.Size, "set": set, "frozenset": frozenset}
VISITS = 2**16  # of layers, counting one that is there several times as often
RECURRENT = {nn.LSTM: ("LSTM",), nn.GRU: ("GRU",), nn.RNN: ("RNN_TANH", "RNN_RELU")}
SIZES = ("input_size", "hidden_size", "num_layers", "proj_size")
FLAT = "_flat_weights"  # of recurrent layers, which keep references to them, too


class NotDrawnError(ValueError):
    """A module that a blueprint cannot say all of; the message says why."""


def draw(module: nn.Module) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a module's blueprint and the tensors it names, none of them copied.

    Raises:
        NotDrawnError: If a class cannot be imported or restores itself by code of its own, or a layer has hooks or
            keeps what is neither plain nor a tensor.
    """
    return _Drawing(module).layer(module, ""), tensors_of(module)


def build(blueprint: Mapping[str, Any], tensors: Mapping[str, Tensor], trusted: Collection[str] = ()) -> nn.Module:
    """Build a module, with these tensors as its parameters and buffers.

    Args:
        blueprint: What `draw` has returned, or anything that somebody has made up.
        tensors: The tensors it names.
        trusted: Modules whose classes it may name besides the known ones; they are imported.

    Raises:
        ImportError: If there is no such class.
        Exception: Of many kinds (`DAMAGES`), if a blueprint is none, names a class of another module, a function that
            is not in the list or a tensor that is not there, or sets what is not an attribute's to set.
    """
    return _Building(tensors, trusted).layer(blueprint, "")


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers by the first name that each has."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


class _Drawing:
    """Draws one module; what it meets again it only names."""

    def __init__(self, module: nn.Module) -> None:
        self._tensors = {id(tensor): name for name, tensor in tensors_of(module).items()}
        self._layers: dict[int, str] = {}

    def layer(self, layer: nn.Module, path: str) -> dict[str, Any]:
        if id(layer) in self._layers:
            return {"same": self._layers[id(layer)]}
        self._layers[id(layer)] = path
        kind = type(layer).__name__
        where = f"layer {path!r}, {kind}," if path else kind
        if any(vars(layer).get(hooks) for hooks in HOOKS):
            raise NotDrawnError(f"{where} has hooks, which are code")
        found: dict[str, Any] = {"class": _path_of(type(layer), where)}
        if own_restoring(type(layer)):
            raise NotDrawnError(f"{where} restores itself by code of its own, `__setstate__`")
        held: Any = layer.__getstate__()
        own = {name: held[name] for name in held if name not in INSIDE}
        for name, value in own.items():
            if not may_hold(type(layer), name):
                raise NotDrawnError(f"{where} keeps something under the name of a method or property, {name!r}")
            try:
                found.setdefault("attributes", {})[name] = self._value(value)
            except NotDrawnError as error:
                raise NotDrawnError(f"{where} keeps {error} as its attribute {name!r}") from None
        for name, parameter in layer._parameters.items():
            entry = None if parameter is None else [self._tensors[id(parameter)], parameter.requires_grad]
            found.setdefault("parameters", {})[name] = entry
        for name, buffer in layer._buffers.items():
            entry = (
                None if buffer is None else [self._tensors[id(buffer)], name not in layer._non_persistent_buffers_set]
            )
            found.setdefault("buffers", {})[name] = entry
        for name, child in layer._modules.items():
            inner = None if child is None else self.layer(child, f"{path}.{name}".lstrip("."))
            found.setdefault("children", {})[name] = inner
        return found

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is list:
            return list(map(self._value, value))
        for name, listed in LISTS.items():
            if kind is listed:
                return {name: [self._value(one) for one in (sorted(value) if "set" in name else value)]}
        if kind in (dict, OrderedDict):
            return {"dict": [[self._value(key), self._value(one)] for key, one in value.items()]}
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, Tensor) and id(value) in self._tensors:
            return {"tensor": self._tensors[id(value)]}
        if isinstance(value, type) and issubclass(value, nn.Module):
            return {"class": _path_of(value, value.__name__)}
        if kind is functools.partial and any(value.func is one for one in FUNCTIONS.values()):
            return {"partial": [self._value(one) for one in (value.func, value.args, value.keywords)]}
        for name, function in FUNCTIONS.items():
            if value is function:
                return {"function": name}
        raise NotDrawnError(f"a {kind.__name__}")


class _Building:
    """Builds one module."""

    def __init__(self, tensors: Mapping[str, Tensor], trusted: Collection[str]) -> None:
        self._tensors, self._trusted = tensors, trusted
        self._made: dict[str, Tensor] = {}
        self._layers: dict[str, nn.Module] = {}
        self._visits: dict[int, int] = {}  # of the layers of a layer, by its id

    def layer(self, drawn: Mapping[str, Any], path: str) -> nn.Module:
        if "same" in drawn:
            return self._layers[drawn["same"]]
        kind = class_at(drawn["class"], self._trusted)
        state = vars(nn.Module())
        parameters, buffers = drawn.get("parameters", {}), drawn.get("buffers", {})
        state["_parameters"] = {n: None if e is None else self._parameter(*e) for n, e in parameters.items()}
        state["_buffers"] = {n: None if e is None else self._buffer(e[0]) for n, e in buffers.items()}
        state["_non_persistent_buffers_set"] = {n for n, e in buffers.items() if e is not None and not e[1]}
        state["_modules"] = {
            name: None if child is None else self.layer(child, f"{path}.{name}".lstrip("."))
            for name, child in drawn.get("children", {}).items()
        }
        attributes = {name: self._value(value) for name, value in drawn.get("attributes", {}).items()}
        for name in (*parameters, *buffers, *state["_modules"], *attributes):
            if not may_hold(kind, name):
                raise ValueError(f"{name!r} is no attribute of a {kind.__name__} that can be set")
        if issubclass(kind, nn.RNNBase):
            attributes["_flat_weight_refs"] = [one if one is None else weakref.ref(one) for one in attributes[FLAT]]
        layer = object.__new__(kind)
        vars(layer).update(state | attributes)
        if isinstance(layer, nn.RNNBase):
            _require_weights(layer)
        if isinstance(layer, nn.MultiheadAttention) and not layer.num_heads > 0:  # a kernel divides by it
            raise ValueError(f"an attention of {layer.num_heads} heads")
        inside = (self._visits[id(child)] for child in state["_modules"].values() if child is not None)
        self._visits[id(layer)] = visits = 1 + sum(inside)
        if visits > VISITS:  # it would compute for ever
            raise ValueError(f"a model of more than {VISITS} layers")
        self._layers[path] = layer  # only now, so that no layer is inside itself
        return layer

    def _parameter(self, name: str, learns: bool) -> Tensor:
        if name not in self._made:
            self._made[name] = nn.Parameter(self._tensors[name], requires_grad=learns)
        return self._made[name]

    def _buffer(self, name: str) -> Tensor:
        return self._made.setdefault(name, self._tensors[name])

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return list(map(self._value, value))
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind in LISTS:
            return LISTS[kind](map(self._value, content))
        if kind == "float":
            return float(content)
        if kind == "dict":
            return {self._value(key): self._value(one) for key, one in content}
        if kind == "dtype":
            return dtype_of(content)
        if kind == "tensor":
            return self._made[content]
        if kind == "class":
            return class_at(content, self._trusted)
        if kind == "function":
            return function_at(content)
        if kind != "partial":
            raise ValueError(f"{kind!r} is no kind of value")
        function, args, keywords = content
        return functools.partial(function_at(function["function"]), *self._value(args), **self._value(keywords))


def _require_weights(layer: nn.RNNBase) -> None:
    """Check that a recurrent layer has the weights that its sizes say: kernels read so many numbers unasked."""
    held, weights = vars(layer), layer._flat_weights
    modes = next((modes for kind, modes in RECURRENT.items() if isinstance(layer, kind)), (held["mode"],))
    sizes = {name: held[name] for name in SIZES}
    fits = held["mode"] in modes and all(type(size) is int for size in sizes.values())
    if not fits or not 0 < sizes["num_layers"] <= len(weights) or (sizes["proj_size"] and held["mode"] != "LSTM"):
        raise ValueError(f"a {type(layer).__name__} of mode {held['mode']!r} cannot have the sizes {sizes}")
    options = {name: held[name] for name in ("bias", "batch_first", "dropout", "bidirectional")}
    made = nn.RNNBase(held["mode"], **sizes, **options, device="meta")
    given, due = vars(made), ("_all_weights", "_flat_weights_names")
    named = all(held[name] == given[name] for name in due) and len(weights) == len(made._flat_weights)
    own = named and all(held["_parameters"][n] is w for n, w in zip(made._flat_weights_names, weights, strict=True))
    shapes, due_shapes = ([one.shape for one in some if one is not None] for some in (weights, made._flat_weights))
    if not own or shapes != due_shapes or len({one.dtype for one in weights if one is not None}) > 1:
        raise ValueError(f"the weights of a {type(layer).__name__} are not those of its sizes, {sizes}")


def _path_of(kind: type, where: str) -> str:
    """Return a class's import path, ``package.module:Class``; refuse one that is not found there."""
    module, name = kind.__module__, kind.__qualname__
    if module == "__main__":
        raise NotDrawnError(f"{where} is of a class that the script itself defines: put it into a file to import")
    if "<locals>" in name:
        raise NotDrawnError(f"{where} is of a class that is defined inside a function: put it at the top of a file")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not kind:
        raise NotDrawnError(f"{where} is of the class {module}.{name}, which is made while a program runs")
    return f"{module}:{name}"
