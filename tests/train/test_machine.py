"""What a machine fails in, a disk or memory, decides no comparison: `compare` and `benefit` end by it."""

from __future__ import annotations

import errno
import os
import signal

import pytest
import torch
from torch import nn

from graphcollab import Tasks, benefit, compare
from graphcollab.comm.meeting import ProcessLostError
from graphcollab.methods import local
from graphcollab.persistence import saver
from graphcollab.sites import SiteLostError
from graphcollab.train import Callback, Compute
from tests.raising import raises
from tests.sites.in_threads import meet, small

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")
GRID = {"local": {"lr": [0.001, 0.3]}}


def make_tasks(seed: int) -> Tasks:
    x = torch.randn(3, 20, 3, generator=torch.Generator().manual_seed(seed))
    nodes = [(one, (one[:, 0] > 0).long()) for one in x]
    return Tasks.from_samples(nodes, test=nodes, seed=seed)


def compare_local(seeds=(0, 1), **settings):
    return compare({"local": local}, make_tasks, lambda: nn.Linear(3, 2), seeds, GRID, rounds=2, **settings)


class Fails(Callback):
    """Fails as the models of one step size are trained, the second of the grid."""

    def __init__(self, error, run: int = 2) -> None:
        self.error, self.run, self.runs = error, run, 0

    def on_start(self, data, history, rounds) -> None:
        self.runs += 1
        if self.runs == self.run:
            raise self.error


def refused() -> Exception:
    """The error of PyTorch where the system gives no memory."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [NO_SPACE, MemoryError("Unable to allocate 7 PiB"), torch.OutOfMemoryError("CUDA out of memory"), refused()],
    ids=lambda error: type(error).__name__,
)
def test_a_machine_that_fails_ends_a_comparison(error) -> None:
    with pytest.raises(type(error), match=r"No space|allocate|memory") as caught:
        compare_local(callbacks=[Fails(error)])
    assert caught.value.__notes__[-1] == "in the trial of method 'local' with {'lr': 0.3} on seed 0"


def test_a_disk_that_is_full_while_a_trial_is_saved(tmp_path, monkeypatch) -> None:
    write = saver.write_checkpoint

    def full(folder, *given):
        if "local-1" in str(folder):
            raise NO_SPACE
        write(folder, *given)

    monkeypatch.setattr(saver, "write_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        compare_local(checkpoint=tmp_path)
    monkeypatch.setattr(saver, "write_checkpoint", write)
    assert [one.per_node for one in compare_local(checkpoint=tmp_path).trials] == [
        one.per_node for one in compare_local().trials
    ]


@pytest.mark.slow
def test_a_machine_that_fails_in_another_process() -> None:
    with pytest.raises(OSError, match="No space left"):
        compare_local(callbacks=[Fails(NO_SPACE)], n_jobs=2)


class Killed(Callback):
    """Is ended as the system ends what takes too much memory."""

    def on_start(self, data, history, rounds) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.slow
def test_a_process_that_the_system_ends() -> None:
    with raises("lost", "n_jobs", "2", kind=ProcessLostError):
        compare_local(callbacks=[Killed()], n_jobs=2)


class Full(nn.Linear):
    """Finds no memory."""

    def forward(self, x):
        if self.training:
            raise MemoryError("no memory")
        return super().forward(x)


def test_a_machine_that_fails_ends_benefit() -> None:
    with pytest.raises(MemoryError, match="no memory"):
        benefit(make_tasks, lambda: Full(3, 2), methods={}, repeats=3, rounds=1, compute=Compute(backend="loop"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_disk_of_one_site_counts_against_no_setting(tmp_path, monkeypatch) -> None:
    """The others play the round without it, and there is no other trial, since each begins with all sites."""
    write = saver.write_checkpoint

    def full(folder, *given):
        if "va/local-1" in str(folder):
            raise NO_SPACE
        write(folder, *given)

    monkeypatch.setattr(saver, "write_checkpoint", full)
    settings = {"seeds": (0, 1), "grids": GRID, "rounds": 2}
    found = meet(lambda here: here.compare({"local": local}, small, checkpoint=tmp_path / here.name, **settings))
    assert isinstance(found.pop("va"), OSError)
    assert [type(error) for error in found.values()] == [SiteLostError] * 3
