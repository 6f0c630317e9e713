"""Memory that a round takes over from the round before, and nobody else's."""

from __future__ import annotations

import gc
import mmap
import resource
import threading

import pytest
import torch

from graphcollab import Tasks, methods, run
from graphcollab._base import memory
from graphcollab._base.memory import LEAST, let_go, new_rows
from graphcollab.methods import dpsgd
from graphcollab.testing import Scene
from tests.methods.quick import early

LIKE = torch.zeros(1)
ROWS = 64, LEAST // 64  # four times the least that is kept


def place(rows: torch.Tensor) -> int:
    return rows.data_ptr()


def test_what_nobody_sees_is_taken_again():
    rows = new_rows(LIKE, *ROWS)
    was = place(rows)
    rows.zero_()
    del rows
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    again = new_rows(LIKE, *ROWS)
    again.fill_(1.0)
    assert place(again) == was
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20  # 4,096 pages were written


def test_what_somebody_sees_is_not():
    rows = new_rows(LIKE, *ROWS)
    view, was = rows[3, 5:9].detach(), place(rows)
    rows.fill_(7.0)
    del rows
    gc.collect()
    others = [new_rows(LIKE, *ROWS).zero_() for _ in range(4)]
    assert was not in map(place, others)
    assert view.tolist() == [7.0] * 4


def test_in_a_graph_of_gradients():
    """What a backward pass will need is not overwritten, though nobody has a name for it."""
    x = new_rows(LIKE, *ROWS).fill_(3.0).requires_grad_()
    y = (x * 1.0).sum() + (x.square()).sum()
    held = x.detach()
    del x
    for _ in range(4):
        new_rows(LIKE, *ROWS).zero_()
    assert held[0, 0] == 3.0
    y.backward()


class Counted(memory._Free):
    """Counts the blocks that are made."""

    made = 0

    def take(self, size: int) -> mmap.mmap:
        self.made += not self.blocks.get(size)
        return super().take(size)


def free() -> int:
    return sum(map(len, memory._FREE.blocks.values()))


def test_a_size_that_is_not_asked_for_takes_no_room():
    other = ROWS[0], 2 * ROWS[1]
    let_go()
    new_rows(LIKE, *ROWS)
    new_rows(LIKE, *other)
    assert free() == 2
    kept = [new_rows(LIKE, *other) for _ in range(memory.TURNS + 2)]
    assert free() == 0
    del kept
    assert free() == memory.KEPT


@pytest.mark.parametrize("name", methods.__all__)
def test_a_round_takes_the_rows_of_rounds_before(name, monkeypatch):
    """Once rounds have had what they need, none makes new ones."""
    counted = Counted()
    method = early(name)
    data, env = Scene.small(embeds=method.embeds).begin(method)
    monkeypatch.setattr(memory, "LEAST", data.x.tensors[0].nbytes // 2)  # of a part, too
    monkeypatch.setattr(memory, "_FREE", counted)
    for _ in range(5):
        data = method.play(data, env)
    counted.made = 0
    for _ in range(3):
        data = method.play(data, env)
    assert counted.made == 0


def test_a_run_leaves_none():
    inputs, targets, node = torch.randn(40, 20_000), torch.arange(40) % 2, torch.arange(40) // 10
    tasks = Tasks.from_arrays(inputs, targets, node)
    run(dpsgd(steps=1), tasks, torch.nn.Sequential(torch.nn.Linear(20_000, 30), torch.nn.Linear(30, 2)), rounds=2)
    assert free() == 0


def test_a_block_may_come_back_while_one_is_taken():
    """As it does where the garbage collector finds it."""
    rows = new_rows(LIKE, *ROWS)
    with memory._FREE.taking:
        del rows


def test_number_types_and_small_tensors():
    rows = new_rows(torch.zeros(1, dtype=torch.bfloat16), 3, LEAST)
    assert rows.dtype == torch.bfloat16
    assert rows.shape == (3, LEAST)
    assert rows.is_contiguous()
    assert new_rows(torch.zeros(2, dtype=torch.float64), 2, 0).shape == (2, 0)
    assert new_rows(torch.zeros(1, device="meta"), *ROWS).device.type == "meta"


def test_threads_take_different_blocks():
    found: list[torch.Tensor] = []

    def take() -> None:
        found.extend(new_rows(LIKE, *ROWS) for _ in range(5))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*map(place, found)}) == 20
