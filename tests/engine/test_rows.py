from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.engine import Rows, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from tests.raising import raises


@pytest.fixture
def models():
    spec = ParamSpec.from_module(torch.nn.Linear(1, 1))
    return Stacks.single(spec, torch.tensor([[0.0, 1.0], [2.0, 4.0], [8.0, 16.0]]))


def test_rows_next_to_each_other_are_a_view(models):
    rows = Rows.own(models)
    assert rows.parameters(0, torch.tensor([1, 2])).data_ptr() == models.tensors[0][1].data_ptr()
    assert rows.parameters(0, torch.tensor([2, 0])).tolist() == [[8.0, 16.0], [0.0, 1.0]]
    assert (len(rows), rows.dtype) == (3, torch.float32)


def test_combinations(models):
    index, half = torch.tensor([[0, 2], [1, 1]]), torch.tensor([[0.5, 0.5], [1.0, -1.0]])
    rows = Rows(models, torch.tensor([0, 1]), index, half)
    assert rows.parameters(0, torch.tensor([0, 1])).tolist() == [[4.0, 8.5], [0.0, 0.0]]
    assert rows.parameters(0, torch.tensor([1])).tolist() == [[0.0, 0.0]]


def test_a_part_of_another_model_is_put_in():
    shared = tuple(
        ParamSpec.from_module(nn.ModuleDict({"own": nn.Linear(w, 1), "head": nn.Linear(1, 1)})) for w in (1, 2)
    )
    tensors = (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[10.0, 20.0, 30.0, 40.0, 50.0]]))
    models = Stacks(shared, tensors, (torch.tensor([0]), torch.tensor([1])))
    rows = Rows.with_part_of(models, torch.tensor([0, 1, 0]), torch.tensor([1, 0, 0]), "head")
    assert rows.node.tolist() == [0, 1, 0]
    assert rows.parameters(0, torch.tensor([0, 2])).tolist() == [[1.0, 2.0, 40.0, 50.0], [1.0, 2.0, 3.0, 4.0]]
    assert rows.parameters(1, torch.tensor([1])).tolist() == [[10.0, 20.0, 30.0, 3.0, 4.0]]


def test_a_part_that_is_everything_is_named_as_it_is(models):
    rows = Rows.with_part_of(models, torch.tensor([0, 1]), torch.tensor([1, 2]), "all")
    assert (rows.node.tolist(), rows.index.tolist(), rows.coefficient) == ([0, 1], [1, 2], None)
    assert rows.parameters(0, torch.tensor([0, 1])).tolist() == [[2.0, 4.0], [8.0, 16.0]]


def test_models_of_other_shapes_cannot_be_combined():
    specs = tuple(ParamSpec.from_module(MLP(2, (w,), 1)) for w in (2, 3))
    tensors = tuple(torch.zeros(1, spec.num_columns) for spec in specs)
    models = Stacks(specs, tensors, (torch.tensor([0]), torch.tensor([1])))
    rows = Rows(models, torch.tensor([0]), torch.tensor([[0, 1]]), torch.ones(1, 2))
    with raises("mismatch", "index"):
        rows.parameters(0, torch.tensor([0]))


@pytest.mark.parametrize(
    ("node", "index", "coefficient", "wanted"),
    [
        ([0], [0, 1], None, ("mismatch", "node")),
        ([0], [[0, 1]], None, ("missing", "coefficient")),
        ([0], [0], [1.0], ("missing", "coefficient")),
        ([0], [[0, 1]], [[1.0]], ("shape", "coefficient")),
    ],
)
def test_rows_refuse(models, node, index, coefficient, wanted):
    weights = None if coefficient is None else torch.tensor(coefficient)
    with raises(*wanted):
        Rows(models, torch.tensor(node), torch.tensor(index), weights)


def test_a_part_is_combined_across_architectures_and_the_rest_is_the_first_models():
    specs = tuple(ParamSpec.from_module(MLP(2, (w,), 1)) for w in (2, 3))
    tensors = tuple(
        torch.arange(float(spec.num_columns))[None] * scale for spec, scale in zip(specs, (1, 10), strict=True)
    )
    models = Stacks(specs, tensors, (torch.tensor([0]), torch.tensor([1])))
    with raises("mismatch", "part 'all'"):
        Rows(models, torch.tensor([0]), torch.tensor([[0, 1]]), torch.ones(1, 2), "all").parameters(
            0, torch.tensor([0])
        )
    shared = tuple(
        ParamSpec.from_module(nn.ModuleDict({"own": nn.Linear(w, 1), "head": nn.Linear(1, 1)})) for w in (1, 2)
    )
    assert [spec.parts["head"] for spec in shared] == [(2, 4), (3, 5)]
    rows = (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[10.0, 20.0, 30.0, 40.0, 50.0]]))
    models = Stacks(shared, rows, (torch.tensor([0]), torch.tensor([1])))
    both = Rows(models, torch.tensor([0, 1]), torch.tensor([[0, 1], [1, 0]]), torch.full((2, 2), 0.5), "head")
    assert both.parameters(0, torch.tensor([0])).tolist() == [[1.0, 2.0, 21.5, 27.0]]
    assert both.parameters(1, torch.tensor([1])).tolist() == [[10.0, 20.0, 30.0, 21.5, 27.0]]
    assert models.tensors[0].tolist() == [[1.0, 2.0, 3.0, 4.0]]
