"""The fast pooling has the values and gradients of PyTorch's, ties and odd sizes included."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import grad, vmap

from graphcollab import build_model
from graphcollab.models.layers import MaxPool2


@pytest.mark.parametrize("shape", [(3, 2, 8, 6), (2, 1, 7, 5), (1, 1, 2, 2), (4, 3, 26, 27)])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_values_and_gradients(shape, ties, memory_format):
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(3, shape, generator=draw).float() if ties else torch.randn(shape, generator=draw)
    x = x.to(memory_format=memory_format).requires_grad_()
    fast, known = MaxPool2()(x), nn.functional.max_pool2d(x, 2)
    assert torch.equal(fast, known)
    assert fast.is_contiguous(memory_format=memory_format)
    weight = torch.randn(known.shape, generator=draw)
    (one,), (two,) = (torch.autograd.grad((y * weight).sum(), x) for y in (fast, known))
    assert torch.equal(one, two)


def test_under_vmap_with_gradients():
    x = torch.randn(5, 2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    y = vmap(MaxPool2())(x)
    known = torch.stack([nn.functional.max_pool2d(row, 2) for row in x])
    assert torch.equal(y, known)
    (one,), (two,) = torch.autograd.grad(y.square().sum(), x), torch.autograd.grad(known.square().sum(), x)
    assert torch.equal(one, two)


def test_channels_last_under_transforms_and_where_pixels_are_not_side_by_side():
    x = torch.randn(2, 16, 9, 9, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)
    many = torch.stack([x, 2 * x, -x])
    assert torch.equal(vmap(MaxPool2())(many), torch.stack([nn.functional.max_pool2d(one, 2) for one in many]))
    pools = MaxPool2(), nn.MaxPool2d(2)
    one, two = (grad(lambda values, pool=pool: pool(values).square().sum())(x) for pool in pools)
    assert torch.equal(one, two)
    for part in (x[:, ::2, 1:, :], x[:, :8]):
        assert torch.equal(MaxPool2()(part), nn.functional.max_pool2d(part, 2))


@pytest.mark.parametrize("name", ["fedavg_cnn", "maml_cnn", "small_cnn", "resnet9"])
def test_models_are_those_with_general_pooling(name):
    fast, known = build_model(name, (3, 21, 18), 4), build_model(name, (3, 21, 18), 4)
    for parent in list(known.modules()):
        for child, layer in parent.named_children():
            if isinstance(layer, MaxPool2):
                setattr(parent, child, nn.MaxPool2d(2))
    assert not any(isinstance(layer, MaxPool2) for layer in known.modules())
    known.load_state_dict(fast.state_dict())
    inputs = torch.randn(3, 3, 21, 18, generator=torch.Generator().manual_seed(0))
    one, two = fast(inputs), known(inputs)
    assert torch.equal(one, two)
    gradients = (torch.autograd.grad(y.square().sum(), list(m.parameters())) for y, m in ((one, fast), (two, known)))
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second)
