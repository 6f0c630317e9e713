"""`Result`: the models, graph and history that a run returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab._base.errors import EmptyError, UnknownError, UnsupportedError
from graphcollab._base.naming import Node, find_node
from graphcollab.analysis.metrics import Scores
from graphcollab.analysis.metrics.scores import AnyMetrics, as_metrics, score_nodes
from graphcollab.analysis.metrics.statistics import worst_shown
from graphcollab.components import Env
from graphcollab.components.at_work import membership
from graphcollab.data.tasks import Tasks
from graphcollab.engine.modules import copy_module
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method, last_graph
from graphcollab.methods.phases import Phases
from graphcollab.persistence.answers import Predicts, Reading
from graphcollab.persistence.history import MISSING, History, in_deviations
from graphcollab.persistence.learned_graph import LearnedGraph
from graphcollab.persistence.save_models import about_run, save_models


@dataclass(frozen=True)
class Result(Predicts):
    """Personalized models, the learned graph, and the history of the run.

    The data are the state after the last round, or with early stopping the best state; ``interrupted`` tells whether
    Ctrl-C ended the run early.
    """

    come_by: ClassVar[str] = (
        "a Result is what run returns. Of a run with checkpoint=folder the same call returns it again, later too, "
        "without playing a round; what load returns can only predict"
    )

    method: Method | Phases
    data: Data = field(repr=False)
    history: History = field(repr=False)
    tasks: Tasks = field(repr=False)
    modules: Sequence[nn.Module] = field(repr=False)
    env: Env = field(repr=False)
    interrupted: bool = False

    def __repr__(self) -> str:
        cut = ", interrupted" * self.interrupted
        return f"Result({self.method.name}{cut}; {repr(self.history).removeprefix('History(')}"

    @cached_property
    def stacks(self) -> Stacks:
        """The evaluated models, as rows; computed on first access."""
        return self.method.models(self.data, self.env)

    def model(self, node: Node) -> nn.Module:
        """Return a node's personalized model as a plain module, by name or position (see `Node`; else a KeyError).

        All models share frozen weights: to change them, change those of a ``copy.deepcopy`` of the model. In a
        multi-process run a model is only available in its node's process; elsewhere a LookupError names that process.
        Sites only have their own models.
        """
        return self._model(find_node(node, self.tasks.names))

    def _reading(self) -> Reading:
        return Reading.of(self.tasks)

    def _model(self, position: int) -> nn.Module:
        plane = self.env.plane
        if not bool(plane.is_local(torch.tensor(position))):
            cure = "ask for it there, or save the result, by result.save(folder) in all processes, and load it"
            if plane.cross_silo:
                cure = f"each site has its own only, here that of {plane.party!r}"
            raise UnknownError(
                f"node {self.tasks.names[position]!r}",
                f"the model of {self.tasks.names[position]!r} is {plane.where(position)}: {cure}",
            )
        spec, row = self.stacks.row(position)
        module = copy_module(self.modules[next(a for a, s in enumerate(self.stacks.specs) if s is spec)])
        return spec.load_into(module, row).eval()

    def models(self) -> dict[str, nn.Module]:
        """Return all personalized models by node name; in a multi-process run, those of the local nodes."""
        return {self.tasks.names[k]: self._model(k) for k in self.env.plane.own.tolist()}

    def graph(self) -> LearnedGraph:
        """Return the learned graph: ``edge_index`` and ``edge_weight`` of the last exchange, ``node_id`` and ``name``.

        It is a PyG ``Data`` that can be written as CSV, with ``x`` [K, P] if all nodes have the same architecture.
        """
        edge_index, edge_weight = last_graph(self.data)
        graph = LearnedGraph(edge_index=edge_index, edge_weight=edge_weight, num_nodes=self.data.num_nodes)
        graph.node_id, graph.name = self.data.node_id, list(self.tasks.names)
        if len(self.data.x.specs) == 1 and self.env.plane.alone:
            graph.x = self.stacks.part("all")
        return graph

    def save(self, folder: str | Path) -> Path:
        """Save every node's evaluated model and everything needed to predict; `load` reads it elsewhere.

        The folder gets one safetensors file with a checksum: models, the graph with names, how the models were trained,
        and the preparation of tables if the tasks have one; no samples. Saved models in the folder are replaced as a
        whole or not at all. All processes call it, and the main process writes; each site writes its own model and
        sends nothing. `load` rebuilds models of `graphcollab.build_model` from saved settings; for others it
        needs a function that makes them.

        Raises:
            FileExistsError: If the folder holds something else.
            ValueError: If the folder is not writable.
            InUseError: If something else writes to it for more than a minute.
        """
        plane = self.env.plane
        with plane.raise_on_all():
            if plane.cross_silo:
                _save_own(folder, self)
                return Path(folder)
            stacks = plane.whole(self.stacks)
            if plane.is_main:
                save_models(folder, stacks, self.modules, self.tasks, self.graph(), self.about())
        return Path(folder)

    def about(self) -> dict[str, Any]:
        """Return how the models were trained, in the form that `Models.about` has for saved ones."""
        return about_run(self.method, int(self.data.round), self.env.seed, self.tasks.loss, self.history)

    def summary(self) -> dict[str, Any]:
        """Return the test metric's mean, worst 10 %, worst 20 % and standard deviation, bytes and seconds.

        The worst 10 % are reported from 20 nodes with a value, the worst 20 % from 10: with fewer nodes they would be
        the single worst node (`History.summary` has them regardless). ``nodes`` is the number of nodes in the mean,
        ``ignored`` the number without a value, ``metric`` the metric, and ``of`` what the values are:
        ``"test_metric"``; without test samples ``"val_metric"`` or ``"train_loss"``, and ``missing`` states what would
        be needed. ``units`` is set if errors are in standard deviations, ``isolated`` counts isolated nodes, and
        ``findings`` are the texts of detected problems (`Finding`). At least one evaluation is required.
        """
        if not len(self.history):
            raise EmptyError(
                "history", "nothing was evaluated, so there is nothing to summarize: play at least one round"
            )
        of = next(name for name in MISSING if name in self.history.values)
        sent = float(self.history.last("bytes_sent").mean())
        told = self.history.summary(of)
        shown = worst_shown(told["nodes"], len(self.history.names))
        kept = {key: value for key, value in told.items() if not key.startswith("worst") or int(key[5:]) in shown}
        found: dict[str, Any] = {**kept, "bytes_per_node": sent, "seconds": self.history.seconds[-1], "of": of}
        found["metric"] = self.history.metric
        if units := in_deviations(self.tasks, [self.history.metric]):
            found["units"] = units
        if self.history.isolated:
            found["isolated"] = len(self.history.isolated)
        if self.history.findings:
            found["findings"] = [finding.message for finding in self.history.findings]
        return {**found, "missing": MISSING[of]} if MISSING[of] else found

    def scores(self, metrics: AnyMetrics = None, split: str = "test") -> Scores:
        """Return one metric or several of every node's model on its samples of a split, from one pass of predictions.

        An undefined metric (an AUC of one class) is NaN; a warning names the nodes, unless the run's warning has, and
        means are over the other nodes. Nodes that have left are evaluated with their last models and excluded from
        means; nodes that have not joined have no scores. All processes of a run call it.

        Args:
            metrics: A name, a `Metric` or a function, or several of them. Default: the tasks' own.
            split: ``"test"``, ``"val"`` or ``"train"``; a ValueError if no node has such samples.
        """
        judged, told = as_metrics(metrics, self.tasks.metric), {self.history.metric: self.history.undefined(split)}
        member, joined = membership(self.data, self.env)
        return score_nodes(self.env.engine, self.stacks, split, judged, told, self.env.plane, member, joined)

    def save_mixer(self, path: str | Path, node: Node | None = None) -> Path:
        """Save the learned mixer for use elsewhere; of a ``node`` if parts of the graph trained their own.

        A ValueError is raised if there is no mixer: the method learns none, or the node is alone. In a multi-process
        run all processes call it, and the main process writes.
        """
        if "mixer" not in self.data:
            raise UnsupportedError("result", f"{self.method.name} learns no mixer that transfers: use meta_l2c")
        with self.env.plane.raise_on_all():
            mixer = self.data.mixer.of(None if node is None else find_node(node, self.tasks.names))
            if self.env.plane.is_main:
                mixer.save(path)
        return Path(path)


def _save_own(folder: str | Path, result: Result) -> None:
    """Write the models of the local nodes; of other nodes, write only their positions in the graph."""
    own = result.env.plane.own
    stacks, about = result.stacks.select(own), result.about()
    known = [any(spec is one for one in stacks.specs) for spec in result.stacks.specs]
    modules = [module for module, here in zip(result.modules, known, strict=True) if here]
    about["values"] = {name: [values[k] for k in own.tolist()] for name, values in about["values"].items()}
    save_models(folder, stacks, modules, result.tasks.select(own), result.graph(), about)
