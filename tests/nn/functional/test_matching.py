from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.nn.functional.distances import matching_distances
from tests.raising import raises


def distances_of(*sets):
    return matching_distances(torch.tensor([p for one in sets for p in one]), torch.tensor([len(one) for one in sets]))


def test_hand_case():
    """(0, 0) goes to (0, 1) at 1 and (3, 4) to (3, 4) at 0: √((1 + 0) / 2). The other matching is √((25 + 18) / 2)."""
    apart = distances_of([[0.0, 0.0], [3.0, 4.0]], [[3.0, 4.0], [0.0, 1.0]])
    assert apart[0, 1].item() == pytest.approx(0.5**0.5)
    assert torch.equal(apart, apart.T)


def test_the_best_matching_is_not_the_greedy_one():
    """0 is nearest to 1, which leaves 4 for -3: 1 + 49. Matched crosswise it is 16 + 16."""
    assert distances_of([[0.0], [-3.0]], [[1.0], [4.0]])[0, 1].item() == pytest.approx(16.0**0.5)


def test_a_set_is_near_those_that_contain_it():
    apart = distances_of([[0.0], [5.0]], [[9.0], [5.0], [0.0]], [[7.0]])
    assert apart[0].tolist() == [0.0, 0.0, 2.0]  # of 0 and 5, 5 is nearest to 7
    assert apart[1].tolist() == [0.0, 0.0, 2.0]  # 9 and 5 alike


@st.composite
def sets(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [rng.integers(-4, 5, size=(size, 2)).astype(float) for size in sizes]


@given(sets())
def test_it_is_the_minimum_over_all_matchings(many):
    apart = distances_of(*(one.tolist() for one in many))
    for (i, a), (j, b) in itertools.combinations(enumerate(many), 2):
        few, rest = sorted((a, b), key=len)
        tried = [((few - rest[list(p)]) ** 2).sum() for p in itertools.permutations(range(len(rest)), len(few))]
        assert apart[i, j].item() == pytest.approx((min(tried) / len(few)) ** 0.5)
    assert torch.equal(apart, apart.T)
    assert apart.diagonal().tolist() == [0.0] * len(many)


@given(sets(), st.randoms())
def test_the_order_of_points_does_not_matter(many, random):
    shuffled = [random.sample(one.tolist(), len(one)) for one in many]
    torch.testing.assert_close(
        distances_of(*(one.tolist() for one in many)), distances_of(*shuffled), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("sizes", [[1, 1], [3, 0]])
def test_refusals(sizes):
    with raises("value", "sizes"):
        matching_distances(torch.zeros(3, 1), torch.tensor(sizes))
