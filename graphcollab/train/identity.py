"""Identity of a run: method, data, models and graph, compared with those of other processes and of checkpoints."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch_geometric
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._base.errors import MismatchError, OtherRunError, StateError
from graphcollab._base.naming import few
from graphcollab._base.piece import Field
from graphcollab._base.version import __version__
from graphcollab.comm.plane import Plane
from graphcollab.components import Isolate, Participation
from graphcollab.components.state import ROWS
from graphcollab.data.tasks import Tasks
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.stack import Stacks
from graphcollab.nn.functional.kernels import PRODUCTS
from graphcollab.persistence.folder import encode
from graphcollab.train.fingerprint import MODELS, checksum, describe, digests, fingerprint, weights_checksum
from graphcollab.train.settings import RunSettings
from graphcollab.train.start import Start, plane_of

INITIAL = "initial models"
OWN = ("inputs in", "targets in", "weights in", "edge_", INITIAL)  # entries whose checksums sites do not compare
VERSION = "version of "
SHAPES = "shapes of the models"
SKETCHED = 8  # number of sums by which sites compare their initial models
COARSE = 1e-2  # rounding step of these sums, in units of the model's norm, which is their standard deviation
BASE = "frozen weights"  # of the base model that all nodes of an architecture share, by their checksum
FACTOR = "factor of Isolate"  # None until nodes are first examined; their bounds are computed then
MAKE_IT = ": give a function that makes it, such as lambda: torch.nn.Linear(6, 1)"
SHOWN = 100  # maximum number of characters of a value in a message


def describe_run(settings: RunSettings, start: Start, plane: Plane) -> dict[str, Any]:
    """Describe a run: settings by `describe`, everything else by plain values and checksums."""
    method, isolate, participation = settings.method, settings.isolate, settings.participation
    tasks, modules, data = start.tasks, start.modules, start.data
    about: dict[str, Any] = {
        **_versions(modules),
        "method": describe(method, "method"),
        "pretrained mixers": [_checksums(piece.given) for piece in method.walk() if piece.given],
        "seed": settings.seed,
        "participation": describe(participation or Participation(), "participation"),
        FACTOR: isolate.factor if isinstance(isolate, Isolate) else Isolate().factor if isolate else None,
        "number of nodes": tasks.num_nodes,
        SHAPES: describe([dict(zip(spec.names, spec.shapes, strict=True)) for spec in data.x.specs], SHAPES),
        "number type of the models": str(data.x.dtype),
        "autocast": settings.compute.autocast,
        "loss": describe(tasks.loss, "loss"),
        "metric": describe(tasks.metric, "metric"),
        "models": describe([*modules], "models", tensors=False),
        "node names": list(tasks.names),
        "node ids": checksum(tasks.ids),
        "true clusters": None if tasks.cluster is None else checksum(tasks.cluster),
        "architecture": data.x.kinds.tolist(),
        "edges": checksum(data.edge_index),
        "edges are given": "allowed" in data,
    }
    if tasks.scale != 1:
        about["scale of the loss"] = tasks.scale
    if tasks.class_weight:
        about["weights of classes"] = [*tasks.class_weight]
    edge_fields = {name: value for name, value in data.to_dict().items() if "edge" in name and name != "edge_index"}
    about |= {name: checksum(value) for name, value in edge_fields.items() if isinstance(value, Tensor)}
    if not plane.alone and tasks.classes is not None:
        about["classes of every node"] = checksum(tasks.classes)
    for number, module in enumerate(modules):
        if shared := shared_tensors(module):
            about[f"{BASE} of architecture {number}"] = weights_checksum(shared)
    for number, rows in enumerate(data.x.tensors):
        about[f"{INITIAL} of architecture {number}"] = checksum(rows[:1])
    return about | _describe_samples(tasks, plane)


def identify_tasks(tasks: Tasks) -> str:
    """Return a fingerprint of nodes and samples, equal only for equal ones."""
    return fingerprint([*tasks.names, checksum(tasks.ids), *_describe_samples(tasks, plane_of(tasks)).items()])


def identify_models(modules: Sequence[nn.Module], stacks: Stacks) -> str:
    """Return a fingerprint of architectures, frozen weights and who has which, but not of trainable values."""
    shapes = [[spec.names, [list(shape) for shape in spec.shapes]] for spec in stacks.specs]
    bases = [weights_checksum(shared) for module in modules if (shared := shared_tensors(module))]
    members = [some.tolist() for some in stacks.members]
    return fingerprint([describe([*modules], "models", tensors=False), shapes, members, *bases])


def _describe_samples(tasks: Tasks, plane: Plane) -> dict[str, str]:
    about = {}
    for name, split in tasks.splits.items():
        about[f"samples per node in split {name!r}"] = checksum(split.ptr)
        pool = tasks.pools[split.pool]
        for kind, values in {"inputs": pool.inputs, "targets": pool.targets, "weights": pool.weight}.items():
            if values is not None:
                told = f"{list(values.shape[1:])} {values.dtype}"
                found = digests(split, values)
                found = found if plane.cross_silo else plane.all_gather(plane.local_values(found))[0]
                about[f"{kind} in split {name!r}"] = f"{told} {checksum(found)}"
    return about


def require_same_run(about: Mapping[str, Any], plane: Plane) -> None:
    """Check that all processes play the same run from the same models, on CPUs that round alike (MismatchError)."""
    if plane.cross_silo:  # one site decides, so sites may have different processors
        require_alike({name: value for name, value in about.items() if not name.startswith(OWN)}, plane)
    elif not plane.alone:
        machine = {
            "instructions of the CPU": torch.backends.cpu.get_cpu_capability(),
            "kernels for mixing": ", ".join(PRODUCTS),  # some may have been built without a compiler
        }
        require_alike({**machine, **about}, plane)


def require_same_start(start: Stacks, plane: Plane) -> None:
    """Check that all sites start from the same models, up to the rounding of their processors (MismatchError)."""
    if not plane.cross_silo:
        return
    own = [_coarsely(rows[:1]) for rows in start.tensors]
    told, sites = zip(*plane.all_gather_object([own, plane.party]), strict=True)
    for number, marks in enumerate(zip(*told, strict=True)):
        if not set.intersection(*map(set, marks)):
            what = f"{INITIAL} of architecture {number}"
            unlike = [site for site, some in zip(sites, marks, strict=True) if not {*some} & {*marks[0]}]
            others = f" and others at {few(unlike)}" if unlike else ""
            raise MismatchError(what, f"sites differ in {what}, some at {sites[0]}{others}{MAKE_IT}")


def _coarsely(model: Tensor) -> list[str]:
    """Return two checksums of a coarsely rounded model [1, P]; a model close to it shares at least one of them.

    The rounded values are sums with random signs, since among very many parameters some are always close to a rounding
    boundary. The second checksum is over sums shifted by half a step.
    """
    values, draw = model.detach().cpu().double().flatten().nan_to_num(), torch.Generator().manual_seed(0)
    signs = (torch.randint(2, values.shape, dtype=torch.int8, generator=draw) for _ in range(SKETCHED))
    length = float(values.norm())
    sums = torch.tensor([length, *(float((values * (2 * one - 1)).sum()) for one in signs)], dtype=torch.float64)
    step = 2.0 ** math.floor(math.log2(COARSE * length)) if length else 1.0
    return [fingerprint([shift, step, len(values), *(sums / step + shift).floor().tolist()]) for shift in (0.0, 0.5)]


def require_alike(here: Mapping[str, Any], plane: Plane) -> None:
    """Check that all processes have the same values under the same names; a ValueError names the first difference."""
    name = _differing(here, plane)
    if name is None:
        return
    told, called = zip(*plane.all_gather_object([json.dumps(here.get(name)), plane.party]), strict=True)
    values = [*map(json.loads, told)]
    other = next((one for one in values if one != values[0]), None)
    path = next(iter(differences({name: values[0]}, {name: other})), name)
    what: dict[str, list[str]] = {}
    for value, one in zip(values, called, strict=True):
        what.setdefault(_shown(value.get(path) if isinstance(value, dict) else value), []).append(one)
    cure = ": all must play the same run"
    if name.startswith(INITIAL):
        cure = MAKE_IT
    if name.startswith(BASE):
        cure = ": all must have the same base model, so load it from the same file"
    if plane.cross_silo:
        shown = " and ".join(f"{v} at {few(w)}" for v, w in what.items())
        raise MismatchError(path, f"sites differ in {path}, {shown}{cure}")
    raise MismatchError(path, f"processes differ in {path} ({', '.join(what)}){cure}")


def require_one_state(data: Data, fields: Iterable[Field], plane: Plane) -> None:
    """Check that all processes agree on the public state: otherwise their decisions would differ."""
    if plane.alone:
        return
    public = [field for field in fields if field.known_to == "public" and field.kind not in ROWS]
    if plane.cross_silo:  # other processors may round differently; values that decide have been sent by one site
        public = [field for field in public if field.kind != "replicated"]
    names = [name for name in data.to_dict() if any(field.covers(name) for field in public)]
    if name := _differing({name: _content(data[name], name) for name in sorted(names)}, plane):
        who, cure = "processes", "the same machines, with the same build of PyTorch"
        if plane.cross_silo:
            who, cure = "sites", "the same build of PyTorch at all"
        raise StateError(
            name, f"{who} differ in {name!r} after round {data.round}, which all should have computed alike: use {cure}"
        )


def _content(value: Any, name: str) -> list[Any]:
    """Return a field of the state as plain values and checksums, without the code of its class."""
    tensors: dict[str, Tensor] = {}
    return [encode(value, name, tensors, copy=False), _checksums(tensors)]


def _differing(here: Mapping[str, Any], plane: Plane) -> str | None:
    told = plane.all_gather_object({name: fingerprint(value) for name, value in here.items()})
    names = dict.fromkeys(name for one in told for name in one)
    return next((name for name in names if len({one.get(name) for one in told}) > 1), None)


def require_same(saved: Mapping[str, Any], wanted: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return a checkpoint's identity, in which isolation may begin; raise OtherRunError if it is of another run."""
    differing = differences(saved, wanted)
    if FACTOR in differing and None in (saved.get(FACTOR), wanted.get(FACTOR)):
        del differing[FACTOR]  # a run may begin to isolate nodes, or stop doing so
    if not differing:
        return {**saved, FACTOR: wanted[FACTOR] if saved.get(FACTOR) is None else saved[FACTOR]}
    (first, (there, here)), *others = differing.items()
    what = f"the checkpoints in {folder} are of another run, which differs in {first} ({_shown(there)} there, "
    what += f"{_shown(here)} here)"
    if others:
        what += f", and also in {', '.join(key for key, _ in others[:5])}"
    cure = "use another folder, or resume=False to start afresh"
    if first.startswith(VERSION):
        cure = f"finish the run with the versions it began with, {cure}"
    elif first.startswith(BASE):
        cure = f"load the base model that the run began with, {cure}"
    elif all(key.startswith(INITIAL) for key in differing):
        cure = f"give a function that makes the model, such as lambda: torch.nn.Linear(6, 1), {cure}"
    raise OtherRunError(first, f"{what}: {cure}")


def differences(saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the differences between a run and the wanted one, both values by name; only types if these differ."""
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in wanted.items():
        before = saved.get(key)
        if not (isinstance(value, dict) and isinstance(before, dict)):
            before, value = {key: before}, {key: value}
        for path in {**value, **before}:
            inside = any(path.startswith((f"{one}.", f"{one}[")) for one in found)
            if not inside and before.get(path) != value.get(path):
                found[path] = before.get(path), value.get(path)
    return found


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _versions(modules: Sequence[nn.Module]) -> dict[str, str]:
    """Return the versions of the software that computes; code can only be compared under the same Python version."""
    python = ".".join(map(str, sys.version_info[:2]))
    found = {"graphcollab": __version__, "Python": python}
    found |= {library.__name__: str(library.__version__) for library in (torch, torch_geometric)}
    roots = {type(layer).__module__.partition(".")[0] for module in modules for layer in module.modules()}
    found |= {name: str(sys.modules[name].__version__) for name in sorted(roots & MODELS)}
    return {VERSION + name: version for name, version in found.items()}


def _checksums(tensors: Mapping[str, Tensor]) -> list[str]:
    return [checksum(tensors[name]) for name in sorted(tensors)]
