"""Whole rounds on a card, of methods and of peers, and how much memory many nodes take."""

from __future__ import annotations

import argparse
import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from _gpu_bench import Bench  # type: ignore
from _gpu_training import CLASSES, LR, graph_loop, make_tasks  # type: ignore
from _measure import peak_bytes  # type: ignore
from local_training import compare_rounds  # type: ignore
from torch import nn

from graphcollab import Method, Tasks, get_method, run
from graphcollab.analysis.metrics import as_metric
from graphcollab.analysis.metrics.scores import score_rows
from graphcollab.comm import Plane
from graphcollab.components import Env
from graphcollab.engine import Engine, Rows
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import fedavg
from graphcollab.models import CNN, MLP
from graphcollab.models.classifiers import fedavg_cnn
from graphcollab.train.start import build_graph, build_modules

# Name, method and settings; local training first, in whose rounds the others are measured.
ROUNDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("local", "local", {}),
    ("l2c", "l2c", {}),
    ("meta_l2c, one model", "meta_l2c", {"own": "largest"}),
    ("meta_l2c, two models", "meta_l2c", {}),
    *((name, name, {}) for name in ("fedavg", "dpsgd", "cobo", "dac", "fedamp", "pfedgraph")),
)
BATCH = 10
PFLLIB_BYTES = 5.08e9  # for 500 clients, in its README


class Player:
    """Plays rounds of a method."""

    def __init__(self, method: Method, tasks: Tasks, env: Env, modules: Sequence[nn.Module]) -> None:
        self.method, self.env = method, env
        self.data = method.start(build_graph(tasks, modules, method=method), env)

    def __call__(self) -> None:
        """Play a round."""
        self.data = self.method.play(self.data, self.env)


def rounds(bench: Bench) -> None:
    """Time rounds of all methods in turn: 100 MLPs and 50 local steps; then a round of each piece by piece."""
    nodes, steps, validation = bench.size((100, 50, 100), (6, 2, 10))
    tasks = make_tasks(nodes, (784,), bench.device, {"train": steps * BATCH, "val": validation})
    modules = build_modules(lambda: MLP(784, bench.size(100, 8), CLASSES), 0, torch.device(bench.device))
    engine = Engine(tasks, modules, [ParamSpec.from_module(module) for module in modules])
    given = {"steps": steps, "batch_size": BATCH, "lr": LR, "weight_decay": 0.0}
    players: dict[str, Player] = {}
    for name, kind, settings in ROUNDS:
        with bench.attempt(name):
            known = inspect.signature(get_method(kind)).parameters  # cobo takes one step
            own = {key: value for key, value in given.items() if key in known}
            method = get_method(kind)(**own, **settings)
            players[name] = Player(method, tasks, Env(engine, Plane(), 0), modules)
    timed = bench.times(players, "a round", tuple(players), repeats=5, seconds=1.0, whole=True)
    for name, one in timed.items():
        bench.note("rounds", name, ms=one.ms, local_rounds=one.ms / timed["local"].ms)
    for name in timed:
        if bench.late(f"the parts of a round of {name} and what follows"):
            return
        with bench.attempt(f"the parts of a round of {name}"):
            bench.note("parts of a round, in percent", name, **_shares(bench, players[name]))


def _shares(bench: Bench, player: Player) -> dict[str, float]:
    """Return how much of a round, in percent, the CPU is at work for which piece, or waits for the card after one."""
    with _timed_pieces(bench, player.method) as spent:
        bench.wait()
        start = time.perf_counter()
        player()
        bench.wait()
        whole = time.perf_counter() - start
    names = "training", "mixing", "weighing", "waiting"
    return {name: 100 * spent[name] / whole for name in names} | {"rest": 100 * (1 - sum(spent.values()) / whole)}


