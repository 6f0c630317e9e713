"""Content of `Result.save` and `Joined.save`: the evaluated models, and everything needed to predict."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab._base.version import __version__
from graphcollab.data.tasks import Tasks
from graphcollab.engine.modules import copy_module
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.models.catalog import SETTINGS
from graphcollab.persistence.answers import Answers
from graphcollab.persistence.folder import write_folder
from graphcollab.persistence.history import History
from graphcollab.persistence.learned_graph import LearnedGraph
from graphcollab.persistence.saved_models import KIND, VERSION, rebuilt, tensors_of

TRIED = 8  # samples on which a rebuilt module is compared


def save_models(
    folder: str | Path,
    stacks: Stacks,
    modules: Sequence[nn.Module],
    tasks: Tasks,
    graph: LearnedGraph,
    about: Mapping[str, Any],
    shared: Tensor | None = None,
    read: Mapping[str, Any] | None = None,
) -> Path:
    """Write nodes' models and everything needed to predict; see `Result.save`. The graph may have further nodes.

    ``shared`` [P] is a model for sites that have none, and ``read`` holds more settings of how outputs are read
    (`Answers`).
    """
    split = tasks.splits["train"]
    pool = tasks.pools[split.pool]
    preparation = tasks.preparation
    classes = () if preparation is None else preparation.classes
    tensors: dict[str, Tensor] = {}
    architectures, answers = [], None
    owners = [members.tolist() for members in stacks.members]
    for a, (spec, rows, members) in enumerate(zip(stacks.specs, stacks.tensors, stacks.members, strict=True)):
        module = modules[a]
        if shared is not None:  # appended to the rows of the only architecture
            rows, owners[a] = torch.cat([rows, shared[None]]), [*owners[a], tasks.num_nodes]
        state = tensors_of(module)
        for name, values in zip(spec.names, spec.views(rows), strict=True):
            tensors[f"{a}/models/{name}"] = values.detach().cpu().clone(memory_format=torch.contiguous_format)
        common = {name: tensor for name, tensor in state.items() if name not in spec.names}  # includes frozen weights
        tensors |= {f"{a}/common/{name}": tensor.detach().cpu().clone() for name, tensor in common.items()}
        own = spec.load_into(copy_module(module), rows[0]).eval()
        inputs = pool.inputs[split.of(int(members[int(split.elsewhere[members].long().argmin())]))[:TRIED]]
        with torch.no_grad():
            outputs = own(inputs.clone())
        answers = answers or Answers.of(tasks.loss, pool.targets, outputs, classes, tasks.scale)
        types = {name: str(state[name].dtype).removeprefix("torch.") for name in state}
        settings = getattr(module, SETTINGS, None)
        if settings is not None and not _comes_back(own, settings, inputs, outputs):
            settings = None
        name = f"{type(module).__module__}.{type(module).__qualname__}"
        architectures.append({"class": name, "model": settings, "types": types})
    tensors |= {"graph/edge_index": graph.edge_index, "graph/edge_weight": graph.edge_weight}
    tensors |= {"graph/node_id": graph.node_id}
    assert answers is not None  # there is at least one node
    content = {
        "names": list(tasks.names),
        "members": owners,
        "architectures": architectures,
        "answers": {**asdict(answers), **(read or {}), "classes": list(answers.classes)},
        "inputs": {"shape": list(pool.inputs.shape[1:]), "type": str(pool.inputs.dtype).removeprefix("torch.")},
        "preparation": None if preparation is None else preparation.to_json(),
        "about": dict(about),
    }
    if graph.name != content["names"]:
        content["graph"] = graph.name
    return write_folder(folder, KIND, VERSION, content, tensors)


def _comes_back(module: nn.Module, settings: Mapping[str, Any], inputs: Tensor, outputs: Tensor) -> bool:
    """Return whether a module rebuilt from its settings has the same outputs; it may have been changed since."""
    try:
        again = rebuilt(settings, {name: tensor.detach().cpu() for name, tensor in tensors_of(module).items()})
        with torch.no_grad():
            expected = outputs if outputs.device.type == "cpu" else copy_module(module).cpu()(inputs.cpu())
            return torch.equal(again(inputs.cpu()), expected)
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False


def briefly(value: Any) -> str:
    """Write a method, or a piece of one, with those settings that differ from the defaults of its class."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    told = []
    for one in fields(value):
        mine = getattr(value, one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if one.repr and repr(mine) != repr(default):
            told.append(f"{one.name}={briefly(mine)}")
    return f"{type(value).__name__}({', '.join(told)})"


def about_run(method: Method | Phases, rounds: int, seed: int, loss: object, history: History) -> dict[str, Any]:
    """Return how models were trained, in plain values."""
    kept = [name for name in history.values if name.endswith(("loss", "metric"))] if len(history) else []
    values = {name: [v if math.isfinite(v) else None for v in history.final(name).tolist()] for name in kept}
    return {
        "method": briefly(method),
        "rounds": rounds,
        "seed": seed,
        "loss": loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__),
        "metric": history.metric,
        "higher_is_better": history.higher_is_better,
        "values": values,
        "best": _best(history),
        "versions": {"graphcollab": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def _best(history: History) -> dict[str, float] | None:
    """Return when the mean validation loss was smallest, its value then, and its value for the saved models."""
    losses = history.mean("val_loss") if "val_loss" in history.values else []
    if not losses or not all(map(math.isfinite, losses)):
        return None
    least = min(losses)
    at = history.rounds[losses.index(least)]
    return {"rounds": at, "val_loss": least, "saved_val_loss": losses[history.returned]}
