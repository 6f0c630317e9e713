"""A run that has used up the memory names the settings to lower, wherever that was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Method, Tasks, run
from graphcollab.methods import dpsgd
from graphcollab.train import Callback, Compute

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")


class Full(nn.Linear):
    """Has no memory in a mode, once a run has begun."""

    training_fails: bool | None = None

    def forward(self, x):
        if self.training is Full.training_fails:
            raise FULL
        return super().forward(x)


class Begin(Callback):
    def __init__(self, training: bool) -> None:
        self.training = training

    def on_start(self, data, history, rounds) -> None:
        Full.training_fails = self.training

    def on_end(self, data, history) -> None:
        Full.training_fails = None


def go(method: Method, **settings):
    x = torch.randn(3, 20, 3, generator=torch.Generator().manual_seed(0))
    tasks = Tasks.from_samples([(one, (one[:, 0] > 0).long()) for one in x], val_fraction=0.2)
    return run(method, tasks, lambda: Full(3, 2), rounds=2, **settings)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_in_training_and_in_evaluation(training, backend):
    with pytest.raises(torch.OutOfMemoryError) as caught:
        go(dpsgd(), compute=Compute(backend=backend, chunk=2, microbatch=5), callbacks=[Begin(training)])
    said = str(caught.value)
    assert said.startswith(
        "memory is used up (CUDA out of memory. Tried to allocate 9 GiB): lower chunk (now 2 rows at"
    )
    assert "or microbatch (now 5 samples of a batch at a time)" in said
    assert caught.value.__cause__ is FULL


@pytest.mark.parametrize("slot", ["exchange", "weigh"])
def test_in_mixing_and_weighing(slot, monkeypatch):
    method = dpsgd()

    def fails(self, *given, **named):
        raise FULL

    monkeypatch.setattr(type(getattr(method, slot)), "__call__", fails)
    with pytest.raises(torch.OutOfMemoryError, match=r"lower chunk .*, or microbatch \(now all samples") as caught:
        go(method)
    assert caught.value.__cause__ is FULL


def test_of_the_cpu():
    class Refused(Callback):
        def on_round(self, data, history) -> None:
            torch.empty(10**15)

    with pytest.raises(RuntimeError, match=r"memory is used up .*can't allocate memory.*: lower chunk"):
        go(dpsgd(), callbacks=[Refused()])


def test_other_errors_stay_as_they_are():
    class Wrong(Callback):
        def on_round(self, data, history) -> None:
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match=r"^something else$"):
        go(dpsgd(), callbacks=[Wrong()])
