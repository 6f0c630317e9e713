"""The pull towards a direction, and its gradient by hand."""

from __future__ import annotations

import pytest
import torch

from graphcollab.engine import Proximal
from graphcollab.engine.objective import Context
from tests.raising import raises


def value(theta, anchor, mu=1.0):
    params = {"a": theta[:1], "b": theta[1:]}
    return Proximal(mu, distance="cosine")(
        theta, theta, Context(None, params, anchor={"a": anchor[:1], "b": anchor[1:]})
    )


def test_by_hand():
    theta, anchor = torch.tensor([3.0, 4.0], requires_grad=True), torch.tensor([1.0, 0.0])
    loss = value(theta, anchor, mu=2.0)
    assert float(loss.detach()) == pytest.approx(-1.2)
    assert torch.autograd.grad(loss, theta)[0].tolist() == pytest.approx([-0.256, 0.192])
    step = torch.tensor([0.128, -0.096])
    assert value(theta.detach() + step, anchor).item() == pytest.approx(-0.625280, abs=1e-6)
    assert value(theta.detach() - step, anchor).item() == pytest.approx(-0.574106, abs=1e-6)


def test_no_pull_where_directions_agree_and_no_nan_at_zero():
    for theta, anchor in (([3.0, 4.0], [6.0, 8.0]), ([0.0, 0.0], [1.0, 0.0]), ([1.0, 0.0], [0.0, 0.0])):
        theta = torch.tensor(theta, requires_grad=True)
        gradient = torch.autograd.grad(value(theta, torch.tensor(anchor)), theta)[0]
        assert bool(gradient.isfinite().all())
    theta = torch.tensor([3.0, 4.0], requires_grad=True)
    gradient = torch.autograd.grad(value(theta, torch.tensor([6.0, 8.0])), theta)[0]
    assert gradient.tolist() == pytest.approx([0.0, 0.0], abs=1e-7)


def test_an_anchor_is_needed():
    theta = torch.ones(2)
    with raises("missing", "anchor"):
        Proximal(1.0, distance="cosine")(theta, theta, Context(None, {"a": theta}))
    with raises("missing", "spec"):
        Proximal(1.0, "head", "cosine")(theta, theta, Context(None, {"a": theta}, anchor={"a": theta}))
