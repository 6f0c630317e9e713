from __future__ import annotations

import pytest
import torch
from torch.func import vmap
from torch.nn import functional as F

from graphcollab.engine.stacked import stacked_linear, stacked_ops


def normal(*shape, seed):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.requires_grad_()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("middle", [(), (6,), (2, 3)], ids=["one sample", "batch", "sequence"])
@pytest.mark.parametrize("dims", [(0, 0, 0), (None, 0, 0), (0, None, None), (1, 0, 0)], ids=str)
def test_linear_equals_vmaps_own_with_its_gradient(dims, middle, bias):
    if dims[0] == 1 and not middle:
        dims = (0, 0, 0)
    rows = 3
    shape = (rows, *middle, 4)
    x = normal(*shape, seed=0) if dims[0] == 0 else normal(*middle, 4, seed=0)
    if dims[0] == 1:
        x = normal(middle[0], rows, *middle[1:], 4, seed=0)
    weight = normal(*((rows,) if dims[1] == 0 else ()), 5, 4, seed=1)
    b = normal(*((rows,) if dims[2] == 0 else ()), 5, seed=2) if bias else None
    wanted = [tensor for tensor in (x, weight, b) if tensor is not None]
    in_dims = (dims[0], dims[1], dims[2] if bias else None)
    results = []
    for stacked in (False, True):
        if stacked:
            with stacked_ops():
                out = vmap(F.linear, in_dims)(x, weight, b)
        else:
            out = vmap(F.linear, in_dims)(x, weight, b)
        results.append([out, *torch.autograd.grad(out.square().sum(), wanted)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("columns", [1, 4, 8, 9])
@pytest.mark.parametrize("length", [63, 64, 100])
@pytest.mark.parametrize("bias", [True, False])
def test_layers_of_low_rank_have_the_gradients_of_plain_layers(columns, length, bias):
    """Down to few columns and up again, of many samples, as adapters are; products may be computed transposed."""
    x, down, up = normal(3, length, 70, seed=0), normal(3, columns, 70, seed=1), normal(3, 80, columns, seed=2)
    b = normal(3, 80, seed=3) if bias else None
    wanted = [tensor for tensor in (x, down, up, b) if tensor is not None]
    found = stacked_linear(stacked_linear(x, down, None), up, b)
    plain = [F.linear(F.linear(x[r], down[r]), up[r], None if b is None else b[r]) for r in range(3)]
    torch.testing.assert_close(found, torch.stack(plain))
    slopes = torch.autograd.grad(found.square().sum(), wanted)
    expected = torch.autograd.grad(torch.stack(plain).square().sum(), wanted)
    torch.testing.assert_close(slopes, expected)
    assert all(slope.is_contiguous() for slope in slopes)


def test_outside_of_vmap_nothing_changes():
    x, weight, bias = normal(6, 4, seed=0), normal(5, 4, seed=1), normal(5, seed=2)
    with stacked_ops():
        out = F.linear(x, weight, bias)
    torch.testing.assert_close(out, F.linear(x, weight, bias))
    torch.testing.assert_close(
        torch.autograd.grad(out.square().sum(), [x, weight, bias]),
        torch.autograd.grad(F.linear(x, weight, bias).square().sum(), [x, weight, bias]),
    )
