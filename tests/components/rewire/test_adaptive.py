"""The probabilities that follow from what nodes remember."""

from __future__ import annotations

import math

import pytest

from graphcollab.components import AdaptivePeers
from graphcollab.components.rewire.adaptive import priors
from graphcollab.methods import dac
from graphcollab.testing import Scene
from tests.components.rewire.test_dac_memory import K1, K2, M1, M2, ME, memory


def test_priors_by_hand():
    relation = memory([(M1, ME, 2.0, 0), (M2, ME, 4.0, 0), (K1, ME, 1.0, 1), (K2, ME, 10.0, 1)])
    weights = [math.exp(s) for s in (2, 4, 1, 10)]
    assert priors(relation, 1.0)[0].tolist() == pytest.approx([w / sum(weights) for w in weights])
    scaled, _ = priors(relation, 5.0, "minmax")
    assert scaled.tolist() == pytest.approx([0.0111, 0.0338, 0.0064, 0.9486], abs=5e-5)
    _, zero = priors(relation, 1.0)
    assert zero.tolist() == pytest.approx([1 / sum(weights), 0, 0, 0, 0])


@pytest.mark.parametrize("tau", [30.0, 1e6, 1e300])
def test_no_tau_overflows(tau):
    relation = memory([(1, 0, 33.0, 1), (2, 0, 1e12, 1), (3, 0, -5.0, 1)])  # the inverse of a small loss, and others
    p, zero = priors(relation, tau)
    assert p.tolist() == [0, 1, 0]
    assert bool(zero.isfinite().all())


def test_negative_similarities_keep_their_order():
    p, _ = priors(memory([(1, 0, -0.5, 1), (2, 0, -0.1, 1)]), 10.0)
    assert p.tolist() == pytest.approx([1 / (1 + math.exp(4)), 1 / (1 + math.exp(-4))])


def test_equal_similarities_scaled_are_equally_likely():
    assert priors(memory([(1, 0, 3.0, 1), (2, 0, 3.0, 1)]), 10.0, "minmax")[0].tolist() == [0.5, 0.5]


def test_the_temperature_grows_from_the_first_round_in_which_something_is_known(monkeypatch):
    """Before round 0 nothing is known; with what was measured in it, peers are drawn by τ_0 = 1."""
    found, temperature = [], AdaptivePeers.temperature
    monkeypatch.setattr(AdaptivePeers, "temperature", lambda self, t: found.append(temperature(self, t)) or found[-1])
    Scene.small().play(dac(samples=2, tau=30.0, growth=0.2), rounds=3)
    assert found == pytest.approx([1.0, 1.0, 3.99, 6.921], abs=1e-3)
