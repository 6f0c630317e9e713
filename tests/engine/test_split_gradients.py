"""Losses and gradients on whole splits are the same where samples stay on the card, computed or replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab.engine import Rows, standing, static_steps
from tests.engine.test_backends_agree import mlp
from tests.raising import warns
from tests.replays import trace


@pytest.fixture
def traced(monkeypatch):
    monkeypatch.setattr(static_steps, "REPLAYED", {"cpu"})
    return trace(monkeypatch)


def gradients(make_engine, rounds=4, nodes=None, **settings):
    """Return losses, gradients, and losses alone, of other models in every round: plain and replayed ones."""
    plain, models = make_engine(mlp(), sizes=(6, 3, 4, 9), backend="vmap", **settings)
    plans = [replace(plan, graphs=True) for plan in plain.plans]
    static, _ = make_engine(mlp(), sizes=(6, 3, 4, 9), plans=plans, **settings)
    for round_ in range(rounds):
        moved = models.like(tuple(round_ + tensor for tensor in models.tensors))
        rows = Rows.own(moved, None if nodes is None else nodes[round_])
        both = plain, static
        yield tuple((*engine.grad(rows, "train"), engine.loss(rows, "train")) for engine in both)


def test_they_are_the_same_bits(make_engine, traced):
    for one, other in gradients(make_engine):
        assert all(map(torch.equal, one, other))
    assert len(traced) == 2


def test_other_nodes_have_other_samples(make_engine, traced):
    nodes = [torch.tensor(some) for some in ([0, 1], [0, 1], [0, 1], [2, 3], [2, 3], [0, 1])]
    for one, other in gradients(make_engine, 6, nodes):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    assert len(traced) == 4


def test_more_rows_than_there_is_room_for_are_computed(make_engine, traced, monkeypatch):
    monkeypatch.setattr(standing, "LARGEST", 8)
    for one, other in gradients(make_engine):
        assert all(map(torch.equal, one, other))
    assert not traced


def test_losses_of_a_users_own_are_not_recorded(make_engine, traced):
    loss = lambda outputs, targets: torch.nn.functional.cross_entropy(outputs, targets)  # noqa: E731
    for one, other in gradients(make_engine, loss=loss):
        assert all(map(torch.equal, one, other))
    assert not traced


def test_what_cannot_be_recorded_is_computed(make_engine, traced, monkeypatch):
    def record(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(static_steps, "record", record)
    with warns("unsupported") as said:
        found = [*gradients(make_engine)]
    assert all(torch.equal(*both) for one, other in found for both in zip(one, other, strict=True))
    assert [one.message.subject for one in said] == ["a gradient", "losses"]


def test_chunks_are_recorded_each_for_itself(make_engine, traced):
    for one, other in gradients(make_engine, chunk=2):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    assert len(traced) == 4  # two chunks, gradients and losses


def test_other_tasks_are_not_those_that_stay(make_engine, traced):
    plain, models = make_engine(mlp(), sizes=(6, 3, 4, 9), backend="vmap")
    static, _ = make_engine(mlp(), sizes=(6, 3, 4, 9), plans=[replace(plan, graphs=True) for plan in plain.plans])
    rows = Rows.own(models)
    for _ in range(3):
        static.loss(rows, "train")
    split = plain.tasks.splits["train"]
    first = split.ptr[:-1]
    few = replace(split, index=split.index[first], ptr=torch.arange(len(first) + 1))
    tasks = replace(plain.tasks, splits={**plain.tasks.splits, "train": few})
    assert torch.equal(static.on(tasks).loss(rows, "train"), plain.on(tasks).loss(rows, "train"))
    assert not torch.equal(static.on(tasks).loss(rows, "train"), static.loss(rows, "train"))


def test_modules_that_nobody_knows_are_computed(make_engine, traced):
    """What they read besides models and samples may change."""

    class Scaled(nn.Module):
        scale = 1.0

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return self.scale * self.layer(x)

    module = Scaled()
    plain, models = make_engine(module, sizes=(6, 3, 4, 9), backend="vmap")
    static, _ = make_engine(module, sizes=(6, 3, 4, 9), plans=[replace(plan, graphs=True) for plan in plain.plans])
    for round_ in range(4):
        for engine in (plain, static):
            engine.backends[0].module.scale = 1.0 + round_
        assert torch.equal(*(engine.loss(Rows.own(models), "train") for engine in (plain, static)))
    assert not traced
