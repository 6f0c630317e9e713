"""The second forward pass of activation checkpointing draws what the first one drew."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks, run
from graphcollab.engine.keyed_checkpoint import keyed_checkpoint
from graphcollab.engine.randomness import own_randomness
from graphcollab.methods import local
from graphcollab.train import Compute


class Deep(nn.Module):
    """Layers with dropout, whose activations are kept or computed again."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        with own_randomness(3):
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.4), nn.Tanh()) for _ in range(3))
        self.again, self.passes = again, None

    def forward(self, x):
        for layer in self.layers:
            x = keyed_checkpoint(layer, x) if self.again else layer(x)
        return x[:, :2]


def gradients(again, times=1):
    x = torch.linspace(-1, 1, 40).view(10, 4)
    model = Deep(again)
    with own_randomness(5):
        loss = model(x).square().sum() + F.dropout(x, 0.5).sum()  # something is drawn after the layers, too
    found = [torch.autograd.grad(loss, [*model.parameters()], retain_graph=True) for _ in range(times)]
    return loss, found


def test_gradients_are_those_of_kept_activations():
    state = torch.get_rng_state()
    (loss, (kept,)), (again_loss, (again,)) = gradients(False), gradients(True)
    assert torch.equal(loss, again_loss)
    for one, other in zip(kept, again, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(state, torch.get_rng_state())


def test_every_backward_pass_draws_alike():
    _, (first, second) = gradients(True, times=2)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_without_draws_it_needs_no_generators():
    model = Deep(True).eval()
    x = torch.ones(2, 4)
    (found,) = torch.autograd.grad(model(x).sum(), model.layers[0][0].bias)
    model.again = False
    (expected,) = torch.autograd.grad(model(x).sum(), model.layers[0][0].bias)
    assert torch.equal(found, expected)


def test_inner_functions_may_be_checkpointed_too():
    x = torch.ones(50, requires_grad=True)
    with own_randomness(1):
        y = keyed_checkpoint(lambda v: keyed_checkpoint(F.dropout, v, 0.5) * F.dropout(v, 0.5), x)
    (found,) = torch.autograd.grad(y.sum(), x)
    with own_randomness(1):
        y = F.dropout(x, 0.5) * F.dropout(x, 0.5)
    assert torch.equal(found, torch.autograd.grad(y.sum(), x)[0])


@pytest.mark.parametrize("backend", ["loop", "auto"])
def test_local_training_is_that_of_kept_activations(backend):
    x = torch.linspace(-1, 1, 96).view(24, 4)
    tasks = Tasks.from_samples([(x[:10], torch.arange(10) % 2), (x[10:], torch.arange(14) % 2)])
    one, other = (
        run(
            local(lr=0.1, epochs=2, batch_size=4), tasks, Deep(again), rounds=2, compute=Compute(backend=backend)
        ).stacks.part("all")
        for again in (False, True)
    )
    assert torch.equal(one, other)
