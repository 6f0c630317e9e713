"""`Models`: what `load` reads of what `Result.save` has written, every site's model, ready to predict with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab.engine.modules import copy_module
from graphcollab.naming import Node, few, find_node
from graphcollab.settings import checked
from graphcollab.tasks.preparation import Preparation
from graphcollab.train.answers import Answers
from graphcollab.train.blueprint import build, tensors_of
from graphcollab.train.bundle import read_bundle
from graphcollab.train.learned_graph import LearnedGraph
from graphcollab.train.parts import DAMAGES
from graphcollab.train.predicts import Predicts, Reading
from graphcollab.train.start import Model, build_modules
from graphcollab.train.trust import dtype_of, foreign

__all__ = ["KIND", "VERSION", "Models", "load"]

KIND, VERSION = "graphcollab-models", 1
_LARGEST = 2**28  # numbers of a sample at most
_TRIED = 2  # samples that models are tried on when they are loaded


@dataclass(frozen=True)
class Models(Predicts):
    """Every site's personalised model, with the learned graph and what was known of the data.

    Args:
        names: The sites.
        about: How the models came about: ``method``, ``rounds``, ``seed``, ``loss``, ``metric``, ``values`` (what was
            measured when the run ended, of every site in their order), ``best`` (when the mean validation loss was
            least, and how large then and now), and ``versions``.
        preparation: What turns rows of a table into the models' inputs, if the tasks had one.

    Example:
        >>> import tempfile
        >>> from graphcollab import Tasks, load, local, run
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> tasks = Tasks.from_samples([(x, y), (x, y)], names=["north", "south"])
        >>> result = run(local(), tasks, nn.Linear(3, 2), rounds=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     models = load(result.save(folder))
        >>> models.names, models.predict("south", x[:4]).shape, models.predict_proba("south", x[:4]).shape
        (('north', 'south'), (4,), (4, 2))
    """

    names: tuple[str, ...]
    about: Mapping[str, Any] = field(repr=False)
    preparation: Preparation | None = field(repr=False)
    _graph: LearnedGraph = field(repr=False)
    _answers: Answers = field(repr=False)
    _inputs: tuple[tuple[int, ...], torch.dtype] = field(repr=False)  # of one sample
    _modules: Sequence[nn.Module] = field(repr=False)  # one per architecture
    _rows: Sequence[Mapping[str, Tensor]] = field(repr=False)  # [K_s, ...] by name, of every architecture
    _places: Sequence[tuple[int, int]] = field(repr=False)  # every site's architecture, and its row

    def model(self, site: Node) -> nn.Module:
        """Return a site's model as a module in evaluation mode, by the site's name or position (see `Node`)."""
        architecture, row = self._places[find_node(site, self.names, "site")]
        module = copy_module(self._modules[architecture])
        state = tensors_of(module)
        for name, values in self._rows[architecture].items():  # in memory of its own, also where they are frozen now
            state[name].data = values[row].to(state[name].dtype, copy=True)
        return module.eval()

    def graph(self) -> LearnedGraph:
        """Return the learned graph, without models; see `LearnedGraph`."""
        return self._graph.clone()

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes' names, in the order of outputs; empty where they are numbers, and in a regression."""
        return self._answers.classes

    def _reading(self) -> Reading:
        return Reading(self.names, self.preparation, *self._inputs, lambda _: self._answers)


@checked
def load(folder: str | Path, model: Model | None = None, *, trusted: str | Sequence[str] = ()) -> Models:
    """Load what `Result.save` has written, on the CPU; neither the training data nor the script is needed.

    No code comes from the folder. Unasked, it may name no classes but those of PyTorch's layers, torchvision's networks
    and this package's models.

    Args:
        folder: The folder.
        model: The architecture, a module or a function that makes one (or several, in the order in which the run was
            given them), where it was not saved, or to be used in place of what was saved. Its parameters are replaced.
        trusted: Modules of your own, ``"hospital.nets"``, of whose classes the saved models may be. They are imported,
            and their classes get the attributes that the folder says. An error names those that are needed.

    Raises:
        FileNotFoundError: If there is no such folder, or nothing is saved in it.
        ImportError: If the class of a model cannot be imported here.
        ValueError: If it holds something else, or another version of the format; if a file in it is damaged; if the
            architecture was not saved and is not given, or does not fit; or if classes are not trusted.
    """
    folder = Path(folder)
    content, tensors = read_bundle(folder, KIND, VERSION)
    try:
        found = _read(content, tensors)
    except DAMAGES as error:
        raise ValueError(f"{folder} is damaged: {type(error).__name__} {error}") from error
    common = [_named(tensors, f"{a}/common/") for a in range(len(found._rows))]
    trust = (trusted,) if isinstance(trusted, str) else tuple(trusted)
    modules = _modules(folder, content["architectures"], common, found._rows, model, trust)
    if model is None:
        for architecture, module in zip(content["architectures"], modules, strict=True):
            _try(folder, architecture["class"], module, *found._inputs)
    return replace(found, _modules=modules)


def _read(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Models:
    """Return all but the modules; what is not of one piece is an error (`DAMAGES`)."""
    names, told = tuple(content["names"]), content.get("graph", content["names"])
    rows = [_named(tensors, f"{a}/models/") for a in range(len(content["architectures"]))]
    places = {k: (a, row) for a, members in enumerate(content["members"]) for row, k in enumerate(members)}
    edges, weight = tensors["graph/edge_index"], tensors["graph/edge_weight"]
    shape = tuple(content["inputs"]["shape"])
    if not all(isinstance(name, str) for name in (*names, *told)) or len({*names}) < len(names):
        raise ValueError("expected different texts as names of nodes")
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) > _LARGEST:
        raise ValueError(f"expected the shape of a sample of at most {_LARGEST} numbers, got {list(shape)}")
    for architecture in content["architectures"]:
        if not {"class", "types", "blueprint", "reason"} <= architecture.keys():
            raise ValueError("an architecture is incomplete")
    for members, values in zip(content["members"], rows, strict=True):
        if any(len(one) != len(members) for one in values.values()):
            raise ValueError("there are not as many models as nodes")
    if edges.dtype != torch.int64 or edges.shape != (2, len(weight)):
        raise ValueError("expected edges [2, E] with weights [E]")
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(told):
        raise ValueError("the graph has edges between nodes that are not there")
    graph = LearnedGraph(edge_index=edges, edge_weight=weight, num_nodes=len(told), name=list(told))
    graph.node_id = tensors["graph/node_id"]
    prepared = content["preparation"]
    return Models(
        names,
        content["about"],
        None if prepared is None else Preparation.from_json(prepared),
        graph,
        Answers(**{**content["answers"], "classes": tuple(content["answers"]["classes"])}),
        (shape, dtype_of(content["inputs"]["type"])),
        (),
        rows,
        [places[k] for k in range(len(names))],
    )


def _named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}


