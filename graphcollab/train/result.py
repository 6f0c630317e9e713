"""What a run returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from graphcollab.engine.modules import copy_module
from graphcollab.method import Method, last_graph
from graphcollab.phases import Phases
from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.train.history import History
from graphcollab.typing import Env

if TYPE_CHECKING:
    import networkx

__all__ = ["Result"]

MISSING = {
    "test_metric": "",
    "val_metric": "no node has test samples: give `test` to Tasks.from_samples",
    "train_loss": "no node has test or validation samples: give `test` and `val` to Tasks.from_samples",
}
"""What a summary is of, the best first, and what is missing then."""


@dataclass(frozen=True)
class Result:
    """Personalised models, the learned graph, and how they came about.

    Args:
        method: The method.
        data: The state after the last round.
        history: Values per node and round.
        tasks: The nodes' data.
        modules: One module per architecture.
        env: What the stages used.
        interrupted: Whether Ctrl-C ended the run early.
    """

    method: Method | Phases
    data: Data = field(repr=False)
    history: History = field(repr=False)
    tasks: Tasks = field(repr=False)
    modules: Sequence[nn.Module] = field(repr=False)
    env: Env = field(repr=False)
    interrupted: bool = False

    @cached_property
    def stacks(self) -> Stacks:
        """The models nodes are judged by, as rows; made when they are first asked for."""
        return self.method.models(self.data, self.env)

    def model(self, node: int | str) -> nn.Module:
        """Return a node's personalised model as a plain module, by position or name.

        Raises:
            KeyError: If there is no node of that name.
        """
        stacks = self.stacks
        spec, row = stacks.row(self._position(node))
        module = copy_module(self.modules[next(a for a, s in enumerate(stacks.specs) if s is spec)])
        return spec.load_into(module, row).eval()

    def models(self) -> dict[str, nn.Module]:
        """Return all personalised models by node name."""
        return {name: self.model(k) for k, name in enumerate(self.tasks.names)}

    def graph(self) -> Data:
        """Return the learned graph: the edges and weights of the last exchange.

        It has ``edge_index``, ``edge_weight``, ``node_id``, ``name``, and ``x`` [K, P] where all
        nodes have one architecture.
        """
        data = self.data
        edge_index, edge_weight = last_graph(data)
        graph = Data(edge_index=edge_index, edge_weight=edge_weight, num_nodes=data.num_nodes)
        graph.node_id = data.node_id
        graph.name = list(self.tasks.names)
        if len(data.x.specs) == 1:
            graph.x = self.stacks.part("all")
        return graph

    def to_networkx(self) -> networkx.DiGraph:
        """Return the learned graph with node names and ``edge_weight``; edges point from sender to receiver."""
        graph = self.graph()
        return to_networkx(graph, node_attrs=["name"], edge_attrs=["edge_weight"])

    def summary(self) -> dict[str, Any]:
        """Return the test metric's mean, worst 10 %, worst 20 % and standard deviation, bytes and seconds.

        ``nodes`` says over how many nodes the mean is, ``ignored`` how many have no value, and ``of`` what the values
        are: ``"test_metric"``; without test samples ``"val_metric"``, or even ``"train_loss"``. Then ``missing`` says
        what would be needed. Where nodes were isolated, ``isolated`` counts them.

        Raises:
            ValueError: If nothing was evaluated.
        """
        if not len(self.history):
            raise ValueError("nothing was evaluated, so there is nothing to summarise: play at least one round")
        of = next(name for name in MISSING if name in self.history.values)
        sent = float(self.history.last("bytes_sent").mean())
        found = {**self.history.summary(of), "bytes_per_node": sent, "seconds": self.history.seconds[-1], "of": of}
        if self.history.isolated:
            found["isolated"] = len(self.history.isolated)
        return {**found, "missing": MISSING[of]} if MISSING[of] else found

    def save_mixer(self, path: str | Path, node: int | str | None = None) -> Path:
        """Save the learned mixer for use elsewhere.

        Args:
            path: The file.
            node: Whose mixer, by position or name, where parts of the graph that are not connected trained their own.

        Raises:
            ValueError: If the method has none, or there are several and no node is named, or one that is alone.
            KeyError: If there is no node of that name.
        """
        if "mixer" not in self.data:
            raise ValueError(f"{self.method.name} learns no mixer that transfers: use meta_l2c")
        return Path(self.data.mixer.of(None if node is None else self._position(node)).save(path))

    def _position(self, node: int | str) -> int:
        """Return the position of a node that is given by position or name."""
        if not isinstance(node, str):
            return node
        if node not in self.tasks.names:
            raise KeyError(f"there is no node {node!r}; the nodes are {', '.join(self.tasks.names[:5])}, …")
        return self.tasks.names.index(node)
