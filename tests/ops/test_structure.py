from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from graphcollab.ops import Structure


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20))
def test_rows_list_what_receivers_hear(pairs):
    edges = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T
    structure = Structure.from_edges(edges, (6, 4))
    heard = [structure.sender[structure.ptr[i] : structure.ptr[i + 1]].tolist() for i in range(4)]
    assert heard == [sorted(j for j, i in pairs if i == receiver) for receiver in range(4)]
    values = torch.arange(len(pairs))
    assert torch.equal(structure.unsort(structure.sort(values)), values)
    assert structure.receiver.tolist() == sorted(i for _, i in pairs)
    dense = torch.zeros(4, 6)
    for j, i in pairs:
        dense[i, j] += 1
    assert torch.equal(structure.adjacency(torch.ones(len(pairs))).to_dense(), dense)
    back = structure.transposed
    assert torch.equal(back.adjacency(torch.ones(len(pairs))).to_dense(), dense.T)
    weight = torch.arange(len(pairs)).float()
    assert torch.equal(
        back.adjacency(back.sort(structure.sort(weight))).to_dense(),
        structure.adjacency(structure.sort(weight)).to_dense().T,
    )


def test_sorted_edges_are_not_sorted_again():
    structure = Structure.from_edges(torch.tensor([[0, 1, 0], [0, 0, 1]]), (2, 2))
    assert structure.order is None
    assert (structure.num_senders, structure.num_receivers, structure.num_edges, structure.density) == (2, 2, 3, 0.75)
