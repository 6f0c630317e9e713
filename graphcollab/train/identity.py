"""What a run is: method, data, models and edges it began with, so that only the same run is resumed."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._version import __version__
from graphcollab.control.shares import ROWS, split_rows, tell_all
from graphcollab.env import Attendance, Isolate
from graphcollab.errors import MismatchError, StateError
from graphcollab.method import Method
from graphcollab.naming import few
from graphcollab.ops.kernels import PRODUCTS
from graphcollab.param_spec import shared_tensors
from graphcollab.phases import Phases
from graphcollab.piece import Field
from graphcollab.plane import Plane
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.train.apart import shown_apart
from graphcollab.train.checksum import checksum, digests, weights_checksum
from graphcollab.train.fingerprint import MODELS, PLAIN, Reader, fingerprint
from graphcollab.train.journal import encode

__all__ = [
    "OtherRunError",
    "describe_run",
    "describe_start",
    "differences",
    "found_in",
    "identify_models",
    "identify_tasks",
    "isolated_at_start",
    "layers",
    "require_alike",
    "require_one_state",
    "require_same",
    "require_same_run",
]

OWN = ("inputs in", "targets in", "weights in")  # what sites do not tell each other, not even as a checksum
VERSION = "version of "
INITIAL = "initial models"
BASE = "frozen weights"  # of the base model that all nodes of an architecture share, by their checksum
FACTOR = "factor of Isolate"  # None until nodes are first judged; their bounds are made then
AT_START = "factor of Isolate at the start"


class OtherRunError(ValueError):
    """The checkpoints in a folder are of another run."""


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
    plane: Plane | None = None,
) -> dict[str, Any]:
    """Describe a run by plain values: the models layer by layer, code that is not this package's, data by checksums."""
    about: dict[str, Any] = {
        **_versions(modules),
        "method": _without_addresses(method),
        "pretrained mixers": [_checksums(piece.given) for piece in method.walk() if piece.given],
        "seed": seed,
        "attendance": repr(attend or Attendance()),
        FACTOR: _factor(isolate),
        "number of nodes": tasks.num_nodes,
        "shapes of the models": [dict(zip(spec.names, map(list, spec.shapes), strict=True)) for spec in data.x.specs],
        "number type of the models": str(data.x.dtype),
        "autocast": autocast,
        "compile": compile,
        "loss": _without_addresses(tasks.loss),
        "metric": _without_addresses(tasks.metric),
        "node names": list(tasks.names),
        "node ids": checksum(tasks.ids),
    }
    if tasks.cluster is not None:
        about["true clusters"] = checksum(tasks.cluster)
    if plane is not None and not plane.alone and tasks.classes is not None:
        about["classes of every node"] = checksum(tasks.classes)
    for number, module in enumerate(modules):
        if shared := shared_tensors(module):
            about[f"{BASE} of architecture {number}"] = weights_checksum(shared)
    for number, rows in enumerate(data.x.tensors):
        about[f"{INITIAL} of architecture {number}"] = checksum(rows[:1])
    for number, module in enumerate(modules):
        for path, text in layers(module).items():
            what = f"layer {path!r}" if path else "the module itself"
            about[f"{what} of architecture {number}"] = text
    for what, value in {"loss": tasks.loss, "metric": tasks.metric, "method": method, "attendance": attend}.items():
        about |= found_in(value, f"the {what}")
    return about | _describe_samples(tasks, plane or Plane(tasks.num_nodes))


def identify_tasks(tasks: Tasks, plane: Plane | None = None) -> str:
    """Return a fingerprint of nodes and samples, the same for the same ones only."""
    return fingerprint([*tasks.names, checksum(tasks.ids), *_describe_samples(tasks, plane or Plane()).items()])


def identify_models(modules: Sequence[nn.Module], stacks: Stacks) -> str:
    """Return a fingerprint of the architectures and of who has which, whatever the values of trainable parameters are.

    Frozen weights belong to an architecture: by their checksum.
    """
    shapes = [[spec.names, [list(shape) for shape in spec.shapes]] for spec in stacks.specs]
    bases = [weights_checksum(shared) for module in modules if (shared := shared_tensors(module))]
    members = [some.tolist() for some in stacks.members]
    return fingerprint([[layers(module) for module in modules], shapes, members, *bases])


