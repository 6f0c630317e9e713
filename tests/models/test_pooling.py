"""Pooling where channels lie side by side has the values and gradients of PyTorch's, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.gradcheck import gradgradcheck
from torch.func import grad, vmap
from torch.nn import functional as F

from graphcollab.models import _pooling as pooling
from graphcollab.models.layers import MaxPool2

LAST = torch.channels_last
compiled = pytest.mark.skipif(pooling._pool is None, reason="built without a C compiler")


def images(shape, dtype=torch.float32, ties=False):
    draw = torch.Generator().manual_seed(0)
    values = torch.randint(3, shape, generator=draw) if ties else torch.randn(shape, generator=draw)
    return values.to(dtype).contiguous(memory_format=LAST).requires_grad_()


def used(monkeypatch):
    """Count calls of the kernel."""
    calls = []
    whole = pooling._pool

    class Counting:
        def largest(self, *arguments):
            calls.append("largest")
            whole.largest(*arguments)

        def spread(self, *arguments):
            calls.append("spread")
            whole.spread(*arguments)

    monkeypatch.setattr(pooling, "_pool", Counting())
    return calls


def require_same(x):
    fast, known = MaxPool2()(x), F.max_pool2d(x, 2)
    torch.testing.assert_close(fast, known, rtol=0, atol=0, equal_nan=True)
    assert fast.is_contiguous(memory_format=LAST)
    weight = torch.randn(known.shape, generator=torch.Generator().manual_seed(1)).to(x.dtype)
    (one,), (two,) = (torch.autograd.grad(y, x, weight) for y in (fast, known))
    assert torch.equal(one, two)
    assert one.is_contiguous(memory_format=LAST)


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shape", [(3, 16, 8, 6), (2, 32, 7, 5), (1, 48, 2, 3), (2, 64, 25, 26), (0, 16, 4, 4)])
def test_the_kernel_is_exact(monkeypatch, shape, ties, dtype):
    calls = used(monkeypatch)
    require_same(images(shape, dtype, ties))
    assert calls == ["largest", "spread"]


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_that_are_none(dtype):
    """The gradient goes to the last NaN of a window, and where all are the least number, to the first."""
    x = images((1, 16, 4, 6), dtype)
    with torch.no_grad():
        x[0, :8, 0, 0], x[0, 3:12, 1, 1], x[0, :, 2:, :2] = torch.nan, torch.nan, -torch.inf
        x[0, 2, 3, 3], x[0, 4, 2, 4] = torch.inf, -0.0
    require_same(x)


@pytest.mark.parametrize(("shape", "dtype"), [((2, 6, 8, 8), torch.float32), ((2, 16, 8, 8), torch.float64)])
def test_what_the_kernel_does_not_know(shape, dtype):
    require_same(images(shape, dtype))
    x = images((2, 32, 9, 9))[:, ::2, 1:, :]  # channels of a pixel no longer side by side
    assert torch.equal(MaxPool2()(x), F.max_pool2d(x, 2))
    part = images((2, 32, 9, 9))[:, :16]  # nor are pixels
    assert torch.equal(MaxPool2()(part), F.max_pool2d(part, 2))


def test_without_a_kernel(monkeypatch):
    monkeypatch.setattr(pooling, "_pool", None)
    require_same(images((2, 16, 7, 8)))


@compiled
def test_several_threads_share_pytorchs(monkeypatch):
    calls = used(monkeypatch)
    monkeypatch.setattr(torch, "get_num_threads", lambda: pooling.MOST_THREADS + 1)
    require_same(images((2, 16, 7, 8)))
    assert calls == []


@compiled
def test_gradients_of_gradients():
    x = images((2, 16, 4, 4))
    known, found = (
        torch.autograd.grad(torch.autograd.grad(pool(x).pow(3).sum(), x, create_graph=True)[0].square().sum(), x)[0]
        for pool in (lambda v: F.max_pool2d(v, 2), MaxPool2())
    )
    torch.testing.assert_close(found, known)
    place = torch.randint(4, (1, 2, 2, 2), dtype=torch.uint8)
    values = torch.randn(1, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    gradgradcheck(lambda g: pooling._spread(g, place, torch.Size((1, 2, 4, 5))), values)


def test_under_transforms():
    x = images((2, 16, 6, 6)).detach()
    many = torch.stack([x, 2 * x, -x])
    assert torch.equal(vmap(MaxPool2())(many), torch.stack([F.max_pool2d(one, 2) for one in many]))
    pools = MaxPool2(), lambda values: F.max_pool2d(values, 2)
    one, two = (grad(lambda values, pool=pool: pool(values).square().sum())(x) for pool in pools)
    assert torch.equal(one, two)
