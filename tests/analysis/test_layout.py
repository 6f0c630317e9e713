from __future__ import annotations

import pytest
import torch

from graphcollab.analysis.layout import Layout


def groups(layout):
    """The sites of every group, in order."""
    return [layout.site[layout.group == g].tolist() for g in range(int(layout.group.max()) + 1)]


def test_three_sites_by_hand():
    layout = Layout.of(3)
    alone, together, pairs, without = [[0], [1], [2]], [[0, 1, 2]], [[0, 1], [0, 2], [1, 2]], [[1, 2], [0, 2], [0, 1]]
    assert groups(layout) == [*alone, *together, *pairs, *without]
    assert (layout.alone.tolist(), layout.together.tolist()) == ([0, 1, 2], [3, 4, 5])
    assert layout.pairs.tolist() == [[-1, 6, 8], [7, -1, 10], [9, 11, -1]]
    assert layout.without.tolist() == [[-1, 14, 16], [12, -1, 17], [13, 15, -1]]
    sites, models = layout.outside()
    assert sites.tolist() == [0, 1, 2]
    assert [k not in groups(layout)[layout.group[m]] for k, m in enumerate(models.tolist())] == [True] * 3
    edges = {tuple(edge) for edge in layout.edge_index.T.tolist()}
    every = {(a, b) for a in range(18) for b in range(18) if a != b and layout.group[a] == layout.group[b]}
    assert edges == every


def test_of_two_sites_none_is_left_out():
    layout = Layout.of(2)
    assert groups(layout) == [[0], [1], [0, 1], [0, 1]]
    assert not (layout.without >= 0).any()
    assert len(layout.outside()[0]) == 0


@pytest.mark.parametrize(("count", "limit"), [(9, 6), (42, 30), (31, 30)])
def test_of_many_sites_some_pairs_are_drawn(count, limit):
    layout = Layout.of(count, limit, seed=3)
    tried = layout.pairs >= 0
    assert torch.equal(tried, tried.T)
    partners = tried.sum(1)
    assert int(partners.max()) - int(partners.min()) <= 1
    assert 0.5 * limit * (limit - 1) <= int(tried.sum()) <= limit * (limit - 1)
    left = (layout.without >= 0).any(0)
    assert int(left.sum()) == limit
    assert ((layout.without >= 0).sum(0)[left] == count - 1).all()
    for i, j in tried.nonzero().tolist():
        node, other = int(layout.pairs[i, j]), int(layout.pairs[j, i])
        assert (int(layout.site[node]), int(layout.site[other])) == (i, j)
        assert layout.group[node] == layout.group[other]
    assert not torch.equal(Layout.of(count, limit, seed=4).pairs >= 0, tried)
