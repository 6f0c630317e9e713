from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from graphcollab.local import (
    BinaryCrossEntropy,
    Context,
    CrossEntropy,
    Proximal,
    SquaredError,
    UserLoss,
    as_objective,
)

PLAIN = Context(None, {})
PADDED = Context(torch.tensor([0.5, 0.5, 0.0]), {})


@pytest.mark.parametrize(
    ("objective", "outputs", "targets", "plain"),
    [
        (CrossEntropy(), torch.randn(3, 4), torch.tensor([0, 3, 1]), F.cross_entropy),
        (SquaredError(), torch.randn(3), torch.randn(3), F.mse_loss),
        (SquaredError(), torch.randn(3, 1), torch.randn(3), lambda o, t: F.mse_loss(o[:, 0], t)),
        (SquaredError(), torch.randn(3, 2), torch.randn(3, 2), F.mse_loss),
        (BinaryCrossEntropy(), torch.randn(3), torch.tensor([0, 1, 1]),
         lambda o, t: F.binary_cross_entropy_with_logits(o, t.float())),
    ],
)  # fmt: skip
def test_losses_average_over_the_samples_that_count(objective, outputs, targets, plain):
    torch.testing.assert_close(objective(outputs, targets, PLAIN), plain(outputs, targets))
    torch.testing.assert_close(objective(outputs, targets, PADDED), plain(outputs[:2], targets[:2]))


@pytest.mark.parametrize(
    "objective", [CrossEntropy(), SquaredError(), UserLoss(F.cross_entropy), CrossEntropy() + Proximal(2.0)]
)
@pytest.mark.parametrize("padded", [False, True])
def test_losses_of_many_nodes_are_those_of_each(objective, padded):
    draw = torch.Generator().manual_seed(0)
    outputs = torch.randn(5, 3, 4, generator=draw)
    targets = torch.randn(5, 3, 4, generator=draw)
    if not isinstance(objective, SquaredError):
        targets = targets.argmax(-1)
    if padded and not objective.weighs:
        return
    weight = torch.tensor([0.5, 0.5, 0.0]).expand(5, 3) if padded else None
    params, anchor = {"a": torch.randn(5, 2, generator=draw)}, {"a": torch.zeros(5, 2)}
    losses = objective.rows(outputs, targets, Context(weight, params, anchor))
    for k, loss in enumerate(losses):
        own = Context(None if weight is None else weight[k], {"a": params["a"][k]}, {"a": anchor["a"][k]})
        torch.testing.assert_close(loss, objective(outputs[k], targets[k], own))


def test_squared_error_refuses_silent_broadcasting():
    with pytest.raises(ValueError, match=r"outputs \(3, 2\) and targets \(3,\) must have the same shape"):
        SquaredError()(torch.zeros(3, 2), torch.zeros(3), PLAIN)


def test_proximal():
    context = Context(None, {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3.0)},
                      {"a": torch.tensor([0.0, 0.0]), "b": torch.tensor(1.0)})  # fmt: skip
    assert float(Proximal(2.0)(torch.zeros(1), torch.zeros(1), context)) == 9.0
    with pytest.raises(ValueError, match="needs an anchor"):
        Proximal(1.0)(torch.zeros(1), torch.zeros(1), PLAIN)


def test_sums():
    both = SquaredError() + UserLoss(lambda o, t: o.sum())
    assert float(both(torch.tensor([1.0]), torch.tensor([3.0]), PLAIN)) == 5.0
    assert (both.weighs, both.anchored) == (False, False)
    assert (SquaredError() + Proximal(1.0)).anchored
    assert (SquaredError() + Proximal(1.0)).weighs


@pytest.mark.parametrize(("value", "got"), [(torch.zeros(3), r"\(3,\)"), (1.0, "float")])
def test_a_users_loss_must_return_one_number(value, got):
    with pytest.raises(TypeError, match=f"scalar tensor.*got {got}"):
        UserLoss(lambda o, t: value)(torch.zeros(1), torch.zeros(1), PLAIN)


def test_objectives_by_name():
    assert as_objective("bce") == BinaryCrossEntropy()
    own = Proximal(1.0)
    assert as_objective(own) is own
    assert isinstance(as_objective(F.mse_loss), UserLoss)
    with pytest.raises(ValueError, match=r"unknown loss 'hinge'; did you mean '.*'\? Known: cross_entropy, mse, bce"):
        as_objective("hinge")
