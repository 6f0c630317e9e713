from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab._base.keyed import keyed_bits, keyed_normal, keyed_order, keyed_seed, keyed_uniform

MASK = 2**64 - 1


def splitmix(value: int) -> int:
    """SplitMix64's finalizer with Python's own integers."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def bits(*keys: int) -> int:
    state, golden = 0, 0x9E3779B97F4A7C15
    for key in keys:
        state = splitmix(((state ^ splitmix((key + golden) & MASK)) + golden) & MASK)
    return state - 2**64 if state >= 2**63 else state


KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4)


@given(KEYS)
def test_bits_are_folded_splitmix(keys):
    assert int(keyed_bits(*keys)) == bits(*keys)


@given(KEYS, st.permutations(range(5)))
def test_bits_do_not_depend_on_position(keys, order):
    nodes = torch.arange(5)
    assert torch.equal(keyed_bits(*keys, nodes)[order], keyed_bits(*keys, nodes[order]))


def test_order_of_keys_matters_and_keys_broadcast():
    assert int(keyed_bits(1, 2)) != int(keyed_bits(2, 1))
    table = keyed_bits(torch.arange(3)[:, None], torch.arange(4))
    assert table.shape == (3, 4)
    assert int(table[2, 1]) == bits(2, 1)
    assert len(table.unique()) == 12


def test_uniform_and_normal_have_their_moments():
    nodes = torch.arange(100_000)
    uniform, normal = keyed_uniform(5, nodes), keyed_normal(5, nodes)
    assert uniform.dtype == normal.dtype == torch.float64
    assert 0 <= uniform.min() < uniform.max() < 1
    assert float(uniform.mean()) == pytest.approx(0.5, abs=4 / (12e5) ** 0.5)
    assert float(uniform.var()) == pytest.approx(1 / 12, rel=0.02)
    assert float(normal.mean()) == pytest.approx(0, abs=4 / 1e5**0.5)
    assert float(normal.var()) == pytest.approx(1, rel=0.02)
    assert float((normal.abs() < 1.96).double().mean()) == pytest.approx(0.95, abs=0.005)


def test_order_is_a_uniform_permutation():
    orders = keyed_order(torch.arange(6000)[:, None], torch.arange(3))
    assert torch.equal(orders.sort().values, torch.arange(3).expand(6000, 3))
    _, counts = orders.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert int(counts.min()) > 850
    assert int(counts.max()) < 1150


@given(KEYS)
def test_seed_suits_generators(keys):
    seed = keyed_seed(*keys)
    assert 0 <= seed < 2**63
    torch.Generator().manual_seed(seed)


def test_global_generator_is_left_alone():
    before = torch.get_rng_state()
    keyed_normal(0, torch.arange(10))
    assert torch.equal(before, torch.get_rng_state())
