"""Local training on a card: the package's ways beside a bare loop over nodes, and beside that loop in a CUDA graph."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from _gpu_bench import Bench, tf32  # type: ignore
from _measure import peak_bytes  # type: ignore
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from graphcollab import Tasks
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import SGD, Engine, LocalSteps, Rows
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from graphcollab.models.classifiers import fedavg_cnn
from graphcollab.models.layers import Residual
from graphcollab.train.start import build_graph, build_modules

LR, CLASSES = 0.01, 10
FEW = 20  # nodes of which a loop is timed, which takes so much longer with more
PRECISIONS = ("fp32", "bf16", "TF32")  # bf16 by autocast
Play = Callable[[], Any]

# How the package trains, as backend and whether steps are graphs: another way is another line here.
WAYS: dict[str, tuple[str, bool]] = {
    "stacked with graphs": ("vmap", True),
    "stacked": ("vmap", False),
    "loop": ("loop", False),
}


def bare_loop(modules: Sequence[nn.Module], inputs: Tensor, labels: Tensor, half: bool = False) -> Play:
    """Return a function that takes all steps of all nodes one after the other, on batches [K, S, B, ...]."""
    optimizers = [torch.optim.SGD(module.parameters(), lr=LR) for module in modules]

    def play() -> None:
        for module, optimizer, x, y in zip(modules, optimizers, inputs, labels, strict=True):
            for own, target in zip(x, y, strict=True):
                optimizer.zero_grad()
                with torch.autocast(own.device.type, torch.bfloat16, enabled=half):
                    outputs = module(own)
                F.cross_entropy(outputs.float(), target).backward()
                optimizer.step()

    return play


def graph_loop(modules: Sequence[nn.Module], inputs: Tensor, labels: Tensor, half: bool = False) -> Play:
    """Return the same with one step of all nodes captured, and replayed with the batches of every step."""
    if inputs.device.type == "cpu":
        raise RuntimeError("a CUDA graph needs a card")
    x, y = inputs[:, 0].clone(), labels[:, 0].clone()
    params = [list(module.parameters()) for module in modules]

    def step() -> None:
        for module, own, samples, targets in zip(modules, params, x, y, strict=True):
            with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):
                outputs = module(samples)
            grads = torch.autograd.grad(F.cross_entropy(outputs.float(), targets), own)
            with torch.no_grad():
                torch._foreach_add_(own, list(grads), alpha=-LR)

    side = torch.cuda.Stream()  # where libraries set up what they must not set up in a capture
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def play(kept: object = params) -> None:  # the graph writes there
        for s in range(inputs.shape[1]):
            x.copy_(inputs[:, s])
            y.copy_(labels[:, s])
            graph.replay()

    return play


LOOPS = {"bare loop": bare_loop, "loop in a graph": graph_loop}


class Case(NamedTuple):
    """A model on so many nodes."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    nodes: int
    batch: int
    steps: int


