"""ε-greedy peers: the best so far, now and then somebody else."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, strategies as st
from torch_geometric.data import Data

from graphcollab import Phases, Tasks, run
from graphcollab.comm import Plane, Relation
from graphcollab.components import Env, GreedyPeers, PeerSampler
from graphcollab.components.rewire.sampler import update_affinity
from graphcollab.methods import dac, fomo, local
from graphcollab.models import MLP
from graphcollab.testing import Scene
from tests.raising import raises

ENV = Env(None, Plane(), 0)


def town(count, known=(), ids=1):
    """Return nodes with the affinities {(sender, receiver): value}."""
    mask = torch.ones(count, dtype=torch.bool)
    data = Data(num_nodes=count, node_id=torch.arange(count) * ids, trains=mask, present=mask, isolated=~mask)
    data.x, data.phase_start, data.edge_index = torch.zeros(count, 1), 0, torch.empty(2, 0).long()
    index = torch.tensor(list(known), dtype=torch.int64).reshape(-1, 2).T
    values = torch.tensor([known[pair] for pair in known], dtype=torch.float64)
    data.affinity = Relation(index, values, (count, count))
    return data


def met(data):
    sender, receiver = data.edge_index
    return [sorted(sender[(receiver == i) & (sender != i)].tolist()) for i in range(data.num_nodes)]


def test_the_best_come_first_then_the_unknown_then_the_harmful():
    known = {(1, 0): 0.2, (2, 0): 3.0, (3, 0): -1.0, (4, 0): -0.1}
    for samples, expected in ((1, {2}), (2, {1, 2}), (3, {1, 2, 5}), (4, {1, 2, 4, 5}), (5, {1, 2, 3, 4, 5})):
        data = GreedyPeers(samples, epsilon=0.0).propose(town(6, known), ENV, 0)
        assert set(met(data)[0]) == expected


def test_unknown_peers_are_taken_at_random():
    sampler, seen = GreedyPeers(2, epsilon=0.0), set()
    for round_ in range(20):
        peers = met(sampler.propose(town(6, {(1, 0): 0.5}), ENV, round_))[0]
        assert 1 in peers
        seen |= set(peers)
    assert seen == {1, 2, 3, 4, 5}


def test_how_many_are_random():
    # With ε = .3 the best of 100 peers is met in about 70 rounds of 100 (and by chance in 1 / 99 of the others).
    sampler = GreedyPeers(1, epsilon=0.3, decay=0.0)
    known = {((i + 1) % 100, i): 1.0 for i in range(100)}
    data = town(100, known)
    hits = 0
    for round_ in range(30):
        sender, receiver = sampler.propose(data, ENV, round_).edge_index
        hits += int((sender == (receiver + 1) % 100).sum())
    assert hits / 3000 == pytest.approx(0.703, abs=0.03)


def test_exploration_fades():
    sampler = GreedyPeers(1, epsilon=1.0, decay=0.25)
    data = town(50, {((i + 1) % 50, i): 1.0 for i in range(50)})
    data.phase_start = 2
    shares = []
    for round_ in (2, 4, 6, 9):
        sender, receiver = sampler.propose(data, ENV, round_).edge_index
        shares.append(int((sender == (receiver + 1) % 50).sum()) / 50)
    assert shares[0] < 0.2 < shares[1] < 0.8
    assert shares[2:] == [1, 1]


@given(
    st.integers(2, 8),
    st.dictionaries(st.tuples(st.integers(0, 7), st.integers(0, 7)), st.floats(-2, 2), max_size=20),
    st.floats(0, 1),
    st.integers(0, 5),
)
def test_everybody_meets_as_many_others_as_asked(count, known, epsilon, round_):
    known = {(j, i): v for (j, i), v in known.items() if j != i and j < count and i < count}
    data = town(count, known, ids=3)
    samples = min(3, count - 1)
    peers = met(GreedyPeers(samples, epsilon).propose(data, ENV, round_))
    assert [len(set(many)) for many in peers] == [samples] * count


def test_affinities_add_up():
    edges = torch.tensor([[0, 1, 2, 1, 0], [0, 0, 0, 1, 1]])
    gain = torch.tensor([0.5, 0.1, -0.2, -1.0, float("nan")])
    nothing = Relation(torch.empty(2, 0).long(), torch.empty(0), (3, 3))
    once = update_affinity(nothing, edges, gain)
    assert once.edge_index.tolist() == [[1, 2], [0, 0]]
    assert once.values.tolist() == pytest.approx([0.125, -0.25])  # .1 and -.2 of .8
    twice = update_affinity(once, torch.tensor([[2, 1], [0, 2]]), torch.tensor([3.0, -2.0]))
    known = {(j, i): v for j, i, v in zip(*twice.edge_index.tolist(), twice.values.tolist(), strict=True)}
    assert known == pytest.approx({(1, 0): 0.125, (2, 0): 0.75, (1, 2): -1.0})


def test_gains_that_nearly_cancel_out_do_not_settle_a_nodes_peers():
    """Divided by the absolute value of their sum, .001, they would be 500 and -999."""
    nothing, edges = Relation(torch.empty(2, 0).long(), torch.empty(0), (3, 3)), torch.tensor([[0, 1, 2], [0, 0, 0]])
    gain = torch.tensor([0.5, 0.5, -0.999], dtype=torch.float64)
    once = update_affinity(nothing, edges, gain)
    assert once.values.tolist() == pytest.approx([0.5 / 1.999, -0.999 / 1.999])
    none = update_affinity(once, edges, torch.zeros(3))
    assert torch.equal(none.values, once.values)


@given(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3))
def test_a_round_changes_an_affinity_by_one_at_most(gain):
    nothing, edges = Relation(torch.empty(2, 0).long(), torch.empty(0), (3, 3)), torch.tensor([[0, 1, 2], [0, 0, 0]])
    after = update_affinity(nothing, edges, torch.tensor(gain, dtype=torch.float64)).values
    assert bool((after.abs() <= 1).all())


def test_allowed_edges_bind_and_isolated_nodes_are_left_out():
    scene = Scene.small().replace(edge_index=torch.tensor([[1, 2, 0, 3, 5], [0, 0, 1, 1, 4]]))
    method = fomo(samples=2, epochs=1)
    data, env = scene.begin(method)
    for _ in range(3):
        assert met(data) == [[1, 2], [0, 3], [], [], [5], []]
        data = method.play(data, env)
    data = copy.copy(data)
    data.isolated = data.isolated.index_fill(0, torch.tensor([2]), True)
    assert met(method.rewire.propose(data, env, 5)) == [[1], [0, 3], [], [], [5], []]


def test_a_later_phase_goes_on_with_what_was_learned():
    method = Phases(fomo(samples=2, epochs=1), 2, fomo(samples=2, epochs=1))
    data, env = Scene.small().begin(method)
    sizes = []
    for _ in range(3):
        data = method.play(data, env)
        sizes.append(data.affinity.values.numel())
    assert 0 < sizes[0] <= sizes[1] <= sizes[2]


def test_nodes_find_those_who_have_the_same_task():
    # Inputs alike, labels turned around in the second half: only peers of the own half help.
    draw = torch.Generator().manual_seed(1)
    samples = []
    for k in range(8):
        x = torch.randn(60, 3, generator=draw)
        y = (x[:, 0] > 0).long()
        samples.append((x, y if k < 4 else 1 - y))
    tasks = Tasks.from_samples([(x[:30], y[:30]) for x, y in samples], [(x[30:], y[30:]) for x, y in samples])
    method = fomo(samples=2, epochs=2, lr=0.1)
    result = run(method, tasks, lambda: MLP(3, (8,), 2), rounds=16)  # until all have been tried
    sender, receiver = result.data.affinity.edge_index
    same = (sender < 4) == (receiver < 4)
    value = result.data.affinity.values
    assert bool((value[~same] < 0).all())
    sender, receiver = result.graph().edge_index
    assert len(sender) == 8 * 3  # self-loops too
    assert bool(((sender < 4) == (receiver < 4)).all())  # nobody of the other half is even met any more


@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", -0.1), ("epsilon", float("nan")), ("decay", -1.0), ("samples", 0)]
)
def test_bad_settings(name, value):
    with raises("value", name, value):
        fomo(**{name: value})


def test_gains_are_needed():
    method = dac(samples=2).replace(rewire=GreedyPeers(2))
    data, env = Scene.small().begin(method)
    with raises("missing", "weigh"):
        method.play(data, env)
    assert issubclass(GreedyPeers, PeerSampler)
    assert not local().finds_peers
