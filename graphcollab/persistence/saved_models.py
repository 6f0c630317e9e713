"""`Models`: the saved models of all sites, loaded by `load` from the output of `Result.save`, ready to predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import torch
from torch import Tensor, nn

from graphcollab._base.errors import FormatError, MissingError, ShapeError
from graphcollab._base.naming import Node, find_node
from graphcollab._base.packed import damage_of
from graphcollab._base.settings import SettingError, checked
from graphcollab.data.preparation import Preparation
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import own_randomness
from graphcollab.models.catalog import build_model
from graphcollab.persistence.answers import Answers, Predicts, Reading
from graphcollab.persistence.folder import read_folder
from graphcollab.persistence.learned_graph import LearnedGraph

KIND, VERSION = "graphcollab-models", 5
FACTORY = "a function from a node's name to its module"
Factory: TypeAlias = Annotated[Callable[[str], nn.Module], FACTORY]


@dataclass(frozen=True)
class Models(Predicts):
    """Every site's personalized model, with the learned graph and information on the data.

    Args:
        names: The sites.
        about: How the models were trained: ``method``, ``rounds``, ``seed``, ``loss``, ``metric``, ``values``
            (measured at the end of the run, for every site in their order), ``best`` (when the mean validation loss was
            smallest, and its values then and now), and ``versions``; for a `Final`, how it was ``made``, from how many
            ``rows``, by which ``setting``, ``warning``, and ``means`` over splits of sites' metrics in their order.
        preparation: Conversion of rows of a table into the models' inputs, if the tasks had one.

    Example:
        >>> import tempfile
        >>> from graphcollab import Tasks, load, run
        >>> from graphcollab.methods import local
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> tasks = Tasks.from_samples([(x, y), (x, y)], names=["north", "south"])
        >>> result = run(local(), tasks, nn.Linear(3, 2), rounds=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     models = load(result.save(folder), model=lambda name: nn.Linear(3, 2))
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
    _places: Sequence[tuple[int, int]] = field(repr=False)  # every site's architecture and row; then of all sites

    @property
    def has_shared(self) -> bool:
        """Whether there is a model of all sites together, used for the site None, which has no model of its own."""
        return len(self._places) > len(self.names)

    def model(self, site: Node | None) -> nn.Module:
        """Return a site's model as a module in evaluation mode, by the site's name or position (see `Node`).

        None returns the model of all sites together, for sites without their own (`has_shared`).
        """
        if site is None and not self.has_shared:
            raise MissingError("site", "no model of all sites was saved, and each is of one site: name it")
        architecture, row = self._places[-1 if site is None else find_node(site, self.names, "site")]
        module = copy_module(self._modules[architecture])
        state = tensors_of(module)
        for name, values in self._rows[architecture].items():  # in memory of its own, even if frozen now
            state[name].data = values[row].to(state[name].dtype, copy=True)
        return module.eval()

    def graph(self) -> LearnedGraph:
        """Return the learned graph, without models; see `LearnedGraph`."""
        return self._graph.clone()

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the classes, in the order of outputs; empty if they are numbers, and in a regression."""
        return self._answers.classes

    def _reading(self) -> Reading:
        return Reading(self.names, self.preparation, *self._inputs, lambda _: self._answers, self.has_shared)


@checked
def load(folder: str | Path, model: Factory | None = None) -> Models:
    """Load the output of `Result.save` on the CPU; neither the training data nor the script is needed.

    No code is loaded from the folder. Models of `graphcollab.build_model` are rebuilt from their settings; others are
    made by the function ``model``.

    Args:
        folder: The folder.
        model: Function from a node's name to a module of its architecture, such as ``lambda name: Net(width=8)``. It is
            called once per architecture, and the parameters of the returned module are replaced.

    Raises:
        FileNotFoundError: If there is no such folder, or nothing is saved in it.
        ValueError: If the folder holds something else, or another version of the format; if a file in it is damaged; or
            if a model is needed and not given, or differs from the saved one.
    """
    folder = Path(folder)
    content, tensors = read_folder(folder, KIND, VERSION)
    with damage_of(f"folder {folder}"):
        found = _read(content, tensors)
        every = [{key: one[key] for key in ("class", "model", "types")} for one in content["architectures"]]
    modules = []
    for a, (saved, rows) in enumerate(zip(every, found._rows, strict=True)):
        common = _named(tensors, f"{a}/common/")
        state = {**common, **{name: values[0] for name, values in rows.items()}}
        if model is None:
            module = _built(folder, saved, state)
        else:
            module = _made(model, found.names[content["members"][a][0]])
            _require_shapes(module, {name: [*values.shape] for name, values in state.items()})
            held = tensors_of(module)
            for name, values in common.items():  # replaced in place, since the caller has the same frozen weights
                held[name].data = values.to(held[name].dtype)
        modules.append(module)
    return replace(found, _modules=modules)


def _read(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Models:
    """Return everything except the modules."""
    names, told = tuple(content["names"]), content.get("graph", content["names"])
    rows = [_named(tensors, f"{a}/models/") for a in range(len(content["architectures"]))]
    places = {k: (a, row) for a, members in enumerate(content["members"]) for row, k in enumerate(members)}
    edges, weight = tensors["graph/edge_index"], tensors["graph/edge_weight"]
    graph = LearnedGraph(edge_index=edges, edge_weight=weight, num_nodes=len(told), name=list(told))
    graph.node_id = tensors["graph/node_id"]
    prepared = None if content["preparation"] is None else Preparation.from_json(content["preparation"])
    answers = Answers(**{**content["answers"], "classes": tuple(content["answers"]["classes"])})
    inputs = tuple(content["inputs"]["shape"]), dtype_of(content["inputs"]["type"])
    every = [places[k] for k in range(max(len(names), len(places)))]
    return Models(names, content["about"], prepared, graph, answers, inputs, (), rows, every)


def _named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers by their first names."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def dtype_of(name: str) -> torch.dtype:
    """Return a number type by its name; a ValueError if there is none."""
    if not isinstance(found := vars(torch).get(name), torch.dtype):  # `getattr` would import modules for some names
        raise FormatError(f"number type {name!r}", f"{name!r} is no number type")
    return found


def rebuilt(settings: Mapping[str, Any], state: Mapping[str, Tensor]) -> nn.Module:
    """Return a model of `build_model` from its settings, with these parameters and buffers; else a ShapeError."""
    with torch.device("meta"):  # nothing is allocated before its size is known to be right
        module = build_model(**settings)
    _require_shapes(module, {name: [*values.shape] for name, values in state.items()})
    module = module.to_empty(device="cpu")
    for name, tensor in tensors_of(module).items():
        tensor.data = state[name]
    return module.eval()


def _built(folder: Path, saved: Mapping[str, Any], state: Mapping[str, Tensor]) -> nn.Module:
    if saved["model"] is None:
        raise MissingError(
            "model",
            f"the models in {folder} are of the class {saved['class']}, which only your code can make: give a function "
            f"from a node's name to its module, graphcollab.load({str(folder)!r}, model=lambda name: ...)",
        )
    with damage_of(f"folder {folder}"):
        types = {name: dtype_of(kind) for name, kind in saved["types"].items()}
        return rebuilt(saved["model"], {name: values.to(types[name]).clone() for name, values in state.items()})


def _made(model: Factory, name: str) -> nn.Module:
    with own_randomness(0):
        module: object = model(name)
    if not isinstance(module, nn.Module):
        raise SettingError("model", FACTORY, module)
    return copy_module(module).cpu().eval()


def _require_shapes(module: nn.Module, stored: Mapping[str, Sequence[int]]) -> None:
    given = {name: [*tensor.shape] for name, tensor in tensors_of(module).items()}
    for name in [*stored, *given]:
        if given.get(name) != stored.get(name):
            has, wants = (f"shape {one[name]}" if name in one else "none" for one in (given, stored))
            raise ShapeError(
                f"parameter {name!r}",
                f"a {type(module).__name__} is not the model that was saved: for {name!r} it has {has}, and saved was "
                f"{wants}",
            )
