"""What only the loop can: recurrent layers, and randomness inside layers keyed per node."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.engine import SGD, LocalSteps, Rows

FIT = LocalSteps(batch_size=3, optimizer=SGD(lr=0.1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(self.lstm(inputs)[0][:, -1])


def dropout():
    return nn.Sequential(nn.Linear(4, 20), nn.Dropout(0.5), nn.Linear(20, 3))


class Functional(nn.Module):
    """Drops units by a function, which no list of layers shows."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 20), nn.Linear(20, 3)

    def forward(self, inputs):
        return self.head(F.dropout(self.body(inputs), 0.5, self.training))


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(self.attention(inputs, inputs, inputs, need_weights=False)[0].mean(1))


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(self.lstm(inputs)[0][:, -1])


RANDOM = [(dropout, (4,)), (Functional, (4,)), (Attending, (5, 4)), (Stacked, (5, 4))]
random_models = pytest.mark.parametrize(("model", "shape"), RANDOM, ids=["layer", "function", "attention", "lstm"])


def test_recurrent_layers_train(make_engine):
    engine, models = make_engine(Recurrent(), (6, 2))
    assert engine.plans[0].backend == "loop"
    before = engine.loss(Rows.own(models), "train")
    fitted = engine.fit(Rows.own(models), replace(FIT, epochs=30), seed=0, round_=0)
    assert (engine.loss(Rows.own(fitted.models), "train") < before).all()
    losses, gradients = engine.grad(Rows.own(models), "train")
    torch.testing.assert_close(losses, before)
    assert gradients.shape == models.tensors[0].shape


@random_models
def test_dropout_is_keyed_by_node_and_round(make_engine, model, shape):
    engine, models = make_engine(model(), shape, chunk=4)
    assert engine.plans[0].backend == "loop"
    whole = engine.fit(Rows.own(models), FIT, seed=0, round_=0).models.tensors[0]
    for chunk, order in ((1, [0, 1, 2, 3]), (3, [3, 1, 0])):
        other, _ = make_engine(model(), shape, chunk=chunk)
        torch.manual_seed(chunk)
        some = other.fit(Rows.own(models, torch.tensor(order)), FIT, seed=0, round_=0).models.tensors[0]
        assert torch.equal(some, whole[order])
    assert not torch.equal(engine.fit(Rows.own(models), FIT, seed=0, round_=1).models.tensors[0], whole)


def test_dropout_differs_between_nodes(make_engine):
    """Nodes with the same model and the same data drop different units."""
    engine, models = make_engine(dropout(), sizes=(6, 6))
    pool, split = engine.tasks.pools["all"], engine.tasks.splits["train"]
    pool.inputs[split.of(1)], pool.targets[split.of(1)] = pool.inputs[split.of(0)], pool.targets[split.of(0)]
    models.tensors[0][1] = models.tensors[0][0]
    new = engine.fit(Rows.own(models), replace(FIT, batch_size=6), seed=0, round_=0).models.tensors[0]
    assert not torch.allclose(new[0], new[1])


@random_models
def test_dropout_leaves_the_global_generator_alone(make_engine, model, shape):
    for backend in ("loop", "vmap") if model in (dropout, Functional) else ("loop",):
        engine, models = make_engine(model(), shape, backend=backend)
        before = torch.get_rng_state()
        engine.fit(Rows.own(models), FIT, seed=0, round_=0)
        assert torch.equal(before, torch.get_rng_state())


def test_dropout_is_off_when_models_are_judged(make_engine):
    engine, models = make_engine(dropout())
    rows = Rows.own(models)
    engine.fit(rows, FIT, seed=0, round_=0)
    assert torch.equal(engine.loss(rows, "val"), engine.loss(rows, "val"))
    assert torch.equal(engine.grad(rows, "val")[1], engine.grad(rows, "val")[1])
