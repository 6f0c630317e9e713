"""Methods are declared with defaults of local training in epochs or in steps."""

from __future__ import annotations

import inspect
from typing import Unpack

import torch
from torch import nn

from graphcollab import Method, Tasks, run
from graphcollab.methods.declare import Training, fit, method
from tests.raising import raises


def declared(**defaults):
    @method(**defaults)
    def mine(*, part: str = "all", **training: Unpack[Training]) -> Method:
        """Mine: it trains alone."""
        return Method("mine", local=fit(training))

    return mine


def trained(made):
    x = torch.arange(24.0).view(12, 2).sin()
    net = nn.Linear(2, 1)
    nn.init.zeros_(net.weight), nn.init.zeros_(net.bias)
    tasks = Tasks.from_samples([(x, x[:, :1] + 1)], loss="mse", metric="mse", val_fraction=0)
    return run(made, tasks, net, rounds=1).model(0).weight.detach().flatten(), x


def by_hand(x, steps, lr):
    w, b = torch.zeros(2), torch.zeros(())
    for _ in range(steps):
        error = x @ w + b - (x[:, 0] + 1)
        w, b = w - lr * 2 * (x * error[:, None]).mean(0), b - lr * 2 * error.mean()
    return w


def test_a_default_in_steps():
    mine = declared(lr=0.05, steps=10, batch_size=12)
    shown = inspect.signature(mine).parameters
    assert (shown["steps"].default, shown["epochs"].default, shown["lr"].default) == (10, None, 0.05)
    for made, steps in ((mine(), 10), (mine(steps=3), 3), (mine(epochs=2), 2), (mine(epochs=None), 10)):
        found, x = trained(made)  # an epoch is one step
        torch.testing.assert_close(found, by_hand(x, steps, 0.05))


def test_a_default_in_epochs_is_left_for_steps():
    mine = declared(lr=0.05, epochs=2, batch_size=12)
    for made, steps in ((mine(), 2), (mine(steps=3), 3)):
        found, x = trained(made)
        torch.testing.assert_close(found, by_hand(x, steps, 0.05))


def test_defaults_that_say_nothing_or_too_much_are_refused():
    with raises("type", "steps", kind=TypeError):
        declared(lr=0.05, epochs=1, steps=10, batch_size=5)
    with raises("type", "defaults", kind=TypeError):
        declared(lr=0.05, steps=10)
