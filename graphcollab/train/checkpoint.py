"""Checkpoints: the ``Data`` and the history of a run in one safetensors file, written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.comm import Relation
from graphcollab.nn import Mixer
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.train.files import write_whole
from graphcollab.train.history import History

__all__ = ["latest_checkpoint", "load_checkpoint", "save_checkpoint"]

FORMAT = "graphcollab-run-1"
KEEP = 2

_VALUES: dict[str, type] = {kind.__name__: kind for kind in (Stacks, ParamSpec, Relation, Mixer, History)}


def save_checkpoint(folder: str | Path, data: Data, history: History, about: Mapping[str, Any]) -> Path:
    """Write ``round-<number>.safetensors`` and remove all but the last two.

    Args:
        folder: Where checkpoints of one run live.
        data: The state after a round.
        history: What happened so far.
        about: What the run is, as plain values; a resumed run must be the same.
    """
    tensors: dict[str, Tensor] = {}
    fields = {name: data[name] for name in sorted(data.keys())}
    content = {
        "data": _encode(fields, "data", tensors),
        "history": _encode(history, "history", tensors),
        "about": dict(about),
    }
    folder = Path(folder)
    path = folder / f"round-{data.round:06d}.safetensors"
    write_whole(path, save(tensors, {"format": FORMAT, "content": json.dumps(content)}))
    for old in sorted(folder.glob("round-*.safetensors"))[:-KEEP]:
        old.unlink()
    return path


def latest_checkpoint(folder: str | Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None."""
    return max(Path(folder).glob("round-*.safetensors"), default=None)


def load_checkpoint(path: str | Path, device: torch.device | str = "cpu") -> tuple[Data, History, dict[str, Any]]:
    """Read a checkpoint; nothing in the file is executed.

    Returns:
        The state, the history and what the run was.

    Raises:
        ValueError: If the file is not a checkpoint.
    """
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint ({FORMAT}); its format is {metadata.get('format')!r}")
    content = json.loads(metadata["content"])
    data = Data(**_decode(content["data"], tensors))
    return data.to(device), _decode(content["history"], tensors), content["about"]


def _encode(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Turn a value into JSON, with its tensors put aside under their names."""
    if isinstance(value, Tensor):
        repeated = value.shape[0] if value.dim() > 1 and value.stride(0) == 0 and value.shape[0] > 1 else 0
        tensors[name] = (value[:1] if repeated else value).detach().cpu().contiguous().clone()
        return {"tensor": name, "repeated": repeated}
    if type(value).__name__ in _VALUES:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"value": type(value).__name__, "fields": _encode(fields, name, tensors)}
    if isinstance(value, Mapping):
        keys = [{"key": key, "value": _encode(item, f"{name}.{key}", tensors)} for key, item in value.items()]
        return {"mapping": keys}
    if isinstance(value, tuple | list):
        items = [_encode(item, f"{name}.{i}", tensors) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, bool | int | float | str):
        return {"plain": value}
    raise TypeError(f"{name} is a {type(value).__name__}, which a checkpoint cannot hold")


def _decode(code: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo `_encode`."""
    kind, content = next(iter(code.items()))
    if kind == "tensor":
        tensor = tensors[content]
        return tensor.expand(code["repeated"], *tensor.shape[1:]) if code["repeated"] else tensor
    if kind == "value":
        return _VALUES[content](**_decode(code["fields"], tensors))
    if kind == "mapping":
        return {item["key"]: _decode(item["value"], tensors) for item in content}
    if kind in ("tuple", "list"):
        items = [_decode(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    return content
