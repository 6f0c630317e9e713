"""`Scene`: a small collaboration on which a method can be played round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab.comm.plane import Plane
from graphcollab.components import Env, Participation
from graphcollab.data.samples import Pool, Split
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Engine
from graphcollab.engine.randomness import own_randomness
from graphcollab.engine.stack import ParamSpec, Stacks
from graphcollab.models import MLP, SplitModel
from graphcollab.testing.claims import AnyMethod
from graphcollab.train.graph_input import Graph
from graphcollab.train.start import build_graph

FEATURES, CLASSES = 4, 3
IMAGE, LATENT, PROJECTION = (1, 2, 2), 5, 4
SIZES = (8, 13, 9, 12, 10, 11)


@dataclass(frozen=True)
class Scene:
    """Nodes with data, models and edges, and the settings that compute them.

    Args:
        tasks: The nodes' data.
        modules: One module per architecture.
        edge_index: Allowed edges, [2, E], or another `Graph`. Default: all pairs, as in `run` without a graph.
        architecture: Architecture of every node, if there are several.
        backend: ``"auto"``, ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows computed at a time.
        seed: Seed of the run.
        participation: Participation of nodes in rounds. Default: all nodes always take part.
        isolate: Whether diverging nodes are isolated.

    Example:
        >>> from graphcollab.methods import fedavg
        >>> scene = Scene.small()
        >>> data, env = scene.play(fedavg(), rounds=2)
        >>> data.round, data.x.num_nodes
        (2, 6)
    """

    tasks: Tasks
    modules: Sequence[nn.Module] = field(repr=False)
    edge_index: Graph = None
    architecture: tuple[int, ...] | None = None
    backend: str = "auto"
    chunk: int | None = None
    seed: int = 0
    participation: Participation | None = None
    isolate: bool = False

    @classmethod
    def small(
        cls,
        dtype: torch.dtype = torch.float64,
        sizes: Sequence[int] = SIZES,
        shared_head: bool = False,
        embeds: bool = False,
    ) -> Scene:
        """Make a scene of a few nodes with unequal numbers of samples of three classes, in two nominal clusters.

        Args:
            dtype: Number type of inputs and models.
            sizes: Number of samples of every node.
            shared_head: Alternate two architectures that share the part ``head``.
            embeds: Make every model a `SplitModel`, as required by methods that read latents (``Method.embeds``), and
                every sample an image; two architectures differ in their backbones and share all other parts.
        """
        draw = torch.Generator().manual_seed(0)
        targets = torch.randint(CLASSES, (sum(sizes),), generator=draw)
        inputs = torch.randn(sum(sizes), FEATURES, generator=draw, dtype=torch.float64)
        inputs[:, 0] += targets
        index = list(torch.arange(sum(sizes)).split(list(sizes)))
        shape = IMAGE if embeds else (FEATURES,)
        pools = {"train": Pool(inputs.to(dtype).view(-1, *shape), targets)}
        halves = (torch.arange(len(sizes)) >= len(sizes) // 2).long()
        tasks = Tasks(pools, {"train": Split.from_lists("train", index)}, cluster=halves).hold_out(0.25)
        modules: list[nn.Module] = []
        with own_randomness(0):  # layers draw their parameters on construction
            for kind in (0, 1) if shared_head else (0,):
                if embeds:  # two architectures normalize batches
                    norm: Literal["batch", "layer"] = "batch" if shared_head else "layer"
                    backbone = nn.Conv2d(1, 3, 2) if kind else nn.Flatten()
                    modules.append(SplitModel(backbone, IMAGE, CLASSES, LATENT, PROJECTION, norm=norm))
                else:
                    modules.append(MLP(FEATURES, (7, 6) if shared_head and not kind else (6,), CLASSES))
        with torch.no_grad():
            for parameter in (parameter for module in modules for parameter in module.parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
        kinds = tuple(k % 2 for k in range(len(sizes))) if shared_head else None
        return cls(tasks, [module.to(dtype) for module in modules], architecture=kinds)

    def replace(self, **fields: object) -> Scene:
        """Return the scene with some fields replaced."""
        return replace(self, **fields)  # type: ignore[arg-type]

    def begin(self, method: AnyMethod, make: type[Plane] = Plane) -> tuple[Data, Env]:
        """Return the state before the first round and the `Env`, whose plane is a ``make``."""
        specs = [ParamSpec.from_module(module) for module in self.modules]
        engine = Engine(self.tasks, self.modules, specs, backend=self.backend, chunk=self.chunk)
        kind = None if self.architecture is None else torch.tensor(self.architecture)
        env = Env(engine, make(self.tasks.num_nodes, kind=kind), self.seed, self.isolate, self.participation)
        method.check(self.tasks)
        data = build_graph(self.tasks, self.modules, self.edge_index, self.architecture, method)
        return method.start(data, env), env

    def play(self, method: AnyMethod, rounds: int = 2) -> tuple[Data, Env]:
        """Play some rounds from the beginning and return the final state and the `Env`."""
        data, env = self.begin(method)
        for _ in range(rounds):
            data = method.play(data, env)
        return data, env

    def models(self, method: AnyMethod, rounds: int = 2) -> Stacks:
        """Play some rounds and return the models by which nodes are judged."""
        data, env = self.play(method, rounds)
        return method.models(data, env)