@contextmanager
def _timed_pieces(bench: Bench, method: Method) -> Iterator[dict[str, float]]:
    """Time a method's pieces while active: until they return, and how long the card is then still at work."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def play(*args: Any) -> Any:
            bench.wait()
            start = time.perf_counter()
            out = call(*args)
            queued = time.perf_counter()
            bench.wait()
            spent[name] += queued - start
            spent["waiting"] += time.perf_counter() - queued
            return out

        return play

    places = [(method.local, "__call__", "training"), (method.exchange, "__call__", "mixing")]
    places += [(method.weigh, "__call__", "weighing"), (method.rewire, "__call__", "weighing")]
    with ExitStack() as stack:
        for piece, name, what in [*places, (method, "_learn", "weighing")]:
            stack.enter_context(mock.patch.object(type(piece), name, timed(what, getattr(type(piece), name))))
        yield spent


def size(bench: Bench) -> None:
    """Measure memory at its peak."""
    with bench.attempt("4-layer CNN, 500 nodes"):
        _many(bench)
    if not bench.late("evaluation"):
        with bench.attempt("evaluation"):
            _evaluation(bench)


def _many(bench: Bench) -> None:
    """Run FedAvg with 500 nodes, which have 120 images of CIFAR-100's shape each, a quarter of them for test."""
    parts = {"train": bench.size(90, 6), "test": bench.size(30, 2)}
    tasks = make_tasks(bench.size(500, 4), (3, 32, 32), "cpu", parts, classes=100)
    model, method = partial(fedavg_cnn, (3, 32, 32), 100), fedavg(epochs=1, batch_size=10, lr=0.005, weight_decay=0.0)
    start = time.perf_counter()
    peak = peak_bytes(lambda: run(method, tasks, model, rounds=2, evaluate_every=2, compute=bench.device), bench.device)
    seconds = time.perf_counter() - start
    bench.note("size", "4-layer CNN, 500 nodes", GB=peak / 1e9, of_PFLlib=peak / PFLLIB_BYTES, seconds=seconds)


def _evaluation(bench: Bench) -> None:
    """Plan, try and evaluate 20 models of 54,514 parameters, each on 5,000 images of its own."""
    parts = {"train": 10, "test": bench.size(5000, 20)}
    tasks = make_tasks(bench.size(20, 3), (3, 32, 32), bench.device, parts)
    modules = build_modules(lambda: CNN((3, 32, 32), 10, hidden=24, padding="same"), 0, torch.device(bench.device))
    specs = [ParamSpec.from_module(modules[0])]
    models, pool = build_graph(tasks, modules, torch.empty(2, 0, dtype=torch.int64)).x, tasks.pools["all"]
    held = sum(values.numel() * values.element_size() for values in (pool.inputs, pool.targets, *models.tensors))

    def judge() -> None:
        score_rows(Engine(tasks, modules, specs), Rows.own(models), "test", as_metric(tasks.metric))

    peak = held + peak_bytes(judge, bench.device)
    bench.note("size", "evaluation", GB=peak / 1e9, held_GB=held / 1e9, of_limit=peak / (1.2 * held + 2**30))


def peers(bench: Bench) -> None:
    """Time an epoch of all nodes and the average; for the loop in a graph, the epoch alone."""
    args = argparse.Namespace(device=bench.device, repeats=bench.size(3, 1), clock="wall")
    mlp, cnn, image = partial(MLP, 784, 100, CLASSES), partial(fedavg_cnn, (1, 28, 28), CLASSES), (1, 28, 28)
    sizes = bench.size(((100, 10), (20, 15)), ((3, 2), (3, 1)))  # nodes and steps
    cases = (("MLP, 100", mlp, (784,), 10), ("CNN, 20", cnn, image, 32))
    for (name, make, shape, batch), (nodes, steps) in zip(cases, sizes, strict=True):
        if bench.late(f"peers, {name} and what follows"):
            return
        tasks = make_tasks(nodes, shape, bench.device, {"train": batch * steps})
        with bench.attempt(f"peers, {name}"):
            for way, times in compare_rounds(make, tasks, batch, args)["times"].items():
                bench.note("peers", name, way, ms=times["median_ms"])
        with bench.attempt(f"peers, {name}, loop in a graph", needed=bench.card):
            inputs, labels = tasks.pools["all"].inputs, tasks.pools["all"].targets
            inputs, labels = (of.view(nodes, steps, batch, *of.shape[1:]) for of in (inputs, labels))
            call = graph_loop([build_modules(make, 0, inputs.device)[0] for _ in inputs], inputs, labels)
            for way, one in bench.times({"loop in a graph": call}, f"peers, {name}", repeats=5, whole=True).items():
                bench.note("peers", name, way, ms=one.ms)
