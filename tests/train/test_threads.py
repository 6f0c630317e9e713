"""Runs in several threads of a process: each is what it is alone."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.methods import dpsgd, meta_l2c
from graphcollab.train import Compute

DRAW = torch.Generator().manual_seed(0)
SAMPLES = [(torch.randn(n, 6, generator=DRAW), torch.randint(3, (n,), generator=DRAW)) for n in (12, 9, 15, 10)]
TASKS = Tasks.from_samples(SAMPLES).hold_out(0.25)


def play_once(method, seed, dropout, backend):
    def model():
        return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Dropout(0.3 if dropout else 0.0), nn.Linear(20, 3))

    return run(method(), TASKS, model, rounds=4, seed=seed, compute=Compute(backend=backend)).data.x.tensors[0]


def at_once(calls):
    """Make calls in threads of their own, beginning together, and return what they return."""
    found, barrier = [None] * len(calls), threading.Barrier(len(calls))

    def work(place):
        barrier.wait()
        found[place] = calls[place]()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 8), marks=pytest.mark.slow)], ids=["one", "more"])
@pytest.mark.parametrize(("dropout", "backend"), [(True, "auto"), (True, "vmap"), (False, "auto")])
def test_two_runs_in_two_threads_are_the_same_runs_one_after_the_other(dropout, backend, seeds):
    for seed in seeds:
        calls = [lambda m=m, seed=seed: play_once(m, seed, dropout, backend) for m in (meta_l2c, dpsgd)]
        alone, together = [call() for call in calls], at_once(calls)
        assert all(map(torch.equal, alone, together))


@pytest.mark.parametrize("dropout", [True, False])
def test_a_run_leaves_the_global_generator_alone(dropout):
    before = torch.get_rng_state()
    play_once(dpsgd, 0, dropout, "auto")
    assert torch.equal(before, torch.get_rng_state())
