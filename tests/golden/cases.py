"""Small runs of every method whose results are recorded, and what is recorded of them."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from graphcollab import Phases, methods, run
from graphcollab.components import Participation
from graphcollab.testing import Scene
from graphcollab.train import Result
from tests.methods.quick import EARLY, quick

# Whatever changes how the library is built must leave results within these of what was recorded, relative to the larger
# of 1 and the recorded number. Scenes are in double precision, so that only the order of sums can move them.
TOLERANCE = {
    "refused": 0.0,
    "mixer": 1e-9,
    "models": 1e-9,
    "edge_index": 0.0,
    "edge_weight": 1e-9,
    "bytes_sent": 0.0,
    "messages_sent": 0.0,
    "history": 1e-9,
}

# Batch normalization of a few samples blows rounding up: between a CPU with AVX-512 and one with AVX2 alone, results of
# these cases moved by up to 9e-7, and all others stayed within the above.
NORMALIZED = ("buffers", "mapl/architectures")  # kinds of cases, and single ones
BLOWN_UP = 1e-5


def tolerance(case: str, name: str) -> float:
    """Return by how much a result of a case may move."""
    most = TOLERANCE[name.partition(".")[0]]
    return max(most, BLOWN_UP) if most and case.endswith(NORMALIZED) else most


ROUNDS = 4
SIZES = (8, 13, 9, 13, 10, 11)  # batches of 4 leave no single sample, for batch normalization
PARTS = torch.cat(
    [torch.combinations(torch.arange(4)).T, torch.tensor([[4], [5]])], 1
)  # all pairs of 4 nodes, and of 2
IRREGULAR = torch.tensor([[0, 1, 1, 1, 3, 4], [1, 2, 3, 4, 4, 5]])  # degrees from 1 to 4
ONE_WAY = torch.tensor([[0, 1, 2, 4], [1, 2, 3, 3]])  # two paths that end in node 3; nobody is heard by node 5
ELASTIC = Participation(drop=0.2, late=0.2, joins={5: 1}, leaves={0: 3})

# Methods that deviate from their papers by default, in the paper's form.
PAPER: dict[str, dict[str, Any]] = {
    "l2c": {"decoupled": False, "own": "softmax"},
    "meta_l2c": {"decoupled": False, "own": "softmax", "score": "product", "normalize": False},
}

Case = Callable[[], Result]


def cases() -> Iterator[tuple[str, Case]]:
    """Yield the name of every case and what plays it."""
    for name in methods.__all__:
        for kind, play in KINDS.items():
            yield f"{name}/{kind}", lambda name=name, play=play: play(name)
    for name, form in PAPER.items():
        yield f"{name}/paper", lambda name=name, form=form: play_quick(name, form)
        yield f"{name}/paper elastic", lambda name=name, form=form: play_quick(name, form, participation=ELASTIC)


def play(method: Any, scene: Scene, graph: Tensor | None = None, **settings: Any) -> Result:
    """Run a method on a scene."""
    split = scene.tasks.splits["val"]
    tasks = replace(scene.tasks, splits={**scene.tasks.splits, "test": replace(split)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"rounds": ROUNDS, "seed": 3, "architecture": scene.architecture, **settings}
        return run(method, tasks, scene.modules, graph, **settings)


def play_quick(name: str, more: Mapping[str, Any] | None = None, **settings: Any) -> Result:
    """Run a method with quick settings, and more of them."""
    method = quick(name, **(more or {}))
    return play(method, Scene.small(sizes=SIZES, embeds=method.embeds), **settings)


def _early(name: str, **settings: Any) -> Result:
    return play_quick(name, EARLY, **settings)


def _defaults(name: str) -> Result:
    method = methods.get_method(name)()
    return play(method, Scene.small(sizes=SIZES, embeds=method.embeds))


def _parts(name: str) -> Result:
    return play_quick(name, graph=torch.cat([PARTS, PARTS.flip(0)], 1))


def _irregular(name: str) -> Result:
    return play_quick(name, {"incomplete": "average"}, graph=torch.cat([IRREGULAR, IRREGULAR.flip(0)], 1))


def _one_way(name: str) -> Result:
    return play_quick(name, graph=ONE_WAY)


def _isolate(name: str, **settings: Any) -> Result:
    method = quick(name)
    scene = Scene.small(sizes=SIZES, embeds=method.embeds)
    pool, first = scene.tasks.pools["train"], scene.tasks.splits["train"].of(0)
    inputs = pool.inputs.index_copy(0, first, 1e6 * pool.inputs[first])  # node 0 diverges, if it trains
    tasks = replace(scene.tasks, pools={"train": replace(pool, inputs=inputs)})
    return play(method, scene.replace(tasks=tasks), on_nonfinite="isolate", **settings)


def _architectures(name: str) -> Result:
    method = quick(name, part="head")
    return play(method, Scene.small(sizes=SIZES, shared_head=True, embeds=method.embeds))


def _buffers(name: str) -> Result:
    method = quick(name, buffers="average")
    scene = Scene.small(sizes=SIZES, shared_head=method.embeds, embeds=method.embeds)
    if method.embeds:  # these models normalize batches
        one = scene.modules[0]
        return play(method, scene.replace(modules=[one], architecture=None))
    draw = torch.Generator().manual_seed(5)
    backbone = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU())
    module = nn.Sequential(OrderedDict(backbone=backbone, head=nn.Linear(5, 3))).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return play(method, scene.replace(modules=[module]))


def _elastic(name: str, **settings: Any) -> Result:
    return play_quick(name, participation=ELASTIC, **settings)


def _phases(name: str, **settings: Any) -> Result:
    method = Phases(quick("local"), 1, quick(name))
    return play(method, Scene.small(sizes=SIZES, embeds=method.embeds), **settings)


KINDS: dict[str, Callable[..., Result]] = {
    "quick": play_quick,
    "early": _early,
    "defaults": _defaults,
    "parts": _parts,
    "irregular": _irregular,
    "one way": _one_way,
    "isolate": _isolate,
    "architectures": _architectures,
    "buffers": _buffers,
    "elastic": _elastic,
    "phases": _phases,
}


RESUMED = (
    "quick",
    "early",
    "elastic",
    "isolate",
    "phases",
)  # kinds that take settings, such as a folder for checkpoints


def outcome(case: Callable[[], Result]) -> dict[str, Tensor]:
    """Play a case and return what is recorded of it, by name; the name up to a dot says which tolerance applies.

    That a graph is refused is recorded too.
    """
    try:
        result = case()
    except ValueError:
        return {"refused": torch.ones(1)}
    graph = result.graph()
    found = {f"models.{a}": rows.clone() for a, rows in enumerate(result.stacks.tensors)}
    found |= {"edge_index": graph.edge_index, "edge_weight": graph.edge_weight}
    found |= {name: result.data[name] for name in ("bytes_sent", "messages_sent")}
    found |= {f"history.{name}": result.history.table(name) for name in result.history.values}
    mixer = result.data.get("mixer")
    found |= {
        f"mixer.{name.replace('/', ':')}": tensor.clone() for name, tensor in getattr(mixer, "tensors", {}).items()
    }
    if getattr(mixer, "gate", None) is not None:
        found["mixer.gate"] = mixer.gate.clone()
    return {name: value.contiguous() for name, value in found.items()}