def _describe_samples(tasks: Tasks, plane: Plane) -> dict[str, str]:
    """Describe what samples every node has, wherever it is: what it has itself, every process knows of its nodes."""
    about = {}
    for name, split in tasks.splits.items():
        about[f"samples per node in split {name!r}"] = checksum(split.ptr)
        pool = tasks.pools[split.pool]
        for kind, values in {"inputs": pool.inputs, "targets": pool.targets, "weights": pool.weight}.items():
            if values is not None:
                told = f"{list(values.shape[1:])} {values.dtype}"
                found = digests(split, values)
                about[f"{kind} in split {name!r}"] = (
                    f"{told} {checksum(found if plane.private else plane.publish(found))}"
                )
    return about


def require_same_run(about: Mapping[str, Any], data: Data, plane: Plane) -> None:
    """Check that all processes play the same run, from the same initial models, with the same instructions of the CPU.

    Else a ValueError says in what they differ: sums in another order are other sums, and so may be what they decide.
    """
    if plane.alone:
        return
    kinds = data.x.kinds
    same = {**about, "architecture=": kinds.tolist() if plane.private else checksum(kinds)}
    same["edges"] = checksum(data.edge_index)
    if plane.private:  # what decides is told by one of them, so they may have other processors
        require_alike({name: value for name, value in same.items() if not name.startswith(OWN)}, plane)
    else:
        machine = {
            "instructions of the CPU": torch.backends.cpu.get_cpu_capability(),
            "kernels for mixing": ", ".join(PRODUCTS),  # some were built without a compiler, perhaps
        }
        require_alike(machine | same, plane)


def require_alike(here: Mapping[str, Any], plane: Plane) -> None:
    """Check that all processes have the same values by the same names; else a ValueError names the first of others."""
    name = _differing(here, plane)
    if name is None:
        return
    what: dict[str, list[str]] = {}
    told, called = zip(*plane.everyone([str(here.get(name)), plane.called]), strict=True)
    for value, one in zip(shown_apart(told), called, strict=True):
        what.setdefault(value, []).append(one)
    cure = ": all must play the same run"
    if name.startswith(INITIAL):
        cure = ": give a function that makes it, such as lambda: torch.nn.Linear(6, 1)"
    if name.startswith(BASE):
        cure = ": all must have the same base model, so load it from the same file"
    if plane.private:
        raise MismatchError(
            name,
            f"sites differ in {name}, {' and '.join(f'{v} at {few(w)}' for v, w in what.items())}{cure}",
            public=True,
        )
    raise MismatchError(name, f"processes differ in {name} ({', '.join(what)}){cure}", public=True)


def require_one_state(data: Data, fields: Iterable[Field], plane: Plane) -> None:
    """Check that all processes know the same of what everybody may know: else they would decide differently."""
    if plane.alone:
        return
    public = [field for field in fields if field.known_to == "public" and field.kind not in ROWS]
    if plane.private:  # other processors may round otherwise; what decides has been told by one
        public = [field for field in public if field.kind != "replicated"]
    names = [name for name in data.to_dict() if any(field.covers(name) for field in public)]
    if name := _differing({name: _content(data[name], name) for name in sorted(names)}, plane):
        who, cure = "processes", "the same machines, with the same build of PyTorch"
        if plane.private:
            who, cure = "sites", "the same build of PyTorch at all"
        raise StateError(
            name,
            f"{who} differ in {name!r} after round {data.round}, which all should have computed alike: use {cure}",
            public=True,
        )


def _content(value: Any, name: str) -> list[Any]:
    """Return what a field of the state holds, as plain values and checksums, without the code of its class."""
    tensors: dict[str, Tensor] = {}
    return [encode(value, name, tensors, copy=False), _checksums(tensors)]


def _differing(here: Mapping[str, Any], plane: Plane) -> str | None:
    """Return the name of the first value in which a process differs from the first one; None if there is none."""
    told = plane.everyone({name: fingerprint(value) for name, value in here.items()})
    names = dict.fromkeys(name for one in told for name in one)
    return next((name for name in names if len({one.get(name) for one in told}) > 1), None)


def isolated_at_start(saved: Mapping[str, Any]) -> Isolate | bool:
    """Return whether nodes that diverged were isolated when the run of a checkpoint began, and by which factor."""
    factor = saved.get(AT_START)
    return factor is not None and Isolate(factor)


def describe_start(data: Data, plane: Plane, fields: Sequence[Field], isolate: Isolate | bool) -> dict[str, Any]:
    """Describe the state before the first round by a checksum per field: edges, weights, a pretrained mixer.

    Rows of nodes are not described, as they may be in other processes: they follow from the initial models.
    """
    about: dict[str, Any] = {AT_START: _factor(isolate)}
    data = Data(**split_rows(tell_all(data, fields, plane).to_dict(), fields)[0])
    for name in sorted(data.keys()):
        tensors: dict[str, Tensor] = {}
        encode(data[name], name, tensors, copy=False)
        if tensors:
            about[f"{name} at the start"] = _checksums(tensors)
    return about


