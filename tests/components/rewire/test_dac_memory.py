"""What nodes remember of others, tell of them, and believe of what they are told."""

from __future__ import annotations

import pytest
import torch

from graphcollab.comm import Relation
from graphcollab.components.rewire import dac_memory
from graphcollab.components.rewire.dac_memory import _first_of, shared_entries, update_memory
from graphcollab.nn.functional.by_receiver import blocks

ME, K1, K2, M1, M2 = range(5)


def memory(entries, count=5):
    """Make a memory from (who is known, who knows, similarity, measured)."""
    edges = torch.tensor([[j for j, *_ in entries], [i for _, i, *_ in entries]], dtype=torch.int64).view(2, -1)
    values = torch.tensor([[s, m] for *_, s, m in entries], dtype=torch.float64).view(-1, 2)
    return Relation(edges, values, (count, count))


def known_to(relation, node):
    edges, values = relation.edge_index.tolist(), relation.values.tolist()
    return {j: tuple(v) for j, i, v in zip(*edges, values, strict=True) if i == node}


def update(before, edge_index, score, rank, share="measured", tells=None, **settings):
    return update_memory(before, shared_entries(before, share, tells), edge_index, score, rank, **settings)


FIGURE = memory([(M1, K1, 9.0, 1), (M1, K2, 2.0, 1), (M2, K2, 4.0, 1)])  # Fig. 2.2 of the thesis
MET = torch.tensor([[K1, K2], [ME, ME]])
MEASURED = torch.tensor([1.0, 10.0])


def test_figure_2_2():
    after = update(FIGURE, MET, MEASURED, torch.arange(5))
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1), M1: (2, 0), M2: (4, 0)}
    assert known_to(after, K2) == {M1: (2, 1), M2: (4, 1)}


def test_least_similar_informant_as_in_published_code():
    after = update(FIGURE, MET, MEASURED, torch.arange(5), two_step="least_similar")
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1), M1: (9, 0), M2: (4, 0)}


def test_nobody_is_believed_beyond_its_own_similarity():
    after = update(FIGURE, MET, torch.tensor([1.0, 3.0]), torch.arange(5), two_step="bounded")
    assert known_to(after, ME) == {K1: (1, 1), K2: (3, 1), M1: (2, 0), M2: (3, 0)}


def test_nobody_is_believed():
    after = update(FIGURE, MET, MEASURED, torch.arange(5), two_step=None)
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1)}


def test_equally_similar_informants_the_smaller_node_id_is_believed():
    rank = torch.tensor([0, 2, 1, 3, 4])  # K2 has the smaller identity
    after = update(FIGURE, MET, torch.tensor([5.0, 5.0]), rank)
    assert known_to(after, ME)[M1] == (2, 0)


def test_estimates_never_replace_measurements_but_earlier_estimates():
    before = memory([(M1, K2, 2.0, 1), (M2, K2, 4.0, 1), (M1, ME, 7.0, 1), (M2, ME, 6.0, 0)])
    after = update(before, torch.tensor([[K2], [ME]]), torch.tensor([3.0]), torch.arange(5))
    assert known_to(after, ME) == {K2: (3, 1), M1: (7, 1), M2: (4, 0)}


def test_a_new_measurement_replaces_everything():
    before = memory([(K2, ME, 7.0, 1), (K1, ME, 6.0, 0)])
    after = update(before, MET, MEASURED, torch.arange(5))
    assert known_to(after, ME) == {K1: (1, 1), K2: (10, 1)}


def test_what_was_heard_is_told_on_only_if_asked_for():
    before = memory([(M1, K1, 9.0, 0), (M2, K1, 3.0, 1)])
    met, score = torch.tensor([[K1], [ME]]), torch.tensor([1.0])
    assert known_to(update(before, met, score, torch.arange(5)), ME) == {K1: (1, 1), M2: (3, 0)}
    told = update(before, met, score, torch.arange(5), share="all")
    assert known_to(told, ME) == {K1: (1, 1), M1: (9, 0), M2: (3, 0)}


def test_nobody_is_told_of_itself():
    before = memory([(ME, K1, 9.0, 1)])
    after = update(before, torch.tensor([[K1], [ME]]), torch.tensor([1.0]), torch.arange(5))
    assert known_to(after, ME) == {K1: (1, 1)}


def test_of_what_is_told_the_most_similar_are_remembered():
    entries = [(1, 0, 3.0, 0), (2, 0, 5.0, 0), (3, 0, 3.0, 0), (4, 0, 1.0, 0), (5, 0, 0.5, 2), (0, 4, 2.0, 1)]
    nobody = torch.empty(2, 0, dtype=torch.int64), torch.empty(0)
    rank = torch.tensor([0, 4, 1, 3, 2, 5])  # of 1 and 3, equally similar, 3 has the smaller identity
    kept = update(memory(entries, 6), *nobody, rank, limit=2)
    assert known_to(kept, 0) == {2: (5, 0), 3: (3, 0), 5: (0.5, 2)}  # what was measured stays, however unlike
    assert known_to(kept, 4) == {0: (2, 1)}