def resnet8() -> nn.Module:
    """Build a ResNet-8 for CIFAR-10 with group normalization: three stages of one block."""

    def convolution(fan_in: int, fan_out: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
        layer = nn.Conv2d(fan_in, fan_out, kernel, stride, padding=kernel // 2, bias=False)
        return [layer, nn.GroupNorm(8, fan_out)]

    layers = [*convolution(3, 16), nn.ReLU()]
    for fan_in, width in ((16, 16), (16, 32), (32, 64)):
        layers += convolution(fan_in, width, 1, 2) if fan_in != width else []
        layers += [Residual(*convolution(width, width), nn.ReLU(), *convolution(width, width)), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def _cases() -> list[Case]:
    """Return all cases, those that goals are about first."""
    mlp, cnn = partial(MLP, 784, 100, CLASSES), partial(fedavg_cnn, (1, 28, 28), CLASSES)
    found = [Case("MLP, 100", mlp, (784,), 100, 10, 10)]
    found += [Case(f"CNN, {nodes}", cnn, (1, 28, 28), nodes, 32, 10) for nodes in (20, 100, 500)]
    found += [Case(f"MLP, {nodes}", mlp, (784,), nodes, 10, 10) for nodes in (1000, 10, 1)]
    return found + [Case(f"ResNet-8, {nodes}", resnet8, (3, 32, 32), nodes, 32, 4) for nodes in (10, 50)]


CASES = _cases()
TINY = [CASES[n]._replace(nodes=3, batch=4, steps=2) for n in (0, 1, -1)]


def make_tasks(
    nodes: int, shape: tuple[int, ...], device: str, parts: Mapping[str, int], classes: int = CLASSES
) -> Tasks:
    """Give every node random samples, so many for each split."""
    samples = sum(parts.values())
    draw, count = torch.Generator(device).manual_seed(0), nodes * samples
    inputs = torch.randn(count, *shape, generator=draw, device=device)
    targets = torch.randint(classes, (count,), generator=draw, device=device)
    pieces = torch.arange(count).view(nodes, samples).split(list(parts.values()), 1)
    ptr = torch.arange(nodes + 1)
    splits = {name: Split("all", of.flatten(), of.shape[1] * ptr) for name, of in zip(parts, pieces, strict=True)}
    return Tasks({"all": Pool(inputs, targets)}, splits)


def training(bench: Bench) -> None:
    """Time local steps of every case in every precision; then count kernels, which may slow down what comes after."""
    for precision in bench.size(PRECISIONS, PRECISIONS[:2]):
        for case in bench.size(CASES, TINY):
            if bench.late(f"training {case.name} in {precision} and what follows"):
                break
            with bench.attempt(f"{case.name}, {precision}"), tf32(precision == "TF32"):
                _time(bench, case, precision)
            gc.collect()
    for case in bench.size(CASES, ()):
        if bench.late(f"kernels of {case.name} and what follows"):
            return
        for way, (make, times) in _ways(bench, case, False).items():
            with bench.attempt(f"kernels of {case.name}, {way}", needed=False):
                bench.note("kernels", case.name, way, a_step=launches(make()) * times / case.steps)


def _time(bench: Bench, case: Case, precision: str) -> None:
    of, calls, times = f"{case.name}, {precision}", {}, {}
    for way, (make, factor) in _ways(bench, case, precision == "bf16").items():
        with bench.attempt(f"{of}, {way}", needed=way in WAYS):
            calls[way], times[way] = make(), factor
    for way, one in bench.times(calls, of, tuple(WAYS), repeats=9, seconds=0.5, whole=True).items():
        ms, memory = one.ms * times[way], peak_bytes(calls[way], bench.device)
        bench.note("training", case.name, precision, way, ms=ms, step_ms=ms / case.steps, more_MB=memory / 1e6)


def _ways(bench: Bench, case: Case, half: bool) -> dict[str, tuple[Callable[[], Play], float]]:
    """Return by way what makes its call, which takes all steps, and how many times that call's nodes there are."""
    samples, few = case.batch * case.steps, min(case.nodes, FEW)
    tasks = make_tasks(case.nodes, case.shape, bench.device, {"train": samples})
    module, pool = build_modules(case.make, 0, torch.device(bench.device))[0], tasks.pools["all"]
    batches = pool.inputs[: few * samples].view(few, case.steps, case.batch, *case.shape)
    labels = pool.targets[: few * samples].view(few, case.steps, case.batch)
    ways: dict[str, tuple[Callable[[], Play], float]] = {}
    for way, how in WAYS.items():
        count = few if how[0] == "loop" else case.nodes
        ways[way] = partial(_fit, tasks, module, case, count, half, *how), case.nodes / count
    for way, loop in LOOPS.items():
        ways[way] = partial(_loop, loop, module, batches, labels, half), case.nodes / few
    return ways


def _loop(loop: Callable[..., Play], module: nn.Module, batches: Tensor, labels: Tensor, half: bool) -> Play:
    return loop([copy.deepcopy(module) for _ in batches], batches, labels, half)


def _fit(tasks: Tasks, module: nn.Module, case: Case, count: int, half: bool, backend: str, graphs: bool) -> Play:
    """Return a call that trains the models of the first nodes by an engine."""
    specs = [ParamSpec.from_module(module)]
    engine = Engine(tasks, [module], specs, backend=backend, autocast=half)
    if engine.plans[0].graphs != graphs:
        engine = Engine(tasks, [module], specs, plans=[replace(engine.plans[0], graphs=graphs)])
    models = build_graph(tasks, [module], torch.empty(2, 0, dtype=torch.int64)).x
    steps = LocalSteps(steps=case.steps, batch_size=case.batch, optimizer=SGD(lr=LR, weight_decay=0.0))
    return partial(engine.fit, Rows.own(models, torch.arange(count)), steps, seed=0, round_=0)


def launches(call: Play, activity: ProfilerActivity = ProfilerActivity.CUDA) -> int:
    """Return how many kernels a call launches, replayed ones too."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[activity]) as seen:
        call()
        torch.cuda.synchronize()
    return sum(one.device_type == DeviceType.CUDA and not one.name.startswith("Mem") for one in seen.events())
