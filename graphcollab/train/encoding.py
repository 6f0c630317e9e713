"""Values of a run as JSON, with their tensors beside it; decoding executes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from graphcollab.errors import InvalidTypeError
from graphcollab.findings import Finding
from graphcollab.nn import Mixer
from graphcollab.relation import Relation
from graphcollab.stack import ParamSpec, Stacks

_VALUES = {kind.__name__: kind for kind in (Stacks, ParamSpec, Relation, Mixer, Finding)}


def encode(value: Any, name: str, tensors: dict[str, Tensor], copy: bool = True) -> Any:
    """Turn a tensor, plain value, value of the package, or containers of such into JSON; else an InvalidTypeError.

    Tensors go into ``tensors`` on the CPU (``copy``: with memory of their own), of equal rows only one.
    """
    if isinstance(value, Tensor):
        repeated = value.shape[0] if value.dim() > 1 and value.stride(0) == 0 and value.shape[0] > 1 else 0
        kept = (value[:1] if repeated else value).detach().cpu().contiguous()
        tensors[name] = kept.clone() if copy else kept
        return {"tensor": name, "repeated": repeated}
    if type(value) in _VALUES.values():
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"value": type(value).__name__, "fields": encode(fields, name, tensors, copy)}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, bool | int | float | str | None):
                raise InvalidTypeError(
                    name, f"{name} has a key of type {type(key).__name__}, which a checkpoint cannot hold"
                )
        return {"mapping": [[key, encode(item, f"{name}.{key}", tensors, copy)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        items = [encode(item, f"{name}.{i}", tensors, copy) for i, item in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidTypeError(name, f"{name} is a {type(value).__name__}, which a checkpoint cannot hold")


def decode(code: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo `encode`."""
    if isinstance(code, list):
        return [decode(item, tensors) for item in code]
    if not isinstance(code, dict):
        return code
    kind, content = next(iter(code.items()))
    if kind == "tensor":
        tensor = tensors[content]
        return tensor.expand(code["repeated"], *tensor.shape[1:]) if code["repeated"] else tensor
    if kind == "value":
        return _VALUES[content](**decode(code["fields"], tensors))
    items = decode(content, tensors)
    return tuple(items) if kind == "tuple" else dict(items)
