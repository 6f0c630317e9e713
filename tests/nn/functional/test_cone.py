from __future__ import annotations

from itertools import chain, combinations

import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from graphcollab.nn.functional.projections import bundle_gram, cone_coefficients
from tests.pretend import DEVICE, Accelerator


def there(gram, margin=0.0):
    """The coefficients as they are found on a device, which nobody waits for."""
    with Accelerator() as device:
        gram = gram.to(DEVICE)
        device.waits.clear()
        found = cone_coefficients(gram, margin)
        assert not device.waits
        return found.cpu()


def project(g, m, margin=0.0, solve=cone_coefficients):
    """Return the coefficients [m] and g + Σ u m [P] for one vector and some others."""
    g, m = (torch.as_tensor(t, dtype=torch.float64) for t in (g, m))
    u = solve(bundle_gram(g[None], m[None]), margin)[0]
    return u, g + u @ m


def brute_force(g, m, margin=0.0):
    """The shortest g + Σ u m over all ways to hold some of the u at the margin and solve for the others."""
    best = None
    everything = range(len(m))
    for free in chain.from_iterable(combinations(everything, size) for size in range(len(m) + 1)):
        held = g + margin * m[[j for j in everything if j not in free]].sum(0)
        u = torch.full((len(m),), margin, dtype=torch.float64)
        if free:
            chosen = m[list(free)]
            u[list(free)] = torch.linalg.pinv(chosen.T) @ -held
        if bool((u >= margin - 1e-9).all()):
            found = g + u @ m
            best = found if best is None or found.norm() < best.norm() else best
    return best


def test_hand_case():
    """⟨g, m⟩ = -.25 and ‖m‖² = .3125, so u = .25 / .3125."""
    u, found = project([0.5, 0.0], [[-0.5, 0.25]])
    assert u.tolist() == pytest.approx([0.8])
    assert found.tolist() == pytest.approx([0.1, 0.2])


@given(npst.arrays("int64", (2, 3), elements=st.integers(-4, 4)))
def test_one_vector_has_a_closed_form(vectors):
    g, m = torch.from_numpy(vectors).double()
    square = float(m @ m)
    expected = max(0.0, -float(g @ m) / square) if square else 0.0
    assert project(g, m[None])[0].tolist() == pytest.approx([expected], abs=1e-9)


SOLVERS = [pytest.param(cone_coefficients, id="cpu"), pytest.param(there, id="device")]
shapes = st.tuples(st.integers(2, 5), st.integers(1, 4))


@given(npst.arrays("int64", shapes, elements=st.integers(-3, 3)), st.sampled_from([0.0, 0.5]))
@pytest.mark.parametrize("solve", SOLVERS)
def test_it_is_the_shortest_and_goes_against_nobody(solve, vectors, margin):
    """Whole numbers, so that vectors are often parallel, opposite, dependent, zero or equal."""
    vectors = torch.from_numpy(vectors).double()
    g, m = vectors[0], vectors[1:]
    u, found = project(g, m, margin, solve)
    assert bool((u >= margin).all())
    torch.testing.assert_close(found, brute_force(g, m, margin), rtol=0, atol=1e-6)
    if margin == 0:
        assert bool((m @ found >= -1e-6).all())
        assert float(found @ found) == pytest.approx(float(found @ g), abs=1e-6)  # so its own gradient agrees too


@given(
    npst.arrays("float64", (9, 6), elements=st.floats(-1, 1).map(lambda value: round(value, 3))),
    npst.arrays("int64", 8, elements=st.integers(-30, 30)),
)
def test_lengths_of_the_others_do_not_matter(vectors, powers):
    vectors = torch.from_numpy(vectors)
    g, m = vectors[0], vectors[1:]
    _, plain = project(g, m)
    _, scaled = project(g, m * 10.0 ** torch.from_numpy(powers)[:, None].double())
    torch.testing.assert_close(plain, scaled, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solve", SOLVERS)
def test_bundles_are_solved_by_themselves(solve):
    draw = torch.Generator().manual_seed(1)
    own, others = (torch.randn(*size, generator=draw, dtype=torch.float64) for size in ((20, 7), (20, 5, 7)))
    together = solve(bundle_gram(own, others))
    for r in range(20):
        torch.testing.assert_close(together[r], project(own[r], others[r])[0])
    order = torch.randperm(5, generator=draw)
    torch.testing.assert_close(solve(bundle_gram(own, others[:, order])), together[:, order])


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-5, 1e-7, 0.0])
def test_all_bundles_are_done_on_a_device(apart):
    """Many vectors, every other one nearly the opposite of one before: there are many steps, and digits are lost."""
    draw = torch.Generator().manual_seed(2)
    vectors = torch.randn(40, 16, 20, generator=draw, dtype=torch.float64)
    vectors[:, 1::2] = -vectors[:, ::2] + apart * torch.randn(40, 8, 20, generator=draw, dtype=torch.float64)
    gram = bundle_gram(vectors[:, 0], vectors[:, 1:])
    one, other = (torch.cat([torch.ones(40, 1).double(), solve(gram)], 1) for solve in (cone_coefficients, there))
    assert bool((other >= 0).all())
    lengths = [torch.linalg.vector_norm(torch.einsum("ra,rap->rp", u, vectors), dim=1) for u in (one, other)]
    assert bool((lengths[1] <= lengths[0] + 1e-6).all())


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_bundle_that_is_not_finite_changes_no_other(solve):
    gram = torch.tensor([[[0.25, -0.25], [-0.25, 0.3125]]] * 3, dtype=torch.float64)
    gram[1, 1, 1], gram[2, 0, 1] = torch.inf, torch.nan
    assert solve(gram).tolist() == [[pytest.approx(0.8)], [0.0], [0.0]]


@pytest.mark.parametrize("solve", SOLVERS)
def test_nothing_to_project(solve):
    assert project([0.0, 0.0], [[1.0, 0.0], [-1.0, 0.0]], 0.0, solve)[0].tolist() == [0.0, 0.0]
    assert project([1.0, 0.0], [[1.0, 1.0], [0.0, 0.0]], 0.0, solve)[0].tolist() == [0.0, 0.0]
    assert solve(torch.ones(3, 1, 1)).shape == (3, 0)
    u, found = project([1.0, 0.0], [[-1.0, 0.0]], 1.0, solve)
    assert u.tolist() == [1.0]
    assert found.tolist() == [0.0, 0.0]
