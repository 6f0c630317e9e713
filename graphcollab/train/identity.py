"""What a run is: method, data, models and edges it began with, so that only the same run is resumed."""

from __future__ import annotations

import dataclasses
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import __version__ as pyg
from torch_geometric.data import Data

from graphcollab._version import __version__
from graphcollab.control import Attendance, Isolate
from graphcollab.method import Method
from graphcollab.phases import Phases
from graphcollab.tasks import Tasks
from graphcollab.train.fingerprint import codes_in, layers
from graphcollab.train.journal import encode

__all__ = ["OtherRunError", "checksum", "describe_run", "describe_start", "require_same", "with_factor"]

SHOWN = 120  # characters of a value in a message
VERSION = "version of "
FACTOR = "factor of Isolate"  # None until nodes are first judged; their bounds are made then
TENSORS = "tensors of the method"  # told only where it has some


class OtherRunError(ValueError):
    """The checkpoints in a folder are of another run."""


def checksum(*tensors: Tensor) -> str:
    """Return a checksum of the tensors' bytes.

    Example:
        >>> checksum(torch.zeros(2)) == checksum(torch.zeros(2)), checksum(torch.zeros(2)) == checksum(torch.ones(2))
        (True, False)
    """
    value = 0
    for tensor in tensors:
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        value = zlib.crc32(content.numpy().data, value)
    return f"checksum {value:08x}"


def describe_run(
    method: Method | Phases,
    tasks: Tasks,
    data: Data,
    modules: Sequence[nn.Module],
    seed: int,
    autocast: bool,
    compile: bool,
    attend: Attendance | None = None,
    isolate: Isolate | bool = False,
) -> dict[str, Any]:
    """Describe a run by plain values.

    That is versions, method, seed, who attends, the models layer by layer, the code of functions and classes that are
    not this package's, and the nodes' data by checksums.
    """
    about: dict[str, Any] = {
        **_versions(),
        "method": _without_addresses(method),
        "pretrained mixers": [_pretrained(one) for one in _methods(method)],
        "seed": seed,
        "attendance": repr(attend or Attendance()),
        FACTOR: isolate.factor if isinstance(isolate, Isolate) else Isolate().factor if isolate else None,
        "number of nodes": tasks.num_nodes,
        "shapes of the models": [dict(zip(spec.names, map(list, spec.shapes), strict=True)) for spec in data.x.specs],
        "number type of the models": str(data.x.dtype),
        "autocast": autocast,
        "compile": compile,
        "loss": _name(tasks.loss),
        "metric": _name(tasks.metric),
        "node names": list(tasks.names),
        "node ids": checksum(tasks.ids),
    }
    if given := dict(_tensors(method, "")):
        about[TENSORS] = given
    for number, module in enumerate(modules):
        about |= {f"layer {path or 'model'!r} of architecture {number}": text for path, text in layers(module).items()}
    given_code = {"the loss": tasks.loss, "the metric": tasks.metric, "the method": method, "attend": attend}
    for what, value in given_code.items():
        about |= {f"code of {where}": text for where, text in codes_in(value, what)}
    for name, split in tasks.splits.items():
        about[f"samples per node in split {name!r}"] = checksum(split.ptr)
        about[f"samples in split {name!r}"] = checksum(split.index)
    for name, pool in tasks.pools.items():
        about[f"inputs in pool {name!r}"] = checksum(pool.inputs)
        about[f"targets in pool {name!r}"] = checksum(pool.targets)
    return about


def describe_start(data: Data) -> dict[str, Any]:
    """Describe the state before the first round by a checksum per field: initial models, edges, a pretrained mixer."""
    about = {}
    for name in sorted(data.keys()):
        tensors: dict[str, Tensor] = {}
        encode(data[name], name, tensors, copy=False)
        if tensors:
            about[f"{name} at the start"] = checksum(*(tensors[key] for key in sorted(tensors)))
    return about


def with_factor(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run is that is resumed: what it was, and by which factor its nodes are judged from now on."""
    return {**saved, FACTOR: wanted[FACTOR] if saved.get(FACTOR) is None else saved[FACTOR]}


def require_same(saved: Mapping[str, Any], wanted: Mapping[str, Any], folder: str | Path) -> None:
    """Check that a checkpoint is of the run at hand.

    Raises:
        OtherRunError: If it is of another; the message says in what they differ.
    """
    gone = [key for key in saved if key.startswith(("layer ", "code of "))]
    differing = [key for key in dict.fromkeys([*wanted, TENSORS, *gone]) if saved.get(key) != wanted.get(key)]
    if FACTOR in differing and None in (saved.get(FACTOR), wanted.get(FACTOR)):
        differing.remove(FACTOR)  # one may begin to isolate nodes, or cease
    if not differing:
        return
    first = differing[0]
    if first.startswith(VERSION):
        raise OtherRunError(
            f"the checkpoints in {folder} were written with {first.removeprefix(VERSION)} {saved.get(first)}, and "
            f"this is {wanted.get(first)}, which may compute something else: finish the run with the versions it began "
            "with, use another folder, or resume=False to start afresh"
        )
    there, here = _short(saved.get(first)), _short(wanted.get(first))
    more = f", and also in {', '.join(differing[1:6])}" if len(differing) > 1 else ""
    if set(differing) <= {"x at the start", "x_init at the start"}:
        more += (
            ". The initial models differ: a module that is made anew begins with other parameters, so give a function "
            "that makes it, such as lambda: torch.nn.Linear(6, 1)"
        )
    raise OtherRunError(
        f"the checkpoints in {folder} are of another run, which differs in {first} ({there} there, "
        f"{here} here){more}: use another folder, or resume=False to start afresh"
    )


def _versions() -> dict[str, str]:
    """Return the versions of what computes; code can only be compared where Python's version is the same."""
    python = ".".join(map(str, sys.version_info[:2]))
    found = {"graphcollab": __version__, "Python": python, "torch": torch.__version__, "torch_geometric": pyg}
    return {VERSION + name: str(version) for name, version in found.items()}


def _methods(method: Method | Phases) -> Iterator[Method]:
    """Iterate over the methods of all phases; either side may be phases in turn."""
    if isinstance(method, Phases):
        yield from _methods(method.method)
        yield from _methods(method.next)
    else:
        yield method


def _pretrained(method: Method) -> str | None:
    """Return a checksum of the mixer that a method starts from, or None if it has none."""
    given = method.weigh.given
    return checksum(*(given[name] for name in sorted(given))) if given else None


def _tensors(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Iterate over the tensors that a method's parts were given, which its text shows in part or not at all.

    Returns:
        Where each is, and its checksum. Of mixers see `_pretrained`.
    """
    if isinstance(value, Tensor):
        yield name, checksum(value)
    elif isinstance(value, nn.Module):
        yield name, checksum(*value.state_dict().values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name), f"{name}.{field.name}".lstrip("."))


def _name(value: str | Callable[..., Any]) -> str:
    """Name a loss or metric: by its name, or where a function was written."""
    written = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    return ".".join(written) if all(written) else _without_addresses(value)


def _without_addresses(value: object) -> str:
    """Return a value's text without places in memory, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