def _modules(
    folder: Path,
    architectures: Sequence[Mapping[str, Any]],
    common: Sequence[Mapping[str, Tensor]],
    rows: Sequence[Mapping[str, Tensor]],
    model: Model | None,
    trusted: Sequence[str],
) -> list[nn.Module]:
    """Return a module per architecture: those given, or those that the blueprints say."""
    if model is None:
        return [_built(folder, trusted, *one) for one in zip(architectures, common, rows, strict=True)]
    modules = build_modules(model, 0, torch.device("cpu"))
    if len(modules) != len(architectures):
        raise ValueError(f"{folder} holds models of {len(architectures)} architectures, and {len(modules)} were given")
    for a, module in enumerate(modules):
        state, stored = tensors_of(module), {name: values.shape[1:] for name, values in rows[a].items()}
        stored |= {name: values.shape for name, values in common[a].items()}
        given = {name: tensor.shape for name, tensor in state.items()}
        for name in [*stored, *given]:
            if given.get(name) != stored.get(name):
                has, wants = (f"shape {list(one[name])}" if name in one else "none" for one in (given, stored))
                raise ValueError(
                    f"the architecture given is not the one that was saved, {architectures[a]['class']}: for {name!r} "
                    f"it has {has}, and saved was {wants}"
                )
        for name, values in common[a].items():  # put in their place, since the caller has the same frozen weights
            state[name].data = values.to(state[name].dtype)
    return modules


def _try(folder: Path, kind: str, module: nn.Module, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Check that a module that was built is one that can be called, and not one whose class lacks what it says."""
    try:
        with torch.no_grad():
            copy_module(module)(torch.zeros(_TRIED, *shape, dtype=dtype))
    except Exception as error:  # whatever PyTorch, or a class that is trusted, makes of what somebody has made up
        raise ValueError(
            f"{folder} says that the model {kind} is a {type(module).__name__}, which does not fit the rest of what it "
            f"says ({type(error).__name__}: {error}): save it anew, or give the architecture, "
            f"graphcollab.load({str(folder)!r}, model=...)"
        ) from error


def _built(
    folder: Path,
    trusted: Sequence[str],
    architecture: Mapping[str, Any],
    common: Mapping[str, Tensor],
    rows: Mapping[str, Tensor],
) -> nn.Module:
    kind, blueprint = architecture["class"], architecture["blueprint"]
    call = f"graphcollab.load({str(folder)!r}, "
    if blueprint is None:
        raise ValueError(
            f"the architecture {kind} was not saved, because {architecture['reason']}: give it, {call}model=...)"
        )
    classes = foreign(blueprint)
    modules = sorted({path.partition(":")[0] for path in classes})
    if {*modules} - {*trusted}:
        raise ValueError(
            f"the model {kind} has layers of {few(classes)}, which are not PyTorch's, torchvision's or this package's: "
            f"if you trust these modules and whoever made the folder, {call}trusted={modules}); else give the "
            "architecture, model=..."
        )
    try:
        types = {name: dtype_of(type_) for name, type_ in architecture["types"].items()}
        tensors = {**common, **{name: values[0] for name, values in rows.items()}}
        built = build(blueprint, {name: tensors[name].to(types[name]).clone() for name in types}, trusted)
        module = copy_module(built).eval()  # a copy is what is asked for later
        if lacking := rows.keys() - tensors_of(module):
            raise ValueError(f"no layer has the parameter {min(lacking)!r}")
        return module
    except ImportError as error:
        raise ImportError(
            f"the class of the model {kind} cannot be imported ({error}): put its file where Python finds it, or give "
            f"the architecture, {call}model=...)"
        ) from error
    except DAMAGES as error:
        raise ValueError(
            f"{folder} does not say how to build the model {kind} ({type(error).__name__}: {error}): give the "
            f"architecture, {call}model=...)"
        ) from error
