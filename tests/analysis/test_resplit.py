from __future__ import annotations

from itertools import chain

import torch

from graphcollab import Tasks
from graphcollab.analysis import resplit
from graphcollab.analysis.resplit import HALVES, halve_tests
from tests.raising import raises


def samples(tasks, node):
    """The samples of a node, by split: inputs are numbers that no two samples share."""
    return {name: sorted(tasks.pools[s.pool].inputs[s.of(node)].flatten().tolist()) for name, s in tasks.splits.items()}


def tasks():
    x = torch.arange(60.0)[:, None]
    y = (x[:, 0] % 3 == 0).long()
    return Tasks.from_samples([(x[:20], y[:20]), (x[20:40], y[20:40])], test=[(x[40:45], y[40:45]), (x[45:], y[45:])])


def test_every_sample_stays_with_its_site():
    """A third of 25 and of 35 samples is for testing, as now of all, and a fifth of the others for validation."""
    before, dealt = tasks(), resplit(tasks(), seed=1)
    for node in (0, 1):
        old, new = (sorted(chain(*samples(some, node).values())) for some in (before, dealt))
        assert old == new
    assert [dealt.sizes(name).tolist() for name in ("train", "val", "test")] == [[14, 18], [3, 5], [8, 12]]


def test_splits_differ_by_seed_and_have_some_of_every_class():
    drawn = [resplit(tasks(), seed) for seed in (1, 2, 1)]
    assert samples(drawn[0], 0) == samples(drawn[2], 0)
    assert samples(drawn[0], 0) != samples(drawn[1], 0)
    for one in drawn:
        for split in one.splits.values():
            for node in (0, 1):
                assert set(one.pools[split.pool].targets[split.of(node)].tolist()) == {0, 1}


def test_shares_can_be_given():
    dealt = resplit(tasks(), test=0.5, val=0.4)
    assert [dealt.sizes(name).tolist() for name in ("train", "val", "test")] == [[8, 10], [5, 7], [12, 18]]


def test_halves_of_test_samples_have_some_of_every_class_and_share_none():
    dealt = resplit(tasks(), test=0.5, val=0.2, seed=3)
    halved = [halve_tests(dealt, seed) for seed in (1, 2, 1)]
    assert [halved[0].sizes(name).tolist() for name in ("test", *HALVES)] == [[12, 18], [6, 9], [6, 9]]
    for node in (0, 1):
        now = samples(halved[0], node)
        assert sorted(now[HALVES[0]] + now[HALVES[1]]) == now["test"]
        assert {name: now[name] for name in dealt.splits} == samples(dealt, node)
        assert samples(halved[2], node) == now != samples(halved[1], node)
        for name in HALVES:
            assert set(halved[0].pools["all"].targets[halved[0].splits[name].of(node)].tolist()) == {0, 1}


def test_samples_that_are_elsewhere_are_not_dealt_anew():
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    tasks = Tasks.from_samples({"a": (x, y), "b": (x, y)}).share(torch.tensor([0]))
    with raises("missing", "tasks", "'b'"):
        resplit(tasks)
    with raises("missing", "tasks", "'b'"):
        tasks.hold_out()


def test_halves_of_test_samples_are_those_of_all_where_some_are_elsewhere():
    x, y = torch.randn(30, 3), torch.arange(30) % 2
    tasks = Tasks.from_samples({"a": (x, y), "b": (x[:17], y[:17])}).hold_out(0.6, into="test")
    whole, share = halve_tests(tasks, 3), halve_tests(tasks.share(torch.tensor([1])), 3)
    for name in HALVES:
        one, other = whole.splits[name], share.splits[name]
        assert torch.equal(one.ptr, other.ptr)
        assert torch.equal(tasks.pools[one.pool].inputs[one.of(1)], share.pools[other.pool].inputs[other.of(1)])
        assert other.elsewhere.tolist() == [True, False]
    assert torch.equal(share.classes, tasks.classes)
