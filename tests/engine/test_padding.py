"""Padding never reaches a model that looks across the batch: beside larger nodes it computes what it does alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.engine import SGD, LocalSteps, Rows, Stacks

KEY = {"seed": 3, "round_": 2}
FIT = {"batch_size": 6, "epochs": 2}


class Centers(nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs - inputs.mean(0))


class Normalizes(nn.Linear):
    def forward(self, inputs):
        return F.batch_norm(super().forward(inputs), None, None, training=True)


class Beside(nn.Linear):
    """A sample's output depends on the one before it."""

    def forward(self, inputs):
        return super().forward(inputs + inputs.roll(1, 0))


class InTraining(nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs - inputs.mean(0) if self.training else inputs)


class InLargeBatches(nn.Linear):
    """Looks across batches of more samples than a few."""

    fewest, trained_only = 9, False

    def forward(self, inputs):
        if len(inputs) >= self.fewest and (self.training or not self.trained_only):
            inputs = inputs - inputs.mean(0)
        return super().forward(inputs)


class OfFewSamples(nn.Linear):
    """Has places for a few samples."""

    def forward(self, inputs):
        return super().forward(inputs) + torch.zeros(20, 1).to(inputs)[torch.arange(len(inputs))]


def untracked():
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False))


MODULES = {
    "centers": lambda: Centers(4, 3),
    "normalizes": lambda: Normalizes(4, 3),
    "beside": lambda: Beside(4, 3),
    "in training": lambda: InTraining(4, 3),
    "untracked": untracked,
    "in large batches": lambda: InLargeBatches(4, 3),
}


def alone(engine, models, node):
    """A node's engine and model without the others; its identity, which keys its batches, stays."""
    other = type(engine)(
        engine.tasks.select(torch.tensor([node])), [engine.backends[0].module], models.specs, plans=engine.plans
    )
    return other, Stacks.single(models.specs[0], models.tensors[0][[node]])


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("kind", MODULES)
def test_nodes_compute_beside_others_what_they_do_alone(make_engine, kind, backend):
    engine, models = make_engine(MODULES[kind](), sizes=(8, 30, 4, 12), backend=backend)
    rows = Rows.own(models)
    fitted = engine.fit(rows, LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY).models.tensors[0]
    losses, (judged, gradients) = engine.loss(rows, "val"), engine.grad(rows, "val")
    batch = engine.batch_gradient(rows, seed=1, round_=0, batch_size=9)
    for node in (1, 2):  # with the most samples, and the fewest
        single, own = alone(engine, models, node)
        only = Rows.own(own)
        close = {"rtol": 1e-9, "atol": 1e-11}
        other = single.fit(only, LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY)
        torch.testing.assert_close(fitted[[node]], other.models.tensors[0])
        torch.testing.assert_close(losses[[node]], single.loss(only, "val"), **close)
        torch.testing.assert_close(judged[[node]], losses[[node]], **close)
        torch.testing.assert_close(gradients[[node]], single.grad(only, "val")[1], **close)
        mine = single.batch_gradient(only, seed=1, round_=0, batch_size=9)
        for one, other in zip(batch, mine, strict=True):
            torch.testing.assert_close(one[[node]], other, **close)


@pytest.mark.parametrize("inputs", [4, 2000])
@pytest.mark.parametrize("trained_only", [False, True])
@pytest.mark.parametrize("fewest", [9, 65])
def test_what_looks_across_large_batches_only_is_not_padded(make_engine, fewest, trained_only, inputs):
    """Tried with 64 and 300 samples; of large inputs with as many as are no great work."""
    module = InLargeBatches(inputs, 3)
    module.fewest, module.trained_only = fewest, trained_only
    engine, _ = make_engine(module, shape=(inputs,))
    found = "evaluation" if trained_only else "never"
    assert engine.plans[0].padding == ("always" if inputs == 2000 and fewest == 65 else found)


def test_what_fails_for_large_batches_is_not_padded(make_engine):
    assert make_engine(OfFewSamples(4, 3))[0].plans[0].padding == "never"
    assert make_engine(nn.Linear(4, 3))[0].plans[0].padding == "always"


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_models_that_look_across_the_batch_are_judged_on_a_split_as_one_batch(make_engine, monkeypatch, backend):
    from graphcollab.engine import samples

    engine, models = make_engine(untracked(), sizes=(70, 40, 33), backend=backend)
    monkeypatch.setattr(samples, "CPU_BATCH_BYTES", 1)  # then others take 32 at a time
    losses, module = engine.loss(Rows.own(models), "val"), engine.backends[0].module
    for node, row in enumerate(models.tensors[0]):
        own, pool = engine.tasks.splits["val"].of(node), engine.tasks.pools["all"]
        models.specs[0].load_into(module, row).eval()
        torch.testing.assert_close(losses[node], F.cross_entropy(module(pool.inputs[own]), pool.targets[own]).detach())


def test_dropout_of_a_batch_is_drawn_for_the_batch_alone(make_engine):
    """A padded batch would draw others, and the gradient would not be the one of the first local step."""
    engine, models = make_engine(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), sizes=(7, 30, 4, 12))
    assert engine.plans[0].padding == "evaluation"
    rows = Rows.own(models)
    gradients = engine.batch_gradient(rows, batch_size=9, **KEY)[1]
    steps = LocalSteps(optimizer=SGD(lr=1.0), batch_size=9, steps=1)
    fitted = engine.fit(rows, steps, **KEY).models.tensors[0]
    torch.testing.assert_close(models.tensors[0] - fitted, gradients)
