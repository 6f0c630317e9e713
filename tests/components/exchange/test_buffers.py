from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.components import ChooseCenter, Exchange, LaplacianPull
from graphcollab.components.exchange.exchange import buffers_travel
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises


@pytest.mark.parametrize("kind", [Exchange, LaplacianPull, ChooseCenter])
def test_the_setting_is_checked(kind):
    with raises("value", "buffers", "'keep'", "'average'", "'mix'"):
        kind(buffers="mix")


def test_buffers_travel_if_every_architecture_has_some():
    def stacks(*modules):
        specs = tuple(ParamSpec.from_module(module) for module in modules)
        rows = tuple(torch.zeros(1, spec.num_columns) for spec in specs)
        return Stacks(specs, rows, tuple(torch.tensor([k]) for k in range(len(specs))))

    plain, normed = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert buffers_travel(stacks(normed, normed), "average")
    assert not buffers_travel(stacks(normed), "keep")
    assert not buffers_travel(stacks(plain, normed), "average")
