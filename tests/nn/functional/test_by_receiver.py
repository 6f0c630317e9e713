"""The order of edges by receiver and keys, whatever way it is found, and blocks of nodes with equal work."""

from __future__ import annotations

import pytest
import torch

from graphcollab.nn.functional.by_receiver import among_first, blocks, by_receiver, turns


@pytest.mark.parametrize("crowd", [0, 400], ids=["alike", "one has far more than others"])
def test_order_is_that_of_sorting_tuples(crowd):
    draw = torch.Generator().manual_seed(crowd)
    receiver = torch.cat([torch.randint(50, (300,), generator=draw), torch.full((crowd,), 7)])
    receiver = receiver[torch.randperm(len(receiver), generator=draw)]
    first = torch.randint(3, receiver.shape, generator=draw).double()
    first[first == 2] = torch.inf
    second = torch.randint(4, receiver.shape, generator=draw)
    second[second == 3] = torch.iinfo(torch.int64).max
    keys = [*zip(receiver.tolist(), first.tolist(), second.tolist(), range(len(receiver)), strict=True)]
    assert by_receiver(receiver, first, second).tolist() == [key[-1] for key in sorted(keys)]
    assert by_receiver(receiver).tolist() == receiver.argsort(stable=True).tolist()


@pytest.mark.parametrize("crowd", [0, 400], ids=["alike", "one has far more than others"])
@pytest.mark.parametrize("count", [1, 4, 1000])
@pytest.mark.parametrize("kind", ["numbers", "whole", "with NaN", "two keys"])
def test_those_among_the_first_are_those_of_sorting(crowd, count, kind):
    """Many keys are equal, the largest ones and those of no number among them; the first of equal ones count."""
    draw = torch.Generator().manual_seed(crowd)
    receiver = torch.cat([torch.randint(50, (300,), generator=draw), torch.full((crowd,), 7)])
    receiver = receiver[torch.randperm(len(receiver), generator=draw)]
    key = torch.randint(5, receiver.shape, generator=draw)
    if kind != "whole":
        key = key.double().masked_fill(key == 4, torch.inf)
    if kind == "with NaN":
        key[torch.rand(len(key), generator=draw) < 0.2] = torch.nan
    keys = [key, torch.randint(3, receiver.shape, generator=draw)][: 1 + (kind == "two keys")]
    order = by_receiver(receiver, *keys)
    expected = torch.zeros(len(receiver), dtype=torch.bool)
    expected[order[turns(receiver[order], 50) < count]] = True
    assert torch.equal(among_first(receiver, count, *keys), expected)


def test_what_is_no_number_comes_last():
    receiver, key = torch.tensor([0, 0, 1, 0]), torch.tensor([torch.nan, torch.inf, 2.0, 1.0])
    assert by_receiver(receiver, key, key).tolist() == [3, 1, 0, 2]


def test_without_edges_there_is_no_order():
    nothing = torch.empty(0, dtype=torch.int64)
    assert by_receiver(nothing, nothing).tolist() == []
    assert among_first(nothing, 3, nothing).tolist() == []


def test_blocks_by_hand():
    assert blocks(torch.tensor([2, 0, 3, 4, 4, 0, 1]), most=5) == [0, 3, 4, 7]
    assert blocks(torch.tensor([9, 9]), most=5) == [0, 1, 2]
    assert blocks(torch.tensor([1, 1]), most=5) == [0, 2]
