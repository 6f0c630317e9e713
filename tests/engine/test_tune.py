"""Timing candidates, and compiled forward passes."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.engine import Engine, Rows, tune
from graphcollab.methods import local
from graphcollab.stack import ParamSpec, Stacks
from tests.raising import raises

TASKS = Tasks.from_samples([(torch.randn(12, 3), torch.randint(2, (12,)))] * 4)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(1, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x[..., None])[0][:, -1]


def plans_of(module: nn.Module):
    spec = ParamSpec.from_module(module)
    return tune(TASKS, [module], [spec], Stacks.single(spec, spec.flatten(module).expand(4, -1)), repeats=1)


def test_the_fastest_candidate_is_taken(monkeypatch):
    times = {("vmap", 4): 3.0, ("loop", 4): 1.0}
    timing = sys.modules["graphcollab.engine.tune"]  # by this name: `graphcollab.local` is also a method
    monkeypatch.setattr(timing, "_once", lambda engine, *_: times[engine.plans[0].backend, engine.plans[0].chunk])
    (plan,) = plans_of(nn.Linear(3, 2))
    assert (plan.backend, plan.chunk) == ("loop", 4)
    assert plan.reason == "fastest of 2: 500.00 ms a step of stack 0"


def test_chunks_without_room_are_no_candidates(monkeypatch):
    timing = sys.modules["graphcollab.engine.tune"]

    def once(engine, *_):
        if engine.plans[0].backend == "vmap":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 1.0

    monkeypatch.setattr(timing, "_once", once)
    (plan,) = plans_of(nn.Linear(3, 2))
    assert plan.backend == "loop"
    monkeypatch.setattr(timing, "_once", lambda *_: torch.empty(10**15))
    with raises("resource", "batch_size", kind=MemoryError):
        plans_of(nn.Linear(3, 2))


def test_what_has_no_stacked_form_is_not_timed_stacked():
    (plan,) = plans_of(Recurrent())
    assert plan.backend == "loop"


def test_a_tuned_run_gives_the_same_models_and_a_resumed_one_repeats_the_choice(tmp_path):
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    plain = run(local(), TASKS, module, rounds=2)
    tuned = run(local(), TASKS, module, rounds=2, tuned=True, checkpoint=tmp_path)
    assert "fastest of" in tuned.env.engine.plans[0].reason
    torch.testing.assert_close(tuned.data.x.part("all"), plain.data.x.part("all"))
    again = run(local(), TASKS, module, rounds=3, tuned=True, checkpoint=tmp_path)
    assert again.env.engine.plans == tuned.env.engine.plans


def test_a_tuned_run_of_a_model_that_must_not_be_padded():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2))
    (plan,) = plans_of(module)
    assert plan.padding == "never"
    assert run(local(), TASKS, module, rounds=1, tuned=True).env.engine.plans[0].padding == "never"


def test_tuned_refuses_a_choice_made_already():
    with raises("conflict", "tuned"):
        run(local(), TASKS, nn.Linear(3, 2), rounds=1, tuned=True, backend="loop")


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile's own doing
def test_compiled_forward_passes_are_used_and_agree(monkeypatch):
    compiled = torch.compile
    calls = []

    def compile_eagerly(function):
        calls.append(function)
        return compiled(function, backend="eager")

    monkeypatch.setattr(torch, "compile", compile_eagerly)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    spec = ParamSpec.from_module(module)
    rows = Rows.own(Stacks.single(spec, spec.flatten(module).expand(4, -1)))
    plain = Engine(TASKS, [module], [spec]).grad(rows, "train")
    fast = Engine(TASKS, [module], [spec], compile=True).grad(rows, "train")
    assert len(calls) == 1
    torch.testing.assert_close(fast, plain)
