from __future__ import annotations

import pytest
import torch

from graphcollab.engine import SGD, Adam, AdamW


def state_of(optimizer, like):
    return {slot: [torch.zeros_like(like)] for slot in optimizer.slots}


@pytest.mark.parametrize("eta", [0.1, 0.4])
def test_step_by_hand(eta):
    """½ (h̄ - 1)² with h̄ = h/2 + 3/2: h' = h - η ½ (½ h + ½ 3 - 1), here from h = 2, where h̄ = 2.5."""
    mixture = torch.tensor([[2.5]], dtype=torch.float64)
    SGD(lr=eta).update([mixture], [mixture - 1], {}, 0, [torch.tensor([[0.5]]).double()])
    h = 2 - eta * 0.5 * (0.5 * 2 + 0.5 * 3 - 1)
    assert mixture.item() == pytest.approx(0.5 * h + 1.5)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
        (SGD(lr=0.1, momentum=0.9, nesterov=True), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
        (Adam(lr=0.1), lambda p: torch.optim.Adam(p, lr=0.1)),
        (SGD(lr=0.1, weight_decay=0.3), lambda p: torch.optim.SGD(p, lr=0.1)),
        (Adam(lr=0.1, weight_decay=0.3), lambda p: torch.optim.Adam(p, lr=0.1)),
    ],
)
def test_steps_are_those_of_autograd_through_the_mixture(ours, theirs):
    """Weight decay λ is ½ λ ‖h̄‖² in the loss."""
    draw = torch.Generator().manual_seed(0)
    share, received, goal = 0.3, *torch.randn(2, 1, 4, generator=draw, dtype=torch.float64)
    h = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    mixture = (share * h + received).detach()
    optimizer, state = theirs([h]), state_of(ours, mixture)
    for step in range(5):
        ours.update([mixture], [(mixture - goal) ** 3], state, step, [torch.tensor([[share]]).double()])
        optimizer.zero_grad()
        mixed = share * h + received
        (0.25 * (mixed - goal) ** 4 + 0.5 * ours.weight_decay * mixed**2).sum().backward()
        optimizer.step()
        torch.testing.assert_close(mixture, (share * h + received).detach())


@pytest.mark.parametrize(
    "inner", [SGD(lr=0.1, weight_decay=0.2, momentum=0.9), Adam(lr=0.1, weight_decay=0.2), AdamW(lr=0.1)]
)
def test_whole_share_is_the_inner_update_bit_for_bit_and_no_share_stands_still(inner):
    params = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    plain, whole, none = params.clone(), params.clone(), params.clone()
    states = [state_of(inner, params) for _ in range(3)]
    for step in range(4):
        grads = torch.randn(3, 1000, generator=torch.Generator().manual_seed(step))
        inner.update([plain], [grads.clone()], states[0], step)
        inner.update([whole], [grads.clone()], states[1], step, [torch.ones(3, 1)])
        inner.update([none], [grads.clone()], states[2], step, [torch.zeros(3, 1)])
    assert torch.equal(plain, whole)
    assert torch.equal(params, none)
