from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.components import ClippedMean
from tests.raising import raises


def clip(values, **settings):
    """Combine numbers, the own one first."""
    values = torch.tensor(values, dtype=torch.float64)
    direction, alpha = ClippedMean(**settings)(values[None, :1], values[None, 1:, None], [1])
    return float(direction), alpha[0].tolist()


def step_by_step(own, others, tau, quantile, iterations):
    """The procedure as the paper writes it, on the vectors."""
    every, v = torch.cat([own[None], others]), own
    for _ in range(iterations):
        distance = (every - v).norm(dim=1)
        limit = distance.sort().values[min(int(len(every) * quantile), len(every) - 1)] if tau is None else tau
        v = torch.stack([g if d <= limit * (1 + 1e-9) else v for g, d in zip(every, distance, strict=True)]).mean(0)
    return v


def test_hand_case():
    direction, alpha = clip([1.0, 1.1, 5.0], tau=0.5, iterations=1)
    assert direction == pytest.approx(1.0333, abs=1e-4)
    assert alpha == pytest.approx([2 / 3, 1 / 3, 0.0])
    direction, alpha = clip([1.0, 1.1, 5.0], tau=0.5, iterations=60)
    assert direction == pytest.approx(1.05)
    assert alpha == pytest.approx([0.5, 0.5, 0.0])


def test_ends_of_tau():
    assert clip([1.0, 1.1, 5.0], tau=0.0) == (1.0, [1.0, 0.0, 0.0])
    assert clip([1.0, 4.0, 7.0], tau=math.inf)[0] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("quantile", "heard"), [(0.0, 1), (0.24, 1), (0.25, 2), (0.49, 2), (0.5, 3), (0.75, 4), (1, 4)]
)
def test_rank_of_the_quantile(quantile, heard):
    """Of n = 4 gradients, ⌊4 q⌋ + 1 lie within the threshold, but no more than there are."""
    _, alpha = clip([0.0, 1.0, 3.0, 7.0], quantile=quantile, iterations=1)
    assert sum(a > 0 for a in alpha) == heard


def test_size_of_the_clusters_as_a_quantile():
    """Clusters of c among n nodes are found by (c - ½) / n, of every size."""
    draw = torch.Generator().manual_seed(0)
    for n in range(2, 41):
        for c in range(1, n + 1):
            noise = torch.rand(n, generator=draw, dtype=torch.float64)
            values = torch.where(torch.arange(n) < c, 0.0, 100.0) + noise
            _, alpha = clip(values.tolist(), quantile=(c - 0.5) / n, iterations=1)
            assert [a > 0 for a in alpha] == [True] * c + [False] * (n - c)


vectors = st.lists(st.tuples(*[st.floats(-5, 5)] * 3), min_size=2, max_size=7)


@given(vectors, st.sampled_from([None, 0.0, 0.7, 3.0]), st.sampled_from([0.1, 0.34, 0.6]), st.integers(1, 12))
def test_inner_products_are_enough(values, tau, quantile, iterations):
    """Against the procedure on the vectors themselves; noise keeps distances from being equal."""
    noise = torch.randn(len(values), 3, generator=torch.Generator().manual_seed(len(values)), dtype=torch.float64)
    every = torch.tensor(values, dtype=torch.float64) + noise
    combine = ClippedMean(tau, quantile, iterations)
    direction, alpha = combine(every[None, 0], every[None, 1:], [3])
    expected = step_by_step(every[0], every[1:], tau, quantile, iterations)
    torch.testing.assert_close(direction[0], expected, rtol=1e-8, atol=1e-8)
    assert float(alpha.sum()) == pytest.approx(1.0)
    assert float(alpha.min()) >= 0


def test_equal_distances_count_alike():
    """Three neighbors in the corners of a triangle around the own gradient: all are near or none is."""
    angle = torch.arange(3) * 2 * torch.pi / 3
    others = 0.1 + torch.stack([angle.cos(), angle.sin()], 1)
    own = torch.full((1, 2), 0.1)
    _, alpha = ClippedMean(quantile=0.3, iterations=1)(own, others[None], [2])
    assert alpha[0].tolist() == pytest.approx([0.25] * 4)


def test_nearly_equal_gradients_in_single_precision():
    """Neighbors that differ from the own gradient by its seventh digit are told apart."""
    own = torch.full((1, 500), 1.0)
    others = own[:, None] * torch.tensor([1 + 2.0**-20, 1 - 2.0**-22])[None, :, None]
    _, alpha = ClippedMean(quantile=0.5, iterations=1)(own, others, [500])
    assert alpha[0].tolist() == pytest.approx([2 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"tau": -1.0}, ("value", "tau", "1.0")),
        ({"tau": math.nan}, ("value", "tau")),
        ({"quantile": 1.5}, ("value", "quantile", "1.5")),
        ({"iterations": 0}, ("value", "iterations")),
        ({"iterations": 2.5}, ("value", "iterations", "2.5")),
    ],
)
def test_refusals(settings, error):
    with raises(*error):
        ClippedMean(**settings)
