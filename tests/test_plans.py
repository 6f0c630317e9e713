"""What engines remember of plans is what is made anew."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from tests.plans import computed_once


def linear(value):
    module = nn.Linear(2, 1)
    nn.init.constant_(module.weight, value)
    nn.init.zeros_(module.bias)
    return module


@pytest.fixture
def counted():
    calls = []

    def count(*args):
        calls.append(args)
        return len(calls)

    return computed_once(count)


class Scaled(nn.Linear):
    """What it does may depend on its numbers."""


def test_equal_arguments_are_known_by_their_values(counted):
    one, other = Scaled(2, 1), Scaled(2, 1)
    assert counted(one, "auto") == 1
    assert counted(other, "auto") == 2
    assert counted(copy.deepcopy(one), "auto") == 1


def test_layers_and_their_samples_are_known_by_their_form(counted):
    def sample(*labels):
        return torch.rand(2, 2), torch.tensor(labels)

    assert counted(linear(1.0), sample(0, 1)) == counted(linear(2.0), sample(1, 0)) == 1
    assert counted(linear(1.0), sample(0, 2)) == 2
    assert counted(linear(torch.inf), sample(0, 1)) == 3
    assert counted(linear(1.0), torch.zeros(2)) == 4
    assert counted(linear(1.0), torch.ones(2)) == 5  # neither a module nor a sample


@pytest.mark.parametrize(
    "other",
    [linear(1.0).double(), linear(1.0).eval(), linear(1.0).requires_grad_(False), nn.Linear(2, 1, False)],
)
def test_other_arguments_are_not(counted, other):
    assert counted(linear(1.0)) == 1
    assert counted(other) == 2
    assert counted(linear(1.0), None) == 3
    assert counted(linear(1.0)) == 1


def test_what_cannot_be_written_down_is_not_remembered(counted):
    class Own(nn.Module):
        """Nobody else can tell what it does."""

    assert [counted(Own()) for _ in range(2)] == [1, 2]
    assert [counted(torch.zeros(2, device="meta")) for _ in range(2)] == [3, 4]
    hooked = linear(1.0)
    hooked.weight.register_hook(lambda gradient: 2 * gradient)
    assert [counted(hooked) for _ in range(2)] == [5, 6]
    assert [counted(weight_norm(linear(1.0))) for _ in range(2)] == [7, 8]
    assert counted(linear(1.0)) == 9


def test_what_is_refused_is_not_remembered():
    def refuse(value):
        raise ValueError(value)

    for _ in range(2):
        with pytest.raises(ValueError, match="3"):
            computed_once(refuse)(3)