def require_same(saved: Mapping[str, Any], wanted: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """Check that a checkpoint is of the run at hand; return what that is from now on: what it was, but for the factor.

    Else an `OtherRunError` says in what they differ.
    """
    differing = differences(saved, wanted)
    if FACTOR in differing and None in (saved.get(FACTOR), wanted.get(FACTOR)):
        differing.remove(FACTOR)  # one may begin to isolate nodes, or cease
    if not differing:
        return {**saved, FACTOR: wanted[FACTOR] if saved.get(FACTOR) is None else saved[FACTOR]}
    first = differing[0]
    if first.startswith(VERSION):
        raise OtherRunError(
            f"the checkpoints in {folder} were written with {first.removeprefix(VERSION)} {saved.get(first)}, and "
            f"this is {wanted.get(first)}, which may compute something else: finish the run with the versions it began "
            "with, use another folder, or resume=False to start afresh"
        )
    there, here = shown_apart([str(saved.get(first)), str(wanted.get(first))])
    more = f", and also in {', '.join(differing[1:6])}" if len(differing) > 1 else ""
    if first.startswith(BASE):
        more += ". The weights of the base model, which are not trained, are others: load those that it began with"
    elif all(key.startswith(INITIAL) for key in differing):
        more += (
            ". The initial models differ: a module that is made anew begins with other parameters, so give a function "
            "that makes it, such as lambda: torch.nn.Linear(6, 1)"
        )
    raise OtherRunError(
        f"the checkpoints in {folder} are of another run, which differs in {first} ({there} there, "
        f"{here} here){more}: use another folder, or resume=False to start afresh"
    )


def differences(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in what two runs differ, as `describe_run` calls it; of what has other settings, no code inside it.

    Such code has what it was made with, so it differs where a setting does.
    """
    gone = [key for key in saved if key.startswith(("layer ", "code of ", "tensor "))]
    found = [key for key in dict.fromkeys([*wanted, *gone]) if saved.get(key) != wanted.get(key)]
    inside = tuple(f"code of the {key}" for key in found)
    return [key for key in found if not key.startswith(inside)]


def layers(model: nn.Module) -> dict[str, str]:
    """Describe every module in a model by its path, without its children; the path of the model itself is ``""``.

    That is class, attributes, hooks, what is frozen, and code of the user's own. Where a module holds another one of
    the model besides its children, as in a bound method, that is named: parameters' values are no part of this.

    Example:
        >>> layers(nn.Dropout(0.3))
        {'': 'Dropout(inplace=False, p=0.3)'}
    """
    classes: dict[type, str] = {}
    found = {}
    named = {id(module): path for path, module in model.named_modules()}
    for path, module in model.named_modules():
        reader = Reader(classes, named=named)
        found[path] = reader.finish(reader.module(module))
    return found


def found_in(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Iterate over the tensors that a value holds, and all that is not plain, a container or a piece of this package.

    What each is and where, from the value's name on, comes with its checksum or fingerprint.
    """
    if isinstance(value, Tensor):
        yield f"tensor {name}", checksum(value)
    elif type(value) is dict:
        for key, item in value.items():
            yield from found_in(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple) and type(value) in (list, tuple):
        for number, item in enumerate(value):
            yield from found_in(item, f"{name}[{number}]")
    elif dataclasses.is_dataclass(value) and type(value).__module__.partition(".")[0] == "graphcollab":
        for field in dataclasses.fields(value):
            yield from found_in(getattr(value, field.name), f"{name}.{field.name}")
    elif not isinstance(value, PLAIN):
        yield f"code of {name}", fingerprint(value)


def _factor(isolate: Isolate | bool) -> float | None:
    return isolate.factor if isinstance(isolate, Isolate) else Isolate().factor if isolate else None


def _versions(modules: Sequence[nn.Module]) -> dict[str, str]:
    """Return the versions of what computes; code can only be compared where Python's version is the same."""
    python = ".".join(map(str, sys.version_info[:2]))
    found = {"graphcollab": __version__, "Python": python}
    found |= {library.__name__: str(library.__version__) for library in (torch, torch_geometric)}
    roots = {type(layer).__module__.partition(".")[0] for module in modules for layer in module.modules()}
    found |= {name: str(sys.modules[name].__version__) for name in sorted(roots & MODELS)}
    return {VERSION + name: version for name, version in found.items()}


def _checksums(tensors: Mapping[str, Tensor]) -> list[str]:
    return [checksum(tensors[name]) for name in sorted(tensors)]


def _without_addresses(value: object) -> str:
    """Return a value's text without places in memory, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