def test_those_measured_last_are_told_of():
    before = memory([(M1, K1, 9.0, 3), (M2, K1, 4.0, 2), (K2, K1, 5.0, 0), (ME, K1, 1.0, 2)])
    met, score = torch.tensor([[K1], [ME]]), torch.tensor([1.0])

    def hears(**settings):
        return known_to(update(before, met, score, torch.arange(5), now=5, **settings), ME)

    assert hears(tells=1) == {K1: (1, 5), M1: (9, 0)}
    assert hears(tells=2) == {K1: (1, 5), M1: (9, 0), M2: (4, 0)}  # more similar than ME, of the same round
    assert hears(tells=3) == hears(tells=None) == hears(tells=2)
    assert hears(tells=3, share="all") == hears(tells=2)
    assert hears(tells=4, share="all") == {K1: (1, 5), M1: (9, 0), M2: (4, 0), K2: (5, 0)}


def by_dictionaries(before, met, score, rank, two_step, share, limit, tells, now):
    """The memory after a round, one receiver and one entry after the other."""
    many, after = before.size[0], {}
    known = {i: known_to(before, i) for i in range(many)}

    def tells_of(j):
        of = [third for third, (_, when) in known[j].items() if when or share == "all"]
        return sorted(of, key=lambda third: (-known[j][third][1], -known[j][third][0], rank[third]))[:tells]

    for i in range(many):
        mine, trusted = dict(known[i]), {}
        measured = {j: s for (j, k), s in zip(met.T.tolist(), score.tolist(), strict=True) if k == i}
        informants = sorted(
            measured, key=lambda j: (-measured[j] if two_step != "least_similar" else measured[j], rank[j])
        )
        for j in informants if two_step else []:
            for third in tells_of(j):
                if third != i and third not in trusted:
                    s = known[j][third][0]
                    trusted[third] = min(s, measured[j]) if two_step == "bounded" else s
        for third, s in trusted.items():
            if mine.get(third, (0, 0))[1] == 0:
                mine[third] = (s, 0)
        mine.update({j: (s, now) for j, s in measured.items()})
        told = sorted((j for j in mine if mine[j][1] == 0), key=lambda j: (-mine[j][0], rank[j]))
        for j in told[limit:]:
            del mine[j]
        after[i] = mine
    return after


@pytest.mark.parametrize("two_step", ["most_similar", "least_similar", "bounded", None])
@pytest.mark.parametrize("share", ["measured", "all"])
def test_memories_are_those_of_dictionaries(two_step, share, monkeypatch):
    """In one block of receivers and in many."""
    draw, many = torch.Generator().manual_seed(0), 30

    def pairs(count):
        pair = torch.randperm(many * many, generator=draw)[:count]
        edges = torch.stack([pair // many, pair % many])
        return edges[:, edges[0] != edges[1]]

    known, met = pairs(300), pairs(90)
    values = torch.stack([torch.randint(9, known[:1].shape[1:], generator=draw), torch.arange(known.shape[1]) % 4], 1)
    score, rank = torch.randint(9, (met.shape[1],), generator=draw).double(), torch.randperm(many, generator=draw)
    order = (known[1] * many + rank[known[0]]).argsort()
    before = Relation(known[:, order], values[order].double(), (many, many))
    expected = by_dictionaries(before, met, score, rank.tolist(), two_step, share, 4, 5, 4)
    assert sum(map(len, expected.values())) > 200
    for most in (2**21, 20):
        monkeypatch.setattr(dac_memory, "blocks", lambda work, most=most: blocks(work, most))
        after = update(before, met, score, rank, share, 5, two_step=two_step, limit=4, now=4)
        assert {i: known_to(after, i) for i in range(many)} == expected


def test_a_table_and_a_sort_choose_the_same():
    draw = torch.Generator().manual_seed(0)
    pair = torch.randint(100, (400,), generator=draw)
    turn = torch.randperm(400, generator=draw)
    by_table = _first_of(pair, turn, 400, 100)
    by_sort = _first_of(pair, turn, 400, 1000**2)
    assert torch.equal(by_table, by_sort)
    expected = {p: min(t for q, t in zip(pair.tolist(), turn.tolist(), strict=True) if q == p) for p in pair.tolist()}
    assert dict(zip(pair[by_sort].tolist(), turn[by_sort].tolist(), strict=True)) == expected
