"""Runs that one process and several play alike, by name, and what is found by them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from examples.benchmark._attention import WatchWeights
from examples.benchmark._watch import WatchMerging
from graphcollab import Phases, Tasks, build_model, methods, run
from graphcollab.components import Participation
from graphcollab.testing import Scene
from graphcollab.train import Compute, RecordGraph, Result, WatchMetrics
from tests.methods.quick import early

SHARES = {1: None, 2: [0, 1, 1, 0, 0, 1], 4: [0, 1, 1, 2, 3, 1]}
"""Who owns the six nodes, by the number of processes; of four the last has no node of the second architecture."""


def processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def play_scene(method: Any, scene: Scene | None = None, rounds: int = 3, **settings: Any) -> Result:
    scene = scene or Scene.small(embeds=method.embeds)
    fixed: Any = {"rounds": rounds, "seed": scene.seed, "compute": Compute(placement=SHARES[processes()])}
    if scene.architecture is not None:
        fixed["architecture"] = list(scene.architecture)
    return run(method, scene.tasks, scene.modules, scene.edge_index, **{**fixed, **settings})


def of_method(name: str) -> Result:
    return play_scene(early(name))


def two_kinds(name: str) -> Result:
    """Two architectures; four processes, one of which has no node of the second."""
    method = early(name, batch_size=32)
    return play_scene(method, Scene.small(shared_head=True, embeds=method.embeds))


def watched() -> Result:
    looking = [RecordGraph(), WatchMerging(), WatchMetrics(["brier", "ece"], ("val", "train")), WatchWeights()]
    return play_scene(methods.meta_l2c(), callbacks=looking)


def isolated(method: Any, **settings: Any) -> Result:
    """The last node's samples are so large that it diverges."""
    scene = Scene.small(embeds=method.embeds)
    pools = {name: replace(pool, inputs=pool.inputs.clone()) for name, pool in scene.tasks.pools.items()}
    for split in scene.tasks.splits.values():
        pools[split.pool].inputs[split.of(5)] *= 1e150
    scene = scene.replace(tasks=replace(scene.tasks, pools=pools))
    return play_scene(method, scene, on_nonfinite="isolate", **settings)


def weighted(method: Any) -> Result:
    scene = Scene.small(embeds=method.embeds)
    pools = {name: replace(pool, weight=torch.arange(1.0, len(pool) + 1)) for name, pool in scene.tasks.pools.items()}
    return play_scene(method, scene.replace(tasks=replace(scene.tasks, pools=pools)))


def coming(method: Any, **settings: Any) -> Result:
    """Nodes come and go, and are late; a process has none of those that are there at first."""
    attend = Participation(drop=0.2, late=0.2, joins={"node 1": 2, "node 2": 2, "node 5": 2}, leaves={"node 3": 3})
    return play_scene(method, Scene.small(embeds=method.embeds), participation=attend, rounds=4, **settings)


def of_a_table() -> Result:
    """Sites of a table one of which has rows of one class only, so that its AUC is not defined."""
    draw = torch.Generator().manual_seed(0)
    columns = {"age": torch.randn(120, generator=draw), "dose": torch.randn(120, generator=draw)}
    ill = (columns["age"] + torch.randn(120, generator=draw) > 0).long()
    site = [f"site {k % 6}" for k in range(120)]
    ill[[k for k in range(120) if k % 6 == 2]] = 1
    frame = {name: values.tolist() for name, values in {**columns, "ill": ill}.items()} | {"site": site}
    tasks = Tasks.from_frame(frame, target="ill", metric="auc")
    return run(
        methods.l2c(epochs=1),
        tasks,
        lambda: build_model("mlp", tasks.input_shape, 2, hidden=4),
        rounds=3,
        compute=Compute(placement=SHARES[processes()]),
    )


SCENES: dict[str, Callable[[], Result]] = {
    **{name: partial(of_method, name) for name in methods.__all__},
    **{f"{name} of two kinds": partial(two_kinds, name) for name in ("local", "fedproto", "fedclassavg", "mapl")},
    "phases": lambda: play_scene(Phases(methods.local(), 2, methods.dpsgd()), rounds=4),
    "phases of peers": lambda: play_scene(Phases(methods.pens(), 2, methods.dac()), rounds=4),
    "stragglers": lambda: play_scene(methods.dpsgd(), participation=Participation(drop=0.3, late=0.3), rounds=6),
    "membership": lambda: play_scene(
        methods.fedavg(), participation=Participation(joins={"node 1": 2}, leaves={"node 4": 2}), rounds=4
    ),
    "client sampling": lambda: play_scene(methods.fedavg(fraction=0.5), rounds=4),
    "early stopping": lambda: play_scene(methods.local(lr=0.5), rounds=12, patience=2),
    "isolation": lambda: isolated(methods.dpsgd(lr=10.0)),
    **{f"{name}, coming": lambda name=name: coming(early(name)) for name in methods.__all__},
    **{f"{name}, isolating": lambda name=name: isolated(early(name)) for name in methods.__all__},
    **{f"{name}, weighted": lambda name=name: weighted(early(name)) for name in methods.__all__},
    **{f"{name}, patient": lambda name=name: play_scene(early(name), rounds=5, patience=1) for name in methods.__all__},
    "coming and isolating": lambda: coming(methods.dpsgd(), on_nonfinite="isolate"),
    "table": of_a_table,
    "watched": watched,
}
QUICK = ("fedavg", "meta_l2c", "mapl", "dac", "fedclassavg of two kinds", "isolation", "stragglers", "watched", "table")
QUICK += ("coming and isolating", "flt, coming", "ifca, weighted")


def found_by(scene: Callable[[], Result]) -> dict[str, Any]:
    """Return what a run has found, in plain values, with the models of the nodes that are here."""
    result = scene()
    history = result.history
    edges, weight = result.graph().edge_index, result.graph().edge_weight
    return {
        "models": {name: nn.utils.parameters_to_vector(m.parameters()).detach() for name, m in result.models().items()},
        "values": {name: history.table(name) for name in sorted(history.values)},
        "rounds": history.rounds,
        "returned": history.returned,
        "isolated": history.isolated,
        "findings": [(one.code, one.numbers) for one in history.findings],
        "graphs": {t: tuple(pair) for t, pair in history.graphs.items()},
        "edges": edges,
        "weight": weight,
        "scores": result.scores(split="train").values[result.tasks.metric],
        "samples": sum(len(pool) for pool in result.tasks.pools.values()),
    }
