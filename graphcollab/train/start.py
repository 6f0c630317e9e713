"""State before the first round: checked models, one per node on a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._base.errors import (
    EmptyError,
    InvalidTypeError,
    InvalidValueError,
    MismatchError,
    MissingError,
)
from graphcollab._base.keyed import keyed_seed
from graphcollab._base.naming import find_nodes
from graphcollab._base.settings import Natural, Seed, SettingError, checked
from graphcollab.analysis.metrics import Metric
from graphcollab.comm import raise_on_all
from graphcollab.comm.launch import meet
from graphcollab.comm.plane import BYTES_PER_FLOAT, Plane
from graphcollab.components.allowed import allow, components
from graphcollab.data.tasks import Tasks
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import own_randomness
from graphcollab.engine.stack import ParamSpec, Stacks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.graph_input import Graph, begin_weights, read_graph
from graphcollab.transforms import Isolated
from graphcollab.transforms._edges import check_edges, sort_edges

MODEL = "a module, a function that makes one, or several (build_model makes one by its name)"

Maker: TypeAlias = Callable[[], nn.Module | Sequence[nn.Module]] | Callable[[Tasks], nn.Module | Sequence[nn.Module]]
Model: TypeAlias = Annotated[nn.Module | Maker | Sequence[nn.Module | Maker], MODEL]
"""A module, or a function that makes one, or one per architecture; a function may make several.

A function with an argument is called with the tasks, for models whose inputs depend on them: ``lambda tasks:
build_model("mlp", tasks.input_shape, 2)``.
"""

Models: TypeAlias = Annotated[
    nn.Module | Maker | Sequence[nn.Module | Maker] | Mapping[str, nn.Module | Maker | Sequence[nn.Module | Maker]],
    f"{MODEL}, or several of these by name, of which validation samples choose one",
]
"""A `Model`, or several by name, such as ``{"linear": ..., "mlp": ...}``, from which validation samples select one."""

Architecture: TypeAlias = Sequence[Natural] | Mapping[str, Natural] | Tensor | np.ndarray | None
"""Architecture of every node, [K] or by name, if there are several."""

_MODEL_STREAM = 108


@dataclass(frozen=True)
class Start:
    """Initial state of a run: tasks on their device, modules, models on the graph, and the metric."""

    tasks: Tasks
    modules: Sequence[nn.Module]
    data: Data
    metric: Metric


@checked
def build_modules(model: Model, seed: Seed, device: torch.device | str = "cpu") -> list[nn.Module]:
    """Return one module per architecture on a device; those made by a function are initialized from the seed.

    The caller's modules are copied except for frozen weights, which are in memory once, and the caller's random
    generators are restored. See `Model`. A module that cannot be stored as a row raises a ValueError, see
    `ParamSpec.from_module`.
    """
    many = list(model) if isinstance(model, Sequence) and not isinstance(model, str | nn.Module) else [model]
    if not many:
        raise EmptyError("model", "no model was given: give a module, a function that makes one, or several")
    modules: list[nn.Module] = []
    for a, one in enumerate(many):
        if needed := _needed(one):
            name = getattr(one, "__name__", "")
            wants = f", as in lambda: {name}({', '.join(needed)})" if name.isidentifier() else ""
            tasks = " or the tasks alone" if len(needed) > 1 else ", and here there are no tasks to give it"
            raise SettingError("model", f"{MODEL}; a function takes no argument{tasks}{wants}", one)
        made: Any = copy_module(one) if isinstance(one, nn.Module) else one
        if not isinstance(made, nn.Module) and callable(made):
            with own_randomness(keyed_seed(_MODEL_STREAM, seed, a) % 2**63):
                made = made()
        for module in made if isinstance(made, list | tuple) else [made]:
            if not isinstance(module, nn.Module):
                raise SettingError("model", MODEL, module)
            ParamSpec.from_module(module)  # rejects, by name, what cannot be stored as a row
            modules.append(module.to(device))
    return modules


def takes_tasks(model: Model) -> bool:
    """Return whether a model is a function of tasks, or contains one."""
    if isinstance(model, list | tuple):
        return any(map(takes_tasks, model))
    return not isinstance(model, type) and len(_needed(model)) == 1


def _needed(model: Any) -> list[str]:
    """Return the names of a function's required arguments; anything else has none."""
    if isinstance(model, nn.Module) or not callable(model):
        return []
    try:
        parameters = inspect.signature(model).parameters.values()
    except ValueError:  # raised for some functions in C
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind in kinds]


def candidates(models: Models) -> dict[str, Model]:
    """Return models by name; the name is empty if there is only one."""
    if not isinstance(models, Mapping):
        return {"": models}
    if not models:
        raise EmptyError("model", "no model was given to choose from: give one by its name, such as {'linear': ...}")
    return dict(models)


def for_tasks(model: Model, tasks: Tasks) -> Model:
    """Return a model that is bound to the tasks, if it needs them (`Model`)."""
    if isinstance(model, list | tuple):
        return [cast(Any, for_tasks(one, tasks)) for one in model]
    return partial(cast(Any, model), tasks) if takes_tasks(model) else model


def tasks_of(tasks: Callable[[int], Tasks], seed: int) -> Tasks:
    """Return the tasks that a function makes from a seed, after checking that they are tasks."""
    try:
        inspect.signature(tasks).bind(seed)
    except TypeError as error:
        raise SettingError("tasks", f"a function from a seed to Tasks, lambda seed: ... ({error})", tasks) from None
    except ValueError:  # some functions in C have no signature
        pass
    with raise_on_all():
        drawn: object = tasks(seed)
    if not isinstance(drawn, Tasks):
        raise InvalidTypeError(
            "tasks", f"tasks must be a function from a seed to Tasks, for seed {seed} it made {drawn!r}"
        )
    return drawn


