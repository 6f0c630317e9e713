"""Every method on a real GPU, where there is one: its models are the CPU's, and waits for it do not grow."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from graphcollab import Method, Tasks, methods, run
from graphcollab.components import Fit
from graphcollab.engine import SGD, AdamW, static_steps
from graphcollab.testing import Scene
from graphcollab.train import Compute
from tests.methods.quick import early, quick

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

SIZES = (8, 13, 9, 13, 10, 11)  # batches of 4 leave no single sample, for batch normalization


@pytest.mark.filterwarnings("ignore:.*learned weights are uniform")
@pytest.mark.parametrize("name", methods.__all__)
def test_models_are_those_of_the_cpu(name):
    """Views are left out: they are drawn where the samples are, and a GPU draws other numbers."""
    method = early(name, augment=None)
    scene = Scene.small(sizes=SIZES, embeds=method.embeds)
    settings = {"rounds": 3, "seed": 3, "architecture": scene.architecture}
    there, here = (
        run(method, scene.tasks, scene.modules, **settings, compute=device).data for device in ("cuda", "cpu")
    )
    for one, other in zip(there.x.tensors, here.x.tensors, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_half_precision_is_close_to_full(backend):
    inputs = torch.randn(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    tasks = Tasks.from_arrays(inputs, (inputs.mean((1, 2, 3)) > 0).long(), torch.arange(60) // 20)
    layers = lambda: nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 2))  # noqa: E731
    half, full = (
        run(
            methods.fedavg(lr=0.1), tasks, layers, rounds=2, compute=Compute("cuda", backend, autocast=how)
        ).data.x.tensors[0]
        for how in (True, False)
    )
    assert half.dtype == torch.float32
    assert not torch.equal(half, full)
    torch.testing.assert_close(half, full, rtol=0, atol=0.02)


def syncs_of(method, scene: Scene) -> list[int]:
    """Count in each of three rounds how often PyTorch says that the CPU waits."""
    tasks, modules = scene.tasks.to("cuda"), [copy.deepcopy(module).to("cuda") for module in scene.modules]
    data, env = scene.replace(tasks=tasks, modules=modules).begin(method)
    counts = []
    for _ in range(3):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                data = method.play(data, env)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        counts.append(sum("called a synchronizing" in str(one.message) for one in said))
    return counts


@pytest.mark.parametrize("name", methods.__all__)
def test_waits_do_not_grow(name):
    """As on the pretended device of `test_device`, with nodes, edges, local steps, chunks and candidates."""
    method = quick(name, every=1)
    few = syncs_of(method, Scene.small(sizes=SIZES, embeds=method.embeds))
    more = Scene.small(sizes=SIZES * 2, embeds=method.embeds).replace(chunk=3)
    assert syncs_of(quick(name, every=1, epochs=3, batch_size=3), more) == few


@pytest.mark.parametrize(
    "optimizer",
    [SGD(lr=0.1, weight_decay=0.01), SGD(lr=0.1, momentum=0.9, weight_decay=0.01), AdamW(lr=0.01)],
    ids=["SGD", "momentum", "AdamW"],
)
@pytest.mark.parametrize("sizes", [(8,) * 6, SIZES])
def test_replayed_steps_are_those_that_were_recorded(optimizer, sizes, monkeypatch):
    """Bit for bit: replayed, replayed by another engine, and computed on the same static tensors."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    scene = Scene.small(torch.float32, sizes=sizes)
    tasks, modules = scene.tasks.to("cuda"), [copy.deepcopy(module).to("cuda") for module in scene.modules]
    method = Method("alone", Fit(epochs=2, batch_size=4, optimizer=optimizer, keep_state=True))
    found = []
    for replayed in ({"cuda"}, {"cuda"}, set()):
        monkeypatch.setattr(static_steps, "REPLAYED", replayed)
        data, env = scene.replace(tasks=tasks, modules=modules, backend="vmap").begin(method)
        assert env.engine.plans[0].graphs
        for _ in range(4):  # graphs are recorded in the second
            data = method.play(data, env)
        found.append(data.x.part("all"))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


class Cycle:
    """What only the garbage collector frees."""

    def __init__(self, held):
        self.held, self.own = held, self


def test_freed_graphs_do_not_invalidate_a_recording():
    """In the middle of it there are so many new objects that Python would look for garbage."""
    values = torch.zeros(3, device="cuda")

    def step():
        values.add_(1)
        if torch.cuda.is_current_stream_capturing():
            _ = [[] for _ in range(20_000)]
        values.mul_(2)

    Cycle(static_steps.record(step, [values], None))
    graph = static_steps.record(step, [values], None)
    graph.replay()
    assert values.tolist() == [2.0] * 3
