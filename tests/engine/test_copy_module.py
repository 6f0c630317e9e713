from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from graphcollab.engine.modules import copy_module


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "make", [lambda m: m, nn.utils.weight_norm, lambda m: prune.l1_unstructured(m, "weight", 2), nn.utils.spectral_norm]
)
def test_a_copy_computes_the_same_and_shares_nothing(make):
    module = nn.Sequential(make(nn.Linear(3, 2)), nn.Tanh())
    module.eval()
    inputs = torch.randn(4, 3)
    expected = module(inputs)
    copied = copy_module(module)
    assert torch.equal(copied(inputs), expected)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert torch.equal(module(inputs), expected)
    assert not torch.equal(copied(inputs), expected)


def test_hooks_on_gradients_are_carried_over():
    module = nn.Linear(3, 2)
    module.weight.register_hook(lambda grad: 2 * grad)
    module.weight.register_hook(lambda grad: grad + 1)
    copied = copy_module(copy_module(module))
    assert copied.weight is not module.weight
    copied(torch.ones(1, 3)).sum().backward()
    assert torch.equal(copied.weight.grad, torch.full((2, 3), 3.0))
    assert torch.equal(copied.bias.grad, torch.ones(2))
    assert module.weight.grad is None


def test_what_is_tied_stays_tied():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight
    copied = copy_module(module)
    assert copied[1].weight is copied[0].weight