def require_alike(model: Model, drawn: Mapping[str, Tasks]) -> None:
    """Check, before any work is lost, that one model can be trained on several draws of tasks."""
    shapes = {tasks.input_shape: where for where, tasks in drawn.items()}
    if len(shapes) > 1 and not takes_tasks(model):
        (one, here), (other, there) = list(shapes.items())[:2]
        raise MismatchError(
            "model",
            f"inputs have shape {one} on {here} and {other} on {there}, which one model cannot take (in a table "
            "training rows may lack a rare category, or miss no value). Keep the columns of one split on all, "
            "Tasks.from_frame(..., preparation=first.preparation, refit=True), or give a function that makes a model "
            "for tasks, model=lambda tasks: ...",
        )


@checked
def build_graph(
    tasks: Tasks,
    modules: Sequence[nn.Module],
    graph: Graph = None,
    architecture: Architecture = None,
    method: Method | Phases | None = None,
) -> Data:
    """Put models on a graph: every node of an architecture starts from the same parameters.

    Given edges are a guarantee: they are stored as ``allowed``, and no node ever hears another along other edges. From
    a ``Data``, the edge fields are kept, and weights if the method's weigher keeps them. Without a graph all nodes may
    hear each other, and there is no such field; pairs are then not listed if the method to be run sends nothing along
    edges, or draws its own. See `Graph` and `Architecture`.

    Returns:
        A ``Data`` with ``x`` and ``x_init`` (`Stacks`), ``edge_index``, ``edge_weight``, ``node_id``, the masks
        ``trains``, ``serves``, ``present`` and ``isolated`` [K], and ``train_loss``, ``bytes_sent`` and
        ``messages_sent`` [K]; and if a graph was given ``allowed``, a `Relation`, and ``component`` [K], the number of
        every node's strongly connected component.
    """
    count = tasks.num_nodes
    unlisted = method is not None and (method.finds_peers or not method.along_edges)
    data = read_graph(Isolated() if graph is None and unlisted else graph, tasks)
    if data.num_nodes != count:
        raise MismatchError("graph", f"the graph has {data.num_nodes} nodes, the tasks have {count}")
    data.node_id = tasks.ids
    check_edges(data, distinct=True)
    data.edge_index = data.edge_index.long()  # numbering pairs needs 64 bits
    data = sort_edges(data)
    if graph is not None:
        data.allowed = allow(data.edge_index, count)
        data.component = components(data)  # of a run's edges, to which none are ever added
    data.x = data.x_init = _stack(modules, architecture, tasks)
    data.edge_weight = begin_weights(data, method, data.x.dtype)
    data.round = 0
    for name in ("trains", "serves", "present"):
        data[name] = torch.ones(count, dtype=torch.bool)
    data.isolated = torch.zeros(count, dtype=torch.bool)
    data.train_loss = torch.full((count,), float("nan"), dtype=data.x.dtype)
    data.bad_step = torch.full((count,), -1)
    told = tasks.preparation  # of tables; sites have shared the values to which it was fitted
    data.bytes_sent = torch.full((count,), float(told.floats_per_site * BYTES_PER_FLOAT if told else 0)).double()
    data.messages_sent = torch.full((count,), int(told is not None and told.floats_per_site > 0))
    return data


def _stack(modules: Sequence[nn.Module], architecture: Architecture, tasks: Tasks) -> Stacks:
    count, device = tasks.num_nodes, tasks.device
    if architecture is None and len(modules) > 1:
        raise MissingError(
            "architecture", f"{len(modules)} architectures were given: say which node has which by `architecture` [K]"
        )
    if isinstance(architecture, Mapping):
        find_nodes(architecture, tasks.names)  # reports unknown names
        architecture = [architecture[name] for name in tasks.names]
    kind = torch.zeros(count, dtype=torch.int64) if architecture is None else torch.as_tensor(architecture)
    if kind.shape != (count,) or kind.is_floating_point() or int(kind.min()) < 0 or int(kind.max()) >= len(modules):
        raise InvalidValueError(
            "architecture",
            f"expected [{count}] from 0 to {len(modules) - 1}, got {list(kind.shape)}: {kind.unique().tolist()}",
        )
    specs, tensors, members = [], [], []
    for a, module in enumerate(modules):
        where = (kind == a).nonzero().flatten()
        if not len(where):
            raise EmptyError(
                f"architecture {a}", f"no node has architecture {a} ({type(module).__name__}): leave it out"
            )
        spec = ParamSpec.from_module(module)
        if len(modules) > 1 and (over := getattr(module, "parts_over", None)) is not None:
            spec = replace(spec, over=over())
        specs.append(spec)
        tensors.append(spec.flatten(module).to(device).expand(len(where), -1))
        members.append(where)
    return Stacks(tuple(specs), tuple(tensors), tuple(members))


def plane_of(tasks: Tasks) -> Plane:
    """Return the plane of processes that each have the samples of some nodes; if all samples are local, one process."""
    if not bool(tasks.elsewhere.any()):
        return Plane(tasks.num_nodes)
    work = tasks.sizes("train").double()
    return Plane(tasks.num_nodes, meet(tasks.names, lambda: work, None, tasks.elsewhere))


def all_gather(values: Tensor, tasks: Tasks) -> Tensor:
    """Return values [K, ...] of the nodes of all processes, each of which knows those of its own nodes."""
    plane = plane_of(tasks)
    return plane.all_gather(plane.local_values(values))[0]
