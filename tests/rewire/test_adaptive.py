"""What nodes remember, what they believe of what they are told, and the probabilities that follow."""

from __future__ import annotations

import math

import pytest
import torch

from graphcollab.relation import Relation
from graphcollab.rewire.adaptive import _first_of, forget, priors, update_memory

ME, K1, K2, M1, M2 = range(5)


def memory(entries, count=5):
    """Make a memory from (who is known, who knows, similarity, measured)."""
    edges = torch.tensor([[j for j, *_ in entries], [i for _, i, *_ in entries]], dtype=torch.int64).view(2, -1)
    values = torch.tensor([[s, m] for *_, s, m in entries], dtype=torch.float64).view(-1, 2)
    return Relation(edges, values, (count, count))


def known_to(relation, node):
    edges, values = relation.edge_index.tolist(), relation.values.tolist()
    return {j: tuple(v) for j, i, v in zip(*edges, values, strict=True) if i == node}


FIGURE = memory([(M1, K1, 9.0, 1), (M1, K2, 2.0, 1), (M2, K2, 4.0, 1)])  # Fig. 2.2 of the thesis
MET = torch.tensor([[K1, K2], [ME, ME]])
MEASURED = torch.tensor([1.0, 10.0])


def test_figure_2_2():
    after = update_memory(FIGURE, MET, MEASURED, torch.arange(5))
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1), M1: (2, 0), M2: (4, 0)}
    assert known_to(after, K2) == {M1: (2, 1), M2: (4, 1)}


def test_least_similar_informant_as_in_published_code():
    after = update_memory(FIGURE, MET, MEASURED, torch.arange(5), two_step="least_similar")
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1), M1: (9, 0), M2: (4, 0)}


def test_nobody_is_believed_beyond_its_own_similarity():
    after = update_memory(FIGURE, MET, torch.tensor([1.0, 3.0]), torch.arange(5), two_step="bounded")
    assert known_to(after, ME) == {K1: (1, 1), K2: (3, 1), M1: (2, 0), M2: (3, 0)}


def test_nobody_is_believed():
    after = update_memory(FIGURE, MET, MEASURED, torch.arange(5), two_step=None)
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1)}


def test_equally_similar_informants_the_smaller_node_id_is_believed():
    rank = torch.tensor([0, 2, 1, 3, 4])  # K2 has the smaller identity
    after = update_memory(FIGURE, MET, torch.tensor([5.0, 5.0]), rank)
    assert known_to(after, ME)[M1] == (2, 0)


def test_estimates_never_replace_measurements_but_earlier_estimates():
    before = memory([(M1, K2, 2.0, 1), (M2, K2, 4.0, 1), (M1, ME, 7.0, 1), (M2, ME, 6.0, 0)])
    after = update_memory(before, torch.tensor([[K2], [ME]]), torch.tensor([3.0]), torch.arange(5))
    assert known_to(after, ME) == {K2: (3, 1), M1: (7, 1), M2: (4, 0)}


def test_a_new_measurement_replaces_everything():
    before = memory([(K2, ME, 7.0, 1), (K1, ME, 6.0, 0)])
    after = update_memory(before, MET, MEASURED, torch.arange(5))
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1)}


def test_what_was_heard_is_told_on_only_if_asked_for():
    before = memory([(M1, K1, 9.0, 0), (M2, K1, 3.0, 1)])
    met, score = torch.tensor([[K1], [ME]]), torch.tensor([1.0])
    assert known_to(update_memory(before, met, score, torch.arange(5)), ME) == {K1: (1, 1), M2: (3, 0)}
    told = update_memory(before, met, score, torch.arange(5), share="all")
    assert known_to(told, ME) == {K1: (1, 1), M1: (9, 0), M2: (3, 0)}


def test_nobody_is_told_of_itself():
    before = memory([(ME, K1, 9.0, 1)])
    after = update_memory(before, torch.tensor([[K1], [ME]]), torch.tensor([1.0]), torch.arange(5))
    assert known_to(after, ME) == {K1: (1, 1)}


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


def test_the_most_similar_are_remembered():
    known = memory([(1, 0, 3.0, 1), (2, 0, 5.0, 0), (3, 0, 3.0, 1), (4, 0, 1.0, 1), (0, 4, 2.0, 1)])
    kept = forget(known, 2, torch.tensor([0, 4, 1, 3, 2]))  # of 1 and 3, equally similar, 3 has the smaller identity
    assert known_to(kept, 0) == {2: (5, 0), 3: (3, 1)}
    assert known_to(kept, 4) == {0: (2, 1)}


def test_a_table_and_a_sort_choose_the_same():
    draw = torch.Generator().manual_seed(0)
    pair = torch.randint(100, (400,), generator=draw)
    turn = torch.randperm(400, generator=draw)
    by_table = _first_of(pair, turn, 400, 10)
    by_sort = _first_of(pair, turn, 400, 1000)
    assert torch.equal(by_table, by_sort)
    expected = {p: min(t for q, t in zip(pair.tolist(), turn.tolist(), strict=True) if q == p) for p in pair.tolist()}
    assert dict(zip(pair[by_sort].tolist(), turn[by_sort].tolist(), strict=True)) == expected
