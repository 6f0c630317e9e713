"""Small runs of every method whose results are recorded, and what is recorded of them."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab import Phases, methods, run
from graphcollab.nn import Membership, Stragglers
from graphcollab.testing import Scene
from graphcollab.train import Result
from tests.methods.quick import quick

# Whatever changes how the library is built must leave results within these of what was recorded, relative to the larger
# of 1 and the recorded number. Scenes are in double precision, so that only the order of sums can move them.
TOLERANCE = {
    "models": 1e-9,
    "edge_index": 0.0,
    "edge_weight": 1e-9,
    "bytes_sent": 0.0,
    "messages_sent": 0.0,
    "history": 1e-9,
}

ROUNDS = 4
SIZES = (8, 13, 9, 13, 10, 11)  # batches of 4 leave no single sample, for batch normalisation
PARTS = torch.cat(
    [torch.combinations(torch.arange(4)).T, torch.tensor([[4], [5]])], 1
)  # all pairs of 4 nodes, and of 2
ELASTIC = Stragglers(drop=0.2, late=0.2, among=Membership(joins={5: 1}, leaves={0: 3}))

Case = Callable[[], Result]


def cases() -> Iterator[tuple[str, Case]]:
    """Yield the name of every case and what plays it."""
    for name in methods.__all__:
        for kind, play in KINDS.items():
            yield f"{name}/{kind}", lambda name=name, play=play: play(name)


def play(method: Any, scene: Scene, graph: Tensor | None = None, **settings: Any) -> Result:
    """Run a method on a scene."""
    split = scene.tasks.splits["val"]
    tasks = replace(scene.tasks, splits={**scene.tasks.splits, "test": replace(split)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"rounds": ROUNDS, "seed": 3, "architecture": scene.architecture, **settings}
        return run(method, tasks, scene.modules, graph, **settings)


def play_quick(name: str, **settings: Any) -> Result:
    """Run a method with quick settings."""
    method = quick(name)
    return play(method, Scene.small(sizes=SIZES, embeds=method.embeds), **settings)


def _defaults(name: str) -> Result:
    method = methods.get_method(name)()
    return play(method, Scene.small(sizes=SIZES, embeds=method.embeds))


def _parts(name: str) -> Result:
    return play_quick(name, graph=torch.cat([PARTS, PARTS.flip(0)], 1))


def _architectures(name: str) -> Result:
    method = quick(name, part="head")
    return play(method, Scene.small(sizes=SIZES, shared_head=True, embeds=method.embeds))


def _buffers(name: str) -> Result:
    method = quick(name, buffers="mix")
    scene = Scene.small(sizes=SIZES, shared_head=method.embeds, embeds=method.embeds)
    if method.embeds:  # these models normalise batches
        one = scene.modules[0]
        return play(method, scene.replace(modules=[one], architecture=None))
    draw = torch.Generator().manual_seed(5)
    backbone = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU())
    module = nn.Sequential(OrderedDict(backbone=backbone, head=nn.Linear(5, 3))).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return play(method, scene.replace(modules=[module]))


def _elastic(name: str) -> Result:
    return play_quick(name, attend=ELASTIC)


def _phases(name: str) -> Result:
    method = Phases(quick("local"), 1, quick(name))
    return play(method, Scene.small(sizes=SIZES, embeds=method.embeds))


KINDS: dict[str, Callable[..., Result]] = {
    "quick": play_quick,
    "defaults": _defaults,
    "parts": _parts,
    "architectures": _architectures,
    "buffers": _buffers,
    "elastic": _elastic,
    "phases": _phases,
}


def outcome(result: Result) -> dict[str, Tensor]:
    """Return what is recorded of a run, by name; the name up to a dot says which tolerance applies."""
    graph = result.graph()
    found = {f"models.{a}": rows.clone() for a, rows in enumerate(result.stacks.tensors)}
    found |= {"edge_index": graph.edge_index, "edge_weight": graph.edge_weight}
    found |= {name: result.data[name] for name in ("bytes_sent", "messages_sent")}
    found |= {f"history.{name}": result.history.table(name) for name in result.history.values}
    return {name: value.contiguous() for name, value in found.items()}
