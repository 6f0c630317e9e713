from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.nn.functional import mix
from graphcollab.nn.functional.structure import Structure
from tests.raising import raises


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


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_whole_numbers_of_any_type_are_edges(dtype):
    edges = torch.tensor([[0, 2, 1, 0], [1, 0, 0, 1]])
    few = Structure.from_edges(edges.to(dtype), (3, 2))
    for name in ("ptr", "sender", "order"):
        assert getattr(few, name).dtype == torch.int64, name
        assert torch.equal(getattr(few, name), getattr(Structure.from_edges(edges, (3, 2)), name)), name


def test_what_no_edges_are_is_refused():
    for edges in (torch.tensor([[0.0], [0.5]]), torch.tensor([[True], [False]])):
        with raises("shape", "edge_index"):
            Structure.from_edges(edges, (2, 2))
    for edges in (torch.zeros(3, dtype=torch.int64), torch.zeros(3, 2, dtype=torch.int64)):
        with raises("shape", "edge_index"):
            Structure.from_edges(edges, (4, 4))
    assert Structure.from_edges(torch.empty(2, 0), (2, 2)).num_edges == 0
    with pytest.raises(TypeError):
        Structure(torch.tensor([0, 1]), torch.tensor([5]), None, 1)  # rows are sorted and checked by from_edges alone


def test_edges_that_are_there_twice_are_known():
    edges = torch.tensor([[0, 1, 0], [0, 0, 1]])
    assert not Structure.from_edges(edges, (2, 2)).repeats
    assert Structure.from_edges(torch.cat([edges, edges[:, :1]], 1), (2, 2)).repeats
    assert not Structure.from_edges(edges[:, :0], (2, 2)).repeats


def test_edges_that_are_changed_later_are_not_read_anew():
    edges = torch.tensor([[0, 1, 2], [0, 1, 2]])
    structure = Structure.from_edges(edges, (3, 3))
    edges.fill_(0)
    assert mix(torch.eye(3), torch.ones(3), structure).tolist() == torch.eye(3).tolist()
    assert structure.unsort(torch.arange(3)).tolist() == [0, 1, 2]


def test_a_structure_is_made_once_for_edges_that_stay_as_they_are():
    """Also where they change without PyTorch's knowledge."""
    edges = torch.tensor([[1, 0, 1], [0, 1, 1]])
    structure, (rows, weight) = Structure.from_edges(edges, (2, 2)), (torch.eye(2), torch.ones(3))
    assert Structure.from_edges(edges, (2, 2)) is structure
    assert Structure.from_edges(edges, (3, 2)).num_senders == 3
    assert mix(rows, weight, edges).tolist() == [[0, 1], [1, 1]]
    edges.numpy()[0, 0] = 0
    assert mix(rows, weight, edges).tolist() == [[1, 0], [1, 1]]
    assert structure.sender.tolist() == [1, 0, 1]
