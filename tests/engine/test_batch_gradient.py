from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.engine import SGD, Engine, LocalSteps, Rows, Stacks
from graphcollab.engine.stack import ParamSpec

KEY = {"seed": 3, "round_": 5}


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize(
    "module", [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))]
)
def test_it_is_the_gradient_of_the_first_local_step(make_engine, backend, module):
    engine, models = make_engine(module, backend=backend, sizes=(7, 4, 10, 5), chunk=2)
    rows = Rows.own(models)
    loss, gradient, buffers = engine.batch_gradient(rows, batch_size=4, **KEY)
    stepped = engine.fit(rows, LocalSteps(steps=1, batch_size=4, optimizer=SGD(lr=1.0)), **KEY)
    expected = models.part("all") - stepped.models.part("all")
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(loss, stepped.told()[0])
    torch.testing.assert_close(buffers, stepped.models.tensors[0][:, models.specs[0].num_parameters :])
    before = models.clone()
    engine.batch_gradient(rows, batch_size=4, **KEY)
    assert torch.equal(before.tensors[0], models.tensors[0])  # running statistics too


def test_a_part_of_the_gradient_and_other_nodes_data(make_engine):
    engine, models = make_engine(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)))
    crossed = Rows(models, torch.tensor([2, 0]), torch.tensor([0, 2]))
    whole = engine.batch_gradient(crossed, batch_size=4, **KEY)[1]
    last = engine.batch_gradient(crossed, batch_size=4, part="1", **KEY)[1]
    assert torch.equal(last, whole[:, models.specs[0].columns("1")])
    swapped = Stacks.single(models.specs[0], models.tensors[0][[2, 1, 0, 3]])
    expected = engine.batch_gradient(Rows.own(swapped), batch_size=4, **KEY)[1][[2, 0]]
    torch.testing.assert_close(whole, expected)


def test_several_architectures_have_no_buffers_in_common(make_engine):
    single, models = make_engine(nn.Linear(4, 3), sizes=(5, 5))
    modules = [nn.Linear(4, 3).double(), nn.Linear(4, 3).double()]
    specs = tuple(map(ParamSpec.from_module, modules))
    engine = Engine(single.tasks, modules, specs)
    both = Stacks(specs, tuple(models.tensors[0].split(1)), (torch.tensor([0]), torch.tensor([1])))
    found, expected = (
        e.batch_gradient(Rows.own(x), batch_size=4, **KEY) for e, x in ((engine, both), (single, models))
    )
    torch.testing.assert_close(found[1], expected[1])
    assert found[2] is None
    assert expected[2].shape == (2, 0)
