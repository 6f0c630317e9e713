"""Checkpoints: the ``Data`` and the history of a run in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.files import write_whole
from graphcollab.train.encoding import decode, encode
from graphcollab.train.history import History

__all__ = ["latest_checkpoint", "load_checkpoint", "remove_checkpoints", "save_checkpoint"]

FORMAT = "graphcollab-run-1"
KEEP = 2


def save_checkpoint(folder: str | Path, data: Data, history: History, about: Mapping[str, Any]) -> Path:
    """Write ``round-<number>.safetensors`` and remove all but it and the one before.

    Args:
        folder: Where checkpoints of one run live.
        data: The state after a round.
        history: What happened so far.
        about: What the run is, as plain values; a resumed run must be the same.
    """
    tensors: dict[str, Tensor] = {}
    fields = {name: data[name] for name in sorted(data.keys())}
    content = {
        "data": encode(fields, "data", tensors),
        "history": encode(history, "history", tensors),
        "about": dict(about),
    }
    path = Path(folder) / f"round-{data.round:06d}.safetensors"
    write_whole(path, save(tensors, {"format": FORMAT, "content": json.dumps(content)}))
    past = [old for old in _checkpoints(folder) if _round(old) <= data.round]
    remove_checkpoints(folder, keep=past[-KEEP:])
    return path


def remove_checkpoints(folder: str | Path, keep: list[Path] | None = None) -> None:
    """Remove the checkpoints in a folder, but for some."""
    for path in _checkpoints(folder):
        if path not in (keep or []):
            path.unlink()


def latest_checkpoint(folder: str | Path) -> Path | None:
    """Return the newest complete checkpoint of a run, or None where there is no checkpoint.

    Files are renamed into place only when they are whole, so a damaged one is the work of a disk or of somebody; it is
    passed over with a warning.

    Raises:
        ValueError: If there are checkpoints, and all are damaged.
    """
    paths, problem = _checkpoints(folder), None
    for path in reversed(paths):
        try:
            _read(path)
        except ValueError as error:
            warnings.warn(f"{error}; trying the checkpoint before it", RuntimeWarning, stacklevel=2)
            problem = error
        else:
            return path
    if problem is not None:
        raise ValueError(
            f"none of the {len(paths)} checkpoints in {folder} is complete ({problem}): remove them, or start afresh "
            "with resume=False"
        )
    return None


def load_checkpoint(path: str | Path, device: torch.device | str = "cpu") -> tuple[Data, History, dict[str, Any]]:
    """Read a checkpoint; nothing in the file is executed.

    Returns:
        The state, the history and what the run was.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is not a checkpoint, or a damaged one.
    """
    content, tensors = _read(Path(path), values=True)
    try:
        data = Data(**decode(content["data"], tensors))
        history, about = decode(content["history"], tensors), content["about"]
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise ValueError(f"{path} is damaged or of another version: {type(error).__name__} {error}") from error
    return data.to(device), history, about


def _read(path: Path, values: bool = False) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a checkpoint's content, with its tensors if asked for; their presence is checked either way."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            # a clone has the memory layout of any other tensor, so sums come out the same to the last bit
            names = list(file.keys()) if values else []
            tensors = {name: file.get_tensor(name).clone() for name in names}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a complete safetensors file ({error})") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint ({FORMAT}); its format is {metadata.get('format')!r}")
    try:
        content = json.loads(metadata["content"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged: its description cannot be read ({error})") from error
    return content, tensors


def _checkpoints(folder: str | Path) -> list[Path]:
    """List the checkpoints in a folder, oldest first; files still being written have another name."""
    found = Path(folder).glob("round-*.safetensors")
    return sorted((path for path in found if re.fullmatch(r"round-\d+", path.stem)), key=_round)


def _round(path: Path) -> int:
    return int(path.stem.removeprefix("round-"))
