"""Values of a run as JSON with their tensors put aside, and back; no code is stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from graphcollab.nn import Mixer, Mixers
from graphcollab.relation import Relation
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.train.history import Finding, History

__all__ = ["decode", "encode"]

_KINDS = (Stacks, ParamSpec, Relation, Mixer, Mixers, History, Finding)
_VALUES: dict[str, type] = {kind.__name__: kind for kind in _KINDS}


def encode(value: Any, name: str, tensors: dict[str, Tensor], copy: bool = True) -> Any:
    """Turn a value into JSON, with its tensors put aside under their names.

    Args:
        value: A tensor, a plain value, one of the package's values, or mappings, tuples and lists of such.
        name: Its name.
        tensors: Where its tensors are put, on the CPU; of rows that are all the same only one is kept.
        copy: Give every tensor memory of its own.

    Raises:
        TypeError: If it holds anything else.
    """
    if isinstance(value, Tensor):
        repeated = value.shape[0] if value.dim() > 1 and value.stride(0) == 0 and value.shape[0] > 1 else 0
        kept = (value[:1] if repeated else value).detach().cpu().contiguous()
        tensors[name] = kept.clone() if copy else kept
        return {"tensor": name, "repeated": repeated}
    if type(value) in _VALUES.values():
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"value": type(value).__name__, "fields": encode(fields, name, tensors, copy)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, bool | int | float | str | None):
                raise TypeError(f"{name} has a key of type {type(key).__name__}, which a checkpoint cannot hold")
        keys = [{"key": key, "value": encode(item, f"{name}.{key}", tensors, copy)} for key, item in value.items()]
        return {"mapping": keys}
    if isinstance(value, tuple | list):
        items = [encode(item, f"{name}.{i}", tensors, copy) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, bool | int | float | str):
        return {"plain": value}
    raise TypeError(f"{name} is a {type(value).__name__}, which a checkpoint cannot hold")


def decode(code: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo `encode`.

    Example:
        >>> decode(encode({"a": (1, None)}, "x", {}), {})
        {'a': (1, None)}
    """
    kind, content = next(iter(code.items()))
    if kind == "tensor":
        tensor = tensors[content]
        return tensor.expand(code["repeated"], *tensor.shape[1:]) if code["repeated"] else tensor
    if kind == "value":
        return _VALUES[content](**decode(code["fields"], tensors))
    if kind == "mapping":
        return {item["key"]: decode(item["value"], tensors) for item in content}
    if kind in ("tuple", "list"):
        items = [decode(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    return content
