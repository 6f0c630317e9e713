from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.engine import SGD, Rows, batch_gradient
from graphcollab.stack import Stacks

KEY = {"seed": 3, "round_": 5, "batch_size": 4}


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize(
    "module", [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))]
)
def test_it_is_the_gradient_of_the_first_local_step(make_engine, backend, module):
    engine, models = make_engine(module, backend=backend, sizes=(7, 4, 10, 5), chunk=2)
    rows = Rows.own(models)
    loss, gradient = batch_gradient(engine, rows, **KEY)
    stepped = engine.fit(rows, optimizer=SGD(lr=1.0), steps=1, **KEY)
    expected = models.part("all") - stepped.models.part("all")
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(loss, stepped.loss)
    before = models.clone()
    batch_gradient(engine, rows, **KEY)
    assert torch.equal(before.tensors[0], models.tensors[0])  # running statistics too


def test_a_part_of_the_gradient_and_other_nodes_data(make_engine):
    engine, models = make_engine(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)))
    crossed = Rows(models, torch.tensor([2, 0]), torch.tensor([0, 2]))
    _, whole = batch_gradient(engine, crossed, **KEY)
    _, last = batch_gradient(engine, crossed, part="1", **KEY)
    assert torch.equal(last, whole[:, models.specs[0].columns("1")])
    swapped = Stacks.single(models.specs[0], models.tensors[0][[2, 1, 0, 3]])
    torch.testing.assert_close(whole, batch_gradient(engine, Rows.own(swapped), **KEY)[1][[2, 0]])
