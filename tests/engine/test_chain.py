from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import make_chain

CHAINS = [
    nn.Sequential(nn.Linear(4, 3)),
    nn.Linear(4, 3, bias=False),
    nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Sequential(nn.Linear(5, 3), nn.Tanh())),
]


@pytest.mark.parametrize("module", CHAINS, ids=str)
def test_chains_equal_vmap_with_gradients(module):
    spec = ParamSpec.from_module(module)
    draw = torch.Generator().manual_seed(0)
    views = [v.clone().requires_grad_() for v in spec.views(torch.randn(3, spec.num_columns, generator=draw))]
    params = dict(zip(spec.names, views, strict=True))
    inputs = torch.randn(3, 6, 4, generator=draw)
    chained = make_chain(module)(params, inputs)
    stacked = vmap(lambda p, x: functional_call(module, p, (x,)))(params, inputs)
    torch.testing.assert_close(chained, stacked)
    for one, two in zip(
        torch.autograd.grad(chained.square().sum(), views),
        torch.autograd.grad(stacked.square().sum(), views),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


class Own(nn.Sequential):
    def forward(self, inputs):
        return 2 * super().forward(inputs)


def tied():
    one = nn.Linear(4, 4)
    return nn.Sequential(one, nn.ReLU(), one)


def hooked():
    module = nn.Sequential(nn.Linear(4, 4))
    module[0].register_forward_hook(lambda *args: None)
    return module


@pytest.mark.parametrize(
    "module",
    [
        Own(nn.Linear(4, 4)),
        hooked(),
        nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)),
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)),
        nn.Sequential(nn.Flatten(0), nn.Linear(4, 4)),
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    ],
    ids=["own forward", "hook", "softmax", "dropout", "flatten from 0", "weight norm"],
)
def test_anything_else_is_no_chain(module):
    assert make_chain(module) is None


def test_a_layer_used_twice(make_engine):
    from graphcollab.engine import Rows

    (vmap_engine, models), (loop, _) = (make_engine(tied(), backend=backend) for backend in ("vmap", "loop"))
    rows = Rows.own(models)
    torch.testing.assert_close(vmap_engine.grad(rows, "val"), loop.grad(rows, "val"))
