"""The number of threads: by what is computed, and each thread's own."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab._base.threads import same_threads
from graphcollab.engine.plan import Plan
from graphcollab.methods import local
from graphcollab.train import Callback, Compute
from graphcollab.train.prepare import LARGE, choose_threads
from tests.raising import raises

TASKS = Tasks.from_samples([(torch.ones(4, 3), torch.tensor([0, 1, 0, 1]))] * 2)


@pytest.fixture(autouse=True)
def _two_threads():
    """Two, whatever the suite runs with; the machine may have but one core."""
    now = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(now)


class Seen(Callback):
    threads = 0

    def on_round(self, data, history):
        self.threads = torch.get_num_threads()


@pytest.mark.parametrize(
    ("modules", "backends", "count"),
    [
        ([nn.Linear(64, 32)], ["vmap"], 1),
        ([nn.Linear(1, LARGE, bias=False)], ["vmap"], 2),
        ([nn.Linear(1, LARGE - 1, bias=False)], ["vmap"], 1),
        ([nn.Linear(1, LARGE, bias=False)], ["loop"], 1),
        ([nn.LSTM(4, 4)], ["loop"], 1),
        ([nn.Sequential(nn.Conv2d(1, 2, 3))], ["loop"], 2),
        ([nn.Sequential(nn.Conv2d(1, 2, 3))], ["vmap"], 2),
        ([nn.Linear(2, 2), nn.Conv1d(1, 2, 3)], ["vmap", "loop"], 2),
    ],
)
def test_threads_by_what_is_computed(modules, backends, count):
    assert choose_threads(modules, [Plan(backend, 1, "") for backend in backends]) == count


@pytest.mark.parametrize(("wanted", "seen"), [(None, 1), (2, 2), (1, 1)])
def test_a_run_takes_what_suits_or_what_is_asked_for_and_restores_the_callers(wanted, seen, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    watch = Seen()
    run(local(), TASKS, nn.Linear(3, 2), rounds=1, compute=Compute(num_threads=wanted), callbacks=[watch])
    assert watch.threads == seen
    assert torch.get_num_threads() == 2


def test_a_resumed_run_cannot_be_asked_for_another_number(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    module = nn.Linear(3, 2)
    run(local(), TASKS, module, rounds=1, compute=Compute(num_threads=2), checkpoint=tmp_path)
    with raises("conflict", "num_threads", "2", "1"):
        run(local(), TASKS, module, rounds=2, compute=Compute(num_threads=1), checkpoint=tmp_path)
    watch = Seen()
    run(local(), TASKS, module, rounds=2, checkpoint=tmp_path, callbacks=[watch])
    assert watch.threads == 2


@pytest.mark.parametrize("wrong", [0, 1.5, "2"])
def test_nonsense_is_refused(wrong):
    with raises("value", "num_threads", "1"):
        run(local(), TASKS, nn.Linear(3, 2), rounds=1, compute=Compute(num_threads=wrong))


def test_the_number_holds_in_its_own_thread_only():
    inside, leave, found = threading.Event(), threading.Event(), {}

    def neighbor():
        with same_threads(1):
            found["neighbor"] = torch.get_num_threads()
            inside.set()
            leave.wait()
            found["neighbor later"] = torch.get_num_threads()
        found["neighbor after"] = torch.get_num_threads()

    thread = threading.Thread(target=neighbor)
    thread.start()
    inside.wait()
    begun = threading.Thread(target=lambda: found.update(begun=torch.get_num_threads()))
    begun.start(), begun.join()
    found["here"] = torch.get_num_threads()
    torch.set_num_threads(2)
    leave.set()
    thread.join()
    assert found == {"neighbor": 1, "neighbor later": 1, "neighbor after": 2, "begun": 2, "here": 2}


def test_sums_of_a_neighbor_with_another_number_do_not_change():
    """A product over many columns is summed in another order by two threads than by one."""
    a = torch.randn(8, 50000, generator=torch.Generator().manual_seed(0))
    expected = {}
    for count in (1, 2):
        with same_threads(count):
            expected[count] = a @ a.T
    wrong, barrier = [], threading.Barrier(2)

    def work(count):
        barrier.wait()
        for _ in range(20):
            with same_threads(count):
                wrong.extend(count for _ in range(5) if not torch.equal(a @ a.T, expected[count]))

    threads = [threading.Thread(target=work, args=(count,)) for count in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
