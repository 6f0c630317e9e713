"""Folders of saved models: one packed file; and values of a run as JSON and tensors."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from graphcollab._base.errors import ExistsError, InvalidTypeError, MissingFileError
from graphcollab._base.files import PART, write_whole
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few
from graphcollab._base.packed import damage_of, is_packed, pack, read_packed, unpack
from graphcollab.comm.relation import Relation
from graphcollab.engine.stack import ParamSpec, Stacks
from graphcollab.nn import MixingEncoder

FILE = "models.safetensors"
UNFINISHED = re.compile(rf"\.{re.escape(FILE)}\.[0-9a-f]+{re.escape(PART)}")


def write_folder(
    folder: str | Path, kind: str, version: int, content: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write into a folder that is missing, empty, or already holds such a file, which is replaced; else ExistsError."""
    folder = Path(folder)
    require_own(folder, _is_own)
    write_whole(folder / FILE, pack(kind, version, content, tensors))
    return folder


def _is_own(path: Path) -> bool:
    if path.name == FILE:
        return path.is_file() and is_packed(path)
    return UNFINISHED.fullmatch(path.name) is not None


def read_folder(folder: str | Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the content and the tensors of a folder; a MissingFileError, or the errors of `unpack`."""
    folder = Path(folder)
    if not (folder / FILE).exists():
        there = f"has no {FILE}" if folder.is_dir() else "is a file" if folder.exists() else "is not there"
        raise MissingFileError(f"folder {folder}", f"expected a folder of {kind}, but {folder} {there}")
    with damage_of(f"folder {folder}"):
        packed = read_packed(folder / FILE)
    content, tensors = unpack(packed, kind, version, f"folder {folder}")
    with damage_of(f"folder {folder}"):
        return dict(content), tensors


def require_own(folder: Path, is_own: Callable[[Path], bool]) -> None:
    """Reject a folder that contains foreign files; an ExistsError names one."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ExistsError(f"folder {folder}", f"expected a folder, or nothing there yet, and {folder} is a file")
    strange = sorted(path.name for path in folder.iterdir() if not is_own(path))
    if strange:
        raise ExistsError(
            f"folder {folder}", f"{folder} holds something else ({few([*map(repr, strange)])}): give another folder"
        )


_VALUES = {kind.__name__: kind for kind in (Stacks, ParamSpec, Relation, MixingEncoder, Finding)}


def encode(value: Any, name: str, tensors: dict[str, Tensor], copy: bool = True) -> Any:
    """Encode a tensor, plain value, value of the package, or containers of these as JSON; else an InvalidTypeError.

    Tensors are put into ``tensors`` on the CPU (``copy``: in memory of their own), of equal rows only one.
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
    """Invert `encode`."""
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
