from __future__ import annotations

import pytest
import torch

from graphcollab.data.samples import Pool, Split
from tests.raising import raises


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (torch.zeros(3, 1), torch.zeros(2), ("mismatch", "inputs")),
        (torch.tensor([[0.0], [float("nan")], [float("inf")]]), torch.zeros(3),
         ("not-finite", "inputs", "sample")),
        (torch.zeros(2, 1), torch.tensor([0.0, float("-inf")]), ("not-finite", "targets", "sample 1")),
    ],
)  # fmt: skip
def test_pool_refuses(inputs, targets, message):
    with raises(*message):
        Pool(inputs, targets)


def test_large_but_finite_values_are_fine():
    assert len(Pool(torch.full((4, 1), 3e38), torch.zeros(4))) == 4  # their sum overflows


def test_split():
    split = Split.from_lists("p", [torch.tensor([4, 5]), torch.tensor([]), torch.tensor([7, 1, 2])])
    assert split.num_nodes == 3
    assert split.sizes.tolist() == [2, 0, 3]
    assert split.of(2).tolist() == [7, 1, 2]
    chosen = split.select(torch.tensor([2, 0]))
    assert [chosen.of(k).tolist() for k in range(2)] == [[7, 1, 2], [4, 5]]
    place = torch.tensor([[0, 1, 2], [0, 1, 2]])
    assert split.gather(torch.tensor([0, 2]), place).tolist() == [[4, 5, 5], [7, 1, 2]]


def test_gather_when_the_last_nodes_have_no_samples():
    split = Split.from_lists("p", [torch.tensor([4, 5]), torch.tensor([]), torch.tensor([])])
    assert split.gather(torch.tensor([0, 2]), torch.tensor([[0, 1], [0, 1]]))[0].tolist() == [4, 5]
