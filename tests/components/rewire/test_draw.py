"""Peers are drawn without replacement in proportion to their rates, whether or not candidates are listed."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, strategies as st
from torch_geometric.data import Data

from graphcollab.comm import Relation
from graphcollab.components import Candidates
from graphcollab.components.rewire import draw
from graphcollab.components.rewire.draw import draw_peers
from graphcollab.nn.functional.by_receiver import blocks
from graphcollab.transforms import Complete


def nodes(count, ids=None, isolated=()):
    data = Data(num_nodes=count, node_id=torch.arange(count) if ids is None else torch.tensor(ids))
    data.isolated = torch.zeros(count, dtype=torch.bool)
    data.isolated[list(isolated)] = True
    return data


def allowing(data, edges):
    data.allowed = Relation(torch.tensor(edges), torch.ones(len(edges[0])), (data.num_nodes, data.num_nodes))
    return data


def pairs(edge_index):
    return set(zip(*edge_index.tolist(), strict=True))


@pytest.mark.parametrize("draws", [700, pytest.param(6000, marks=pytest.mark.slow)])
def test_probabilities_of_ordered_pairs_are_those_of_drawing_one_after_the_other(draws):
    candidates = Candidates.of(nodes(7, [5, 3, 9, 1, 0, 22, 7]))
    known, rate, rest = torch.tensor([[1, 2, 3], [0, 0, 0]]), torch.tensor([0.5, 0.2, 0.0]), 0.1
    weight = {1: 0.5, 2: 0.2, 4: 0.1, 5: 0.1, 6: 0.1}  # 3 has rate 0
    drawn = Counter()
    for seed in range(draws):
        edges, share = draw_peers(candidates, torch.tensor([0]), 2, (seed,), known, rate, rest)
        drawn[tuple(edges[0].tolist())] += 1
        assert share.tolist() == pytest.approx([weight[j] for j in edges[0].tolist()])  # the rates sum to 1
    for first, p in weight.items():
        for second, q in weight.items():
            if first != second:
                expected = p * q / (1 - p)
                spread = (expected * (1 - expected) / draws) ** 0.5
                assert abs(drawn[first, second] / draws - expected) < 4.5 * spread
    assert sum(drawn.values()) == draws
    assert not any(3 in pair for pair in drawn)


@given(
    count=st.integers(2, 9),
    samples=st.integers(1, 10),
    seed=st.integers(0, 1000),
    listed=st.booleans(),
    edges=st.sets(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20),
    rest=st.sampled_from([0.0, 1e-6, 1.0]),
)
def test_peers_are_distinct_allowed_and_as_many_as_there_are(count, samples, seed, listed, edges, rest):
    data = nodes(count)
    if listed:
        allowed = [(j, i) for j in range(count) for i in range(count) if (j + i) % 3 and j != i]
        data = allowing(data, [[j for j, _ in allowed], [i for _, i in allowed]])
    else:
        allowed = [(j, i) for j in range(count) for i in range(count) if j != i]
    known = sorted((j, i) for j, i in edges if j < count and i < count)
    index = torch.tensor(known, dtype=torch.int64).view(-1, 2).T
    rate = torch.tensor([0.0 if (j * i) % 2 else 0.3 for j, i in known], dtype=torch.float64)
    drawn, share = draw_peers(Candidates.of(data), torch.arange(count), samples, (seed,), index, rate, rest)
    assert len(pairs(drawn)) == drawn.shape[1]
    assert pairs(drawn) <= set(allowed)
    possible = {p for p in allowed if (rate[known.index(p)] if p in known else rest) > 0}
    for i in range(count):
        assert int((drawn[1] == i).sum()) == min(samples, sum(r == i for _, r in possible))
    assert bool(((share > 0) & (share <= 1)).all())


def test_listing_all_pairs_changes_nothing():
    data = nodes(30, torch.randperm(30, generator=torch.Generator().manual_seed(0)).tolist())
    edges = Complete()(data).edge_index
    known, rate = edges[:, ::7], torch.rand(edges[:, ::7].shape[1], generator=torch.Generator().manual_seed(1))
    one, p = draw_peers(Candidates.of(data), torch.arange(30), 4, (3, 1), known, rate.double(), 0.2)
    data.allowed = Relation(edges, torch.ones(edges.shape[1]), (30, 30))
    two, q = draw_peers(Candidates.of(data), torch.arange(30), 4, (3, 1), known, rate.double(), 0.2)
    assert torch.equal(one, two)
    assert torch.allclose(p, q)


def test_relabeled_nodes_draw_the_same_peers():
    ids = [4, 17, 2, 9, 11, 30, 8]
    order = [3, 0, 6, 1, 5, 2, 4]
    one, _ = draw_peers(Candidates.of(nodes(7, ids)), torch.arange(7), 3, (5,))
    two, _ = draw_peers(Candidates.of(nodes(7, [ids[k] for k in order])), torch.arange(7), 3, (5,))
    named = {(ids[j], ids[i]) for j, i in pairs(one)}
    assert named == {(ids[order[j]], ids[order[i]]) for j, i in pairs(two)}


def test_isolated_nodes_are_not_met():
    drawn, _ = draw_peers(Candidates.of(nodes(5, isolated=[2])), torch.tensor([0, 1]), 4, (0,))
    assert pairs(drawn) == {(1, 0), (3, 0), (4, 0), (0, 1), (3, 1), (4, 1)}


def test_groups_say_who_is_heard():
    group = torch.tensor([0, 0, 1, 1, 1])
    drawn, _ = draw_peers(Candidates.of(nodes(5), group), torch.arange(5), 4, (0,))
    assert pairs(drawn) == {(1, 0), (0, 1), (3, 2), (4, 2), (2, 3), (4, 3), (2, 4), (3, 4)}
    hears = torch.tensor([1, 0, 1, 1, 1])
    drawn, _ = draw_peers(Candidates.of(nodes(5), group, hears), torch.tensor([0]), 4, (0,))
    assert pairs(drawn) == {(2, 0), (3, 0), (4, 0)}


def test_everybody_takes_memory_for_the_peers_drawn_and_not_for_all_pairs():
    count = 200_000  # all pairs would be 4e10 edges
    drawn, _ = draw_peers(Candidates.of(nodes(count)), torch.arange(count), 5, (0,))
    assert drawn.shape == (2, 5 * count)
    assert bool((drawn[0] != drawn[1]).all())


def test_blocks_of_receivers_change_nothing(monkeypatch):
    generator, many = torch.Generator().manual_seed(0), 40
    pair = torch.randperm(many * many, generator=generator)[:500]
    known, rate = torch.stack([pair // many, pair % many]), torch.rand(500, generator=generator)
    candidates, receiver = Candidates.of(nodes(many)), torch.randperm(many, generator=generator)[:30]
    whole = draw_peers(candidates, receiver, 4, (1, 2), known, rate, rest=0.01)
    monkeypatch.setattr(draw, "blocks", lambda work: blocks(work, 50))
    for one, other in zip(whole, draw_peers(candidates, receiver, 4, (1, 2), known, rate, rest=0.01), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-15)
    assert whole[0].shape == (2, 120)
