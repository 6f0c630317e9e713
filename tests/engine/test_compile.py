"""Compiled forward passes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Tasks
from graphcollab.engine import Engine, Rows
from graphcollab.stack import ParamSpec, Stacks

TASKS = Tasks.from_samples([(torch.randn(12, 3), torch.randint(2, (12,)))] * 4)


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
