"""Who owns which node, and what tasks hold of the others."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Tasks
from graphcollab.comm import is_main_process
from graphcollab.comm.launch import deal, launched, meet
from graphcollab.components.state import LOOP, join_rows, split_rows, with_rows
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.testing import Scene
from graphcollab.train.fingerprint import digests
from tests.raising import raises


@pytest.mark.parametrize(
    ("work", "processes", "expected"),
    [
        ([1, 1, 1, 1, 1, 1], 2, [0, 0, 0, 1, 1, 1]),
        ([1, 1, 1, 1, 1, 1], 3, [0, 0, 1, 1, 2, 2]),
        ([9, 1, 1, 1], 2, [0, 1, 1, 1]),  # one node is more than half of the work
        ([1, 1, 1, 9], 2, [0, 0, 0, 1]),
        ([100, 1, 1], 3, [0, 1, 2]),  # each process needs a node
        ([1, 1, 100], 3, [0, 1, 2]),
        ([0, 0, 0], 2, [0, 0, 1]),
    ],
)
def test_shares_are_contiguous_balanced_and_never_empty(work, processes, expected):
    assert deal(torch.tensor(work, dtype=torch.float64), processes).tolist() == expected


def test_fewer_nodes_than_processes_are_refused():
    with raises("too-many", "processes", "4", "3"):
        deal(torch.ones(3), 4)


def test_a_process_alone_owns_all_and_speaks():
    assert not launched()
    assert is_main_process()
    assert meet(["a", "b"], lambda: torch.ones(2)).own(2).tolist() == [0, 1]
    with raises("conflict", "placement"):
        meet(["a", "b"], lambda: torch.ones(2), [0, 1])


def test_tasks_hold_the_samples_of_some_nodes_and_the_numbers_of_all():
    tasks = Scene.small().tasks
    own = torch.tensor([1, 4])
    share = tasks.share(own)
    whole, kept = tasks.splits["train"], share.splits["train"]
    assert torch.equal(kept.sizes, whole.sizes)
    assert torch.equal(share.classes, tasks.classes)
    assert kept.elsewhere.tolist() == [True, False, True, True, False, True]
    for node in own.tolist():
        mine = share.pools["train"].inputs[kept.of(node)]
        assert torch.equal(mine, tasks.pools["train"].inputs[whole.of(node)])
    assert len(share.pools["train"]) == sum(int(split.sizes[own].sum()) for split in tasks.splits.values())
    with pytest.raises(IndexError):
        share.pools["train"].inputs[kept.of(0)]
    for values in ("inputs", "targets"):
        one, other = (digests(t.splits["train"], getattr(t.pools["train"], values)) for t in (tasks, share))
        assert torch.equal(one[own], other[own])
        assert other[[0, 2, 3, 5]].tolist() == [0, 0, 0, 0]
        assert len(one.unique()) == 6


def test_a_checksum_of_samples_depends_on_their_order_and_every_bit():
    tasks = Scene.small().tasks
    split, inputs = tasks.splits["train"], tasks.pools["train"].inputs
    before = digests(split, inputs)
    pair = split.of(2)[:2]
    swapped, changed = inputs.clone(), inputs.clone()
    swapped[pair] = inputs[pair.flip(0)]
    changed[pair[0], 0] = torch.nextafter(inputs[pair[0], 0], torch.tensor(9.0, dtype=inputs.dtype))
    for other in (swapped, changed):
        assert (digests(split, other) != before).nonzero().flatten().tolist() == [2]


def test_rows_are_put_apart_and_together():
    spec = ParamSpec.from_module(torch.nn.Linear(1, 1))
    rows = torch.arange(8.0).view(4, 2)
    x = Stacks((spec,), (rows,), (torch.arange(4),))
    state = {"x": x, "round": 3, "good": {"w": rows}, "best": {"value": 1.0, "state": {"x": x, "round": 1}}}
    alike, apart = split_rows(state, LOOP)
    assert alike == {"round": 3, "best": {"value": 1.0, "state": {"round": 1}}}
    assert apart.keys() == {"x", "good", "best"}

    def part(nodes):
        held = x.held(nodes)
        return {"x": held, "good": {"w": rows[nodes]}, "best": {"state": {"x": held}}}

    shares = [torch.tensor([0, 3]), torch.tensor([1, 2])]
    found = with_rows(alike, join_rows([(nodes, part(nodes)) for nodes in shares]))
    assert found["x"].nodes.tolist() == [0, 1, 2, 3]
    assert torch.equal(found["x"].tensors[0], rows)
    assert torch.equal(found["good"]["w"], rows)
    assert torch.equal(found["best"]["state"]["x"].tensors[0], rows)
    assert found["best"]["state"]["round"] == 1


def test_a_share_keeps_which_samples_belong_together():
    x, site = torch.arange(12.0)[:, None], ["a"] * 5 + ["b"] * 7
    group = ["p", "q", "p", "r", "q", "p", "p", "q", "q", "r", "r", "q"]
    tasks = Tasks.from_arrays(x, x[:, 0], site, group=group, loss="mse", metric="mse", val_fraction=0)
    pool = tasks.share(torch.tensor([1])).pools["samples"]
    assert pool.inputs[:, 0].tolist() == [5, 6, 7, 8, 9, 10, 11]
    assert pool.group.tolist() == [0, 0, 1, 1, 2, 2, 1]
