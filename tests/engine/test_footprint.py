"""Evaluation takes rows and samples by the bytes of what a model makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab import Tasks
from graphcollab.engine import Engine, Rows, Stacks, footprint
from graphcollab.engine.stack import ParamSpec

NODES, SIDE = 6, 8


class Largest(TorchDispatchMode):
    """Keeps the bytes of the largest tensor that an operation makes."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor) and not func.is_view:
            self.bytes = max(self.bytes, found.nbytes)
        return found


def convolution() -> nn.Module:
    """Each pixel becomes 16 numbers, twice."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


def across() -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), convolution())


def engine_and_rows(
    module: nn.Module, backend: str, samples: int = 9, nodes: int = NODES, side: int = SIDE
) -> tuple[Engine, Rows]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(nodes * samples, 1, side, side, generator=generator)
    labels = torch.randint(10, (len(inputs),), generator=generator)
    own = [*zip(inputs.split(samples), labels.split(samples), strict=True)]
    tasks = Tasks.from_samples([(x[:5], y[:5]) for x, y in own], test=own, val=own)
    spec = ParamSpec.from_module(module)
    flat = spec.flatten(module) + 0.01 * torch.randn(nodes, spec.num_columns, generator=generator)
    return Engine(tasks, [module], [spec], backend=backend), Rows.own(Stacks.single(spec, flat))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_many_images_within_the_budget(backend):
    engine, rows = engine_and_rows(convolution(), backend, samples=2000, nodes=20, side=28)
    with Largest() as largest:
        losses = engine.loss(rows, "test")
    assert losses.isfinite().all()
    assert 2**24 < largest.bytes <= footprint.ROOM / 2


@pytest.mark.slow
@pytest.mark.parametrize("make", [convolution, across])
@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_small_budgets_change_nothing_but_rounding(backend, make, monkeypatch):
    engine, rows = engine_and_rows(make(), backend)
    expected = engine.loss(rows, "val"), *engine.grad(rows, "val")
    sample = 4 * 16 * SIDE**2  # bytes
    room, limits = 8 * sample, {}
    for name, value in (("usual", footprint.ROOM), ("small", room)):
        monkeypatch.setattr(footprint, "ROOM", value)
        with Largest() as largest:
            found = engine.loss(rows, "val"), *engine.grad(rows, "val")
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        limits[name] = largest.bytes
    whole = 9 * sample  # where samples cannot be parted
    assert limits["small"] <= max(room, whole)
    assert limits["usual"] >= (NODES * whole if backend == "vmap" else whole)


def test_a_sample_takes_the_input_and_output_of_its_largest_operation():
    engine, rows = engine_and_rows(convolution(), "vmap")
    size = engine._footprints.of(engine.tasks, 0, rows, torch.tensor(0), "val", False, False)
    assert size.inputs == 4 * SIDE**2
    assert size.passing == 2 * 4 * 16 * SIDE**2  # of the rectifier
    assert size.outputs == footprint.PER_OUTPUT * 4 * 10
    assert size.samples(rows=NODES) == footprint.ROOM // (NODES * size.passing)


def test_large_outputs_are_kept_of_few_rows(monkeypatch):
    engine, rows = engine_and_rows(nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 500)), "vmap")
    whole = [*engine.predict(rows, "test")]
    monkeypatch.setattr(footprint, "ROOM", 2 * footprint.PER_OUTPUT * 9 * 4 * 500)  # of two rows
    parts = [*engine.predict(rows, "test")]
    assert len(whole) == 1
    assert [len(part.rows) for part in parts] == [2] * 3
    torch.testing.assert_close(torch.cat([part.outputs for part in parts]), whole[0].outputs)


def test_trials_take_large_batches_where_there_is_room(monkeypatch):
    seen = []

    class Seen(nn.Linear):
        def forward(self, inputs):
            seen.append(inputs.shape[-2])
            return super().forward(inputs)

    engine_and_rows(nn.Sequential(nn.Flatten(), Seen(SIDE**2, 500)), "loop")
    assert max(seen) == 300
    seen.clear()
    monkeypatch.setattr("graphcollab.engine.padding.ROOM", 200 * 4 * (SIDE**2 + 500))
    engine_and_rows(nn.Sequential(nn.Flatten(), Seen(SIDE**2, 500)), "loop")
    assert max(seen) == 64
