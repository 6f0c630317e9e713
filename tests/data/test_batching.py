from __future__ import annotations

import torch
from hypothesis import given, strategies as st

from graphcollab.data.schedule import local_steps, make_schedule

COUNTS = st.lists(st.integers(1, 13), min_size=1, max_size=5)


@given(COUNTS, st.integers(1, 6), st.integers(1, 3), st.integers(0, 9))
def test_every_pass_meets_every_sample_once(counts, batch, epochs, round_):
    sizes = torch.tensor(counts)
    schedule = make_schedule(sizes, torch.arange(len(counts)), 0, round_, batch, epochs)
    assert torch.equal(schedule.steps, local_steps(sizes, batch, epochs))
    assert len(schedule) == int(schedule.steps.max())
    for row, count in enumerate(counts):
        per_pass = -(-count // batch)
        for epoch in range(epochs):
            met = []
            for step in range(epoch * per_pass, (epoch + 1) * per_pass):
                met += schedule.position[row, step, : int(schedule.size[row, step])].tolist()
            assert sorted(met) == list(range(count))
        lengths = schedule.size[row, : int(schedule.steps[row])].tolist()
        assert lengths == ([batch] * (count // batch) + [count % batch] * (count % batch > 0)) * epochs
        assert not schedule.size[row, int(schedule.steps[row]) :].any()


@given(COUNTS, st.integers(1, 6), st.integers(1, 20))
def test_a_number_of_steps_in_place_of_passes(counts, batch, steps):
    sizes = torch.tensor(counts)
    schedule = make_schedule(sizes, torch.arange(len(counts)), 0, 0, batch, steps=steps)
    assert schedule.steps.tolist() == [steps] * len(counts)
    for row, count in enumerate(counts):
        met, passes = [], 0
        for step in range(steps):
            met += schedule.position[row, step, : int(schedule.size[row, step])].tolist()
            if len(met) == count:
                assert sorted(met) == list(range(count))
                met, passes = [], passes + 1
        assert len(set(met)) == len(met)


@given(st.permutations(range(4)), st.integers(1, 4))
def test_batches_do_not_depend_on_the_other_rows(order, some):
    sizes, ids = torch.tensor([5, 9, 3, 7]), torch.tensor([10, 11, 12, 13])
    whole = make_schedule(sizes, ids, 1, 2, 4, 3)
    rows = torch.tensor(order[:some])
    part = make_schedule(sizes[rows], ids[rows], 1, 2, 4, 3)
    for position, row in enumerate(rows.tolist()):
        for step in range(int(whole.steps[row])):
            size = int(whole.size[row, step])
            assert part.size[position, step] == size
            assert torch.equal(part.position[position, step, :size], whole.position[row, step, :size])


def test_seed_node_round_and_pass_each_shuffle_anew():
    def order(seed=0, node=0, round_=0):
        return make_schedule(torch.tensor([30]), torch.tensor([node]), seed, round_, 30, 2).position[0]

    base = order()
    assert torch.equal(base, order())
    for other in (order(seed=1)[0], order(node=1)[0], order(round_=1)[0], base[1]):
        assert not torch.equal(base[0], other)


def test_few_steps_meet_the_samples_that_a_whole_pass_meets_first():
    counts, ids = torch.tensor([100, 64, 90]), torch.tensor([4, 7, 2])
    whole = make_schedule(counts, ids, 3, 5, 8, epochs=1).position
    few = make_schedule(counts, ids, 3, 5, 8, steps=2).position
    assert torch.equal(few, whole[:, :2])
