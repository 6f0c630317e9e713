from __future__ import annotations

import pytest
import torch

from graphcollab.engine import SGD, Adam, AdamW
from graphcollab.engine.optimizer import as_row_optimizer
from tests.raising import raises


@pytest.mark.parametrize(
    ("row_optimizer", "settings"),
    [
        (SGD, {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.5}),
        (Adam, {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
        (AdamW, {"lr": 0.1, "eps": 1e-2}),
    ],
)
def test_rows_step_at_their_own_count(row_optimizer, settings):
    """Three rows; the second rests every other step, the third starts late. Each equals its own optimizer."""
    ours, kind = row_optimizer(**settings), getattr(torch.optim, row_optimizer.__name__)
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, generator=draw)
    x, state = start.clone(), {slot: torch.zeros(3, 4) for slot in ours.slots}
    count = torch.zeros(3, dtype=torch.int64)
    singles = [start[r].clone().requires_grad_() for r in range(3)]
    steppers = [kind([single], **settings) for single in singles]
    for step in range(8):
        active = torch.tensor([True, step % 2 == 0, step > 4]).nonzero().flatten()
        gradient = torch.randn(3, 4, generator=draw)
        part, moved = x[active], {slot: values[active] for slot, values in state.items()}
        ours.update([part], [gradient[active]], {s: [v] for s, v in moved.items()}, count[active])
        x[active] = part
        for slot, values in moved.items():
            state[slot][active] = values
        count[active] += 1
        for r in active.tolist():
            singles[r].grad = gradient[r]
            steppers[r].step()
    torch.testing.assert_close(x, torch.stack([s.detach() for s in singles]), rtol=2e-6, atol=1e-6)


def test_a_count_per_row_is_as_precise_as_a_number():
    results = []
    for step in (0, torch.zeros(2, dtype=torch.int64)):
        x = torch.zeros(2, 3, dtype=torch.float64)
        state = {slot: [torch.zeros_like(x)] for slot in Adam().slots}
        Adam(lr=0.1).update([x], [torch.full_like(x, 1e-3)], state, step)
        results.append(x)
    torch.testing.assert_close(*results, rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["LBFGS", "SparseAdam", "Adafactor", "Muon"])
def test_other_optimizers_are_refused_by_name(kind):
    with raises("value", "optimizer", kind.lower(), "sgd", "adam", "adamw"):
        as_row_optimizer(kind)


def test_names_and_values_are_taken():
    assert as_row_optimizer("adam", lr=0.5) == Adam(lr=0.5)
    assert as_row_optimizer("AdamW") == AdamW()
    own = SGD(lr=3.0)
    assert as_row_optimizer(own) is own


@pytest.mark.parametrize(
    ("kind", "settings", "wanted"),
    [
        (SGD, {"lr": -1.0}, ("value", "lr", "1.0")),
        (SGD, {"lr": float("inf")}, ("value", "lr")),
        (SGD, {"weight_decay": -0.1}, ("value", "weight_decay", "0.1")),
        (SGD, {"momentum": 1.0}, ("value", "momentum", "1.0")),
        (SGD, {"nesterov": "no"}, ("value", "nesterov", "'no'")),
        (SGD, {"nesterov": True}, ("conflict", "momentum")),
        (Adam, {"betas": (0.9,)}, ("value", "betas", "0.9")),
        (Adam, {"betas": (0.9, 1.0)}, ("value", "betas")),
        (AdamW, {"eps": 0.0}, ("value", "eps", "0.0")),
    ],
)
def test_settings_are_checked(kind, settings, wanted):
    with raises(*wanted):
        kind(**settings)


def test_settings_that_an_optimizer_does_not_have():
    with raises("value", "momentum", "0.9"):
        as_row_optimizer("adam", momentum=0.9)
    assert as_row_optimizer("adam", lr=0.5, momentum=0.0) == Adam(lr=0.5)
    assert as_row_optimizer("sgd", momentum=0.5) == SGD(momentum=0.5)


@pytest.mark.parametrize("wrong", [torch.optim.Adam([torch.zeros(1)]), torch.optim.Adam, None, 0.1, int])
def test_what_is_no_row_optimizer_is_refused_by_type(wrong):
    with raises("value", "optimizer"):
        as_row_optimizer(wrong)
