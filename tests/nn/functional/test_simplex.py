from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from graphcollab.nn.functional.projections import project_simplex
from tests.raising import raises

NUMBERS = st.floats(-50, 50, allow_subnormal=False, width=32)


def require_close(one, other):
    torch.testing.assert_close(one, torch.as_tensor(other, dtype=one.dtype), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, 0.8, -0.1], [0.35, 0.65, 0.0]),  # CoBo's hand case
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([2.0, 2.0], [0.5, 0.5]),
        ([-7.0], [1.0]),
        ([1e30, 0.0], [1.0, 0.0]),
        ([-1e30, 0.0], [0.0, 1.0]),
    ],
)
def test_by_hand(values, expected):
    require_close(project_simplex(torch.tensor(values, dtype=torch.float64)), expected)


def test_groups_do_not_disturb_each_other():
    values = torch.tensor([0.5, -1e30, 0.8, 4.0, -0.1], dtype=torch.float64)
    require_close(project_simplex(values, torch.tensor([2, 0, 2, 0, 2]), 4), [0.35, 0.0, 0.65, 1.0, 0.0])


def test_nothing_to_project():
    assert project_simplex(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 3).shape == (0,)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_must_be_finite(bad):
    with raises("not-finite", "values"):
        project_simplex(torch.tensor([0.0, bad]))


@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_it_is_the_nearest_point(values):
    v = torch.tensor(values, dtype=torch.float64)
    w = project_simplex(v)
    assert bool((w >= 0).all())
    assert abs(float(w.sum()) - 1) < 1e-12
    # Optimality: no point of the simplex lies in the direction v - w, so its corners do not.
    slope = v - w
    assert float(slope.max()) <= float((slope * w).sum()) + 1e-9
    require_close(project_simplex(w), w)
    require_close(project_simplex(v + 3.0), w)


@given(st.lists(st.tuples(st.integers(0, 4), NUMBERS), min_size=1, max_size=20))
def test_groups_equal_one_by_one(entries):
    group, values = torch.tensor([g for g, _ in entries]), torch.tensor([v for _, v in entries], dtype=torch.float64)
    together = project_simplex(values, group, 6)
    for g in group.unique():
        require_close(together[group == g], project_simplex(values[group == g]))


def test_a_general_solver_agrees():
    v = np.array([0.3, -0.2, 0.9, 0.4])
    found = minimize(
        lambda w: ((w - v) ** 2).sum(),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14},
    ).x
    torch.testing.assert_close(project_simplex(torch.tensor(v)), torch.tensor(found), rtol=0, atol=1e-6)


def test_other_totals():
    values = torch.tensor([0.5, 0.8, -0.1, 3.0, 5.0], dtype=torch.float64)
    total = torch.tensor([0.5, 0.0, 2.0], dtype=torch.float64)
    # (.5, .8, -.1) to a sum of .5: θ = .4 for two entries, (.1, .4, 0)
    require_close(project_simplex(values, torch.tensor([0, 0, 0, 1, 2]), 3, total), [0.1, 0.4, 0.0, 0.0, 2.0])


@pytest.mark.parametrize("bad", [-1.0, float("nan")])
def test_totals_must_be_numbers_that_are_not_negative(bad):
    with raises("range", "total"):
        project_simplex(torch.zeros(2), torch.tensor([0, 1]), 2, torch.tensor([1.0, bad]))


def test_groups_do_not_change_each_others_last_digits():
    """Sums of the groups in front must not show in the rounding of those behind."""
    draw = torch.Generator().manual_seed(0)
    group = torch.arange(40).repeat_interleave(7)
    values = torch.randn(280, generator=draw, dtype=torch.float64)
    other = values.clone()
    other[:140] = torch.randn(140, generator=draw, dtype=torch.float64)
    assert torch.equal(project_simplex(values, group)[140:], project_simplex(other, group)[140:])
    one_by_one = torch.cat([project_simplex(values[group == g]) for g in range(40)])
    assert torch.equal(project_simplex(values, group), one_by_one)
