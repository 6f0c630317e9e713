"""Losses and metrics of a user's own: refused where shapes are broadcast, or where they hold what nobody trains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphcollab import Tasks, run
from graphcollab.analysis.metrics import Metric
from graphcollab.components import Fit
from graphcollab.engine import Loss, Objective
from graphcollab.engine.objective import Context
from graphcollab.methods import local
from tests.raising import raises

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = 3 * X[:, 0]


def play(loss="mse", metric="mse", y: Tensor = Y, model: nn.Module | None = None, method=None, **given):
    tasks = Tasks.from_samples([(X, y)] * 2, test=[(X, y)] * 2, loss=loss, metric=metric)
    return run(method or local(lr=0.05), tasks, model or nn.Linear(3, 1), rounds=1, **given)


@dataclass(frozen=True)
class Square(Objective):
    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return context.mean((outputs - targets).square())


BROADCAST = {
    "function": lambda o, t: ((o - t) ** 2).mean(),
    "sum": lambda o, t: ((o - t) ** 2).sum() / t.numel(),
    "torch's function": F.mse_loss,
    "layer": nn.L1Loss(),
    "robust": nn.HuberLoss(),
    "counts": lambda o, t: F.poisson_nll_loss(o, t.abs()),
    "hinge": lambda o, t: (1 - o * (t - t.mean())).clamp(min=0).mean(),
    "quantile": lambda o, t: torch.maximum(0.9 * (t - o), 0.1 * (o - t)).mean(),
    "with noise": lambda o, t: ((o + 0.1 * torch.randn_like(o) - t) ** 2).mean(),
    "per sample": Loss(lambda o, t: ((o - t) ** 2).mean(1), per_sample=True),
    "objective": Square(),
    "sum of objectives": 0.5 * Loss(F.mse_loss) + Loss(lambda o, t: (o.flatten() - t).abs().mean()),
}


@pytest.mark.parametrize("loss", BROADCAST)
def test_a_loss_that_broadcasts_is_refused(loss):
    for y in (Y, 40 + Y.abs()):  # targets that no model is near
        with raises("shape", "outputs", "1"):
            play(BROADCAST[loss], y=y)
    if loss != "per sample":
        play(BROADCAST[loss], model=nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)))


def test_other_shapes_that_broadcast():
    with raises("shape", "outputs", "1"):
        play(F.l1_loss, y=Y[:, None], model=nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)))
    with raises("shape", "outputs", "1"):
        play(F.l1_loss, y=Y[:, None], model=nn.Sequential(nn.Linear(3, 1), nn.Unflatten(1, (1, 1))))
    with raises("shape", "outputs", "1"):  # classes
        play(lambda o, t: -(t * F.logsigmoid(o) + (1 - t) * F.logsigmoid(-o)).mean(), "accuracy", (Y > 0).long())


def test_an_objective_of_the_local_steps():
    method = local().replace(local=Fit(objective=Square()))
    with raises("shape", "outputs"):
        play(method=method)


def ranking(outputs: Tensor, targets: Tensor) -> Tensor:
    return (F.softplus(outputs.T - outputs) * (targets[:, None] > targets)).mean()


def proportional_hazard(outputs: Tensor, targets: Tensor) -> Tensor:
    ordered = outputs.reshape(-1)[targets.argsort(descending=True)]
    return (ordered.logcumsumexp(0) - ordered).mean()


def contrast(outputs: Tensor, targets: Tensor) -> Tensor:
    near, alike = (outputs - outputs.T).abs(), (targets[:, None] == targets).to(outputs.dtype)
    return (alike * near + (1 - alike) * (1 - near).clamp(min=0)).mean()


@pytest.mark.parametrize(
    "loss",
    [
        ranking,
        proportional_hazard,
        contrast,
        lambda o, t: F.mse_loss(o.squeeze(1), t),
        lambda o, t: F.mse_loss(o, t[:, None]),
        lambda o, t: (o.mean() - t.mean()) ** 2,
        lambda o, t: (o.sort(0).values.flatten() - t.sort().values).abs().mean(),
        lambda o, t: (o @ o.T).square().mean(),
    ],
)
def test_losses_that_compare_samples_on_purpose_are_taken(loss):
    for y in (Y, (Y > 0).to(Y.dtype)):
        play(loss, y=y)


def test_a_loss_without_broadcasting_is_that_by_name():
    model = nn.Linear(3, 1)
    by_name, own = play("mse", model=model), play(lambda o, t: F.mse_loss(o.squeeze(1), t), model=model)
    torch.testing.assert_close(own.model(0).weight, by_name.model(0).weight)


def absolute(outputs, targets):
    return float(np.abs(outputs.numpy() - targets.numpy()).mean())


def test_a_metric_that_broadcasts_is_refused():
    whole = Metric("whole", False, lambda o, t, mask: (o - t).abs().flatten(1).mean(1).double())
    for metric in (Metric.per_node("absolute", False, absolute), whole):
        with raises("shape", "outputs", "[B, 1]", "[B]"):
            play(metric=metric)
    result = play()
    with raises("shape", "outputs", "[B, 1]", "[B]"):
        result.scores(Metric.per_node("absolute", False, absolute))
    own = Metric.per_node("absolute", False, lambda o, t: absolute(o.squeeze(1), t))
    torch.testing.assert_close(result.scores(own)["absolute"], result.scores("mae")["mae"])


class Tempered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs / self.temperature, targets)


def test_a_loss_with_parameters_is_refused():
    labels, loss = (Y > 0).long(), Tempered()
    for own in (loss, lambda o, t: loss(o, t), 0.5 * Loss(loss) + Loss(F.cross_entropy)):
        with raises("contract", "loss", "1"):
            play(own, "accuracy", labels, nn.Linear(3, 2))
    with raises("contract", "loss"):
        play("cross_entropy", "accuracy", labels, nn.Linear(3, 2), local().replace(local=Fit(objective=Loss(loss))))
    play(loss.requires_grad_(False), "accuracy", labels, nn.Linear(3, 2))


def test_a_loss_that_counts_is_named():
    class Counts(nn.Module):
        calls = 0

        def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
            self.calls += 1
            return min(1.0, self.calls / 1000) * F.cross_entropy(outputs, targets)

    with raises("contract", "loss"):
        play(Counts(), "accuracy", (Y > 0).long(), nn.Linear(3, 2))


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": lambda o, t: ((o.squeeze(-1) - t) ** 2).mean(), "metric": "mse"},
        {"loss": "mse", "metric": Metric.per_node("m", False, lambda o, t: float((o.flatten() - t).abs().mean()))},
    ],
    ids=["loss", "metric"],
)
def test_a_function_that_brings_one_side_alone_to_another_shape_is_refused(settings):
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    tasks = Tasks.from_samples([(x, 3 * x[:, :1])] * 2, test=[(x + 1, x[:, :1])] * 2, **settings)
    with raises("shape", "outputs"):
        run(local(), tasks, nn.Linear(3, 1), rounds=1)
