"""Local steps on static tensors are the steps that they stand for, computed or replayed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from graphcollab.engine import SGD, Adam, AdamW, LocalSteps, Plan, Proximal, Rows, static_steps
from tests.engine.test_backends_agree import MODULES, mlp

MOMENTUM = SGD(lr=0.1, weight_decay=0.01, momentum=0.9)  # without it the CPU has a kernel of its own
ALIKE, UNLIKE = (6, 6, 6, 6), (7, 4, 10, 5)


@pytest.fixture(params=["computed", pytest.param("replayed", marks=pytest.mark.slow)])
def replayed(request, monkeypatch):
    """Steps are replayed on the CPU, too: operations that were traced, on the very tensors that they were traced on."""
    recorded = []

    def record(step, changed, memory):
        before = [values.clone() for values in changed]
        traced = make_fx(step)()
        for values, old in zip(changed, before, strict=True):
            values.copy_(old)
        recorded.append(traced)
        return SimpleNamespace(replay=traced, pool=lambda: "pool")

    if request.param == "replayed":
        monkeypatch.setattr(static_steps, "record", record)
        monkeypatch.setattr(static_steps, "REPLAYED", {"cpu"})
    return recorded if request.param == "replayed" else None


def engines(make_engine, *args, backend="vmap", **settings):
    plain, models = make_engine(*args, backend="vmap", **settings)
    plans = [replace(plan, backend=backend, graphs=True) for plan in plain.plans]
    return plain, make_engine(*args, plans=plans, **settings)[0], models


def fits(engine, models, rounds=3, optimizer=None, steps=None, **given):
    """Return models, states, and losses after some rounds."""
    how = LocalSteps(optimizer=optimizer or MOMENTUM, **(steps or {"batch_size": 3, "epochs": 2}))
    state = {}
    for round_ in range(rounds):
        fitted = engine.fit(Rows.own(models), how, seed=3, round_=round_, **state, **given)
        models, state = fitted.models, {"slots": fitted.slots, "step": fitted.step}
    moments = [tensor for many in fitted.slots.values() for tensor in many.tensors]
    return [*models.tensors, *moments, fitted.loss]


def pairs(plain, static, models, **given):
    return zip(fits(plain, models, **given), fits(static, models, **given), strict=True)


BITS = [(kind, MOMENTUM, 0.0) for kind in MODULES]
CLOSE = [(kind, AdamW(lr=0.05), 1e-12) for kind in MODULES if kind != "batch_norm"]  # there some gradients are noise


@pytest.mark.parametrize(("kind", "optimizer", "within"), BITS + CLOSE, ids=str)
def test_batches_of_one_length_give_the_same_bits(make_engine, kind, optimizer, within, replayed):
    """But for Adam's, whose powers are of a tensor here and of a number there."""
    make, shape = MODULES[kind]
    plain, static, models = engines(make_engine, make(), shape, sizes=ALIKE)
    for one, other in pairs(plain, static, models, optimizer=optimizer):
        torch.testing.assert_close(one, other, rtol=within, atol=within)
    assert replayed is None or len(replayed) == 1  # in three rounds


@pytest.mark.parametrize("kind", ["mlp", "cnn", "scaled"])
@pytest.mark.parametrize("optimizer", [MOMENTUM, Adam(lr=0.05)], ids=repr)
def test_rows_that_rest_and_batches_that_are_padded(make_engine, kind, optimizer, replayed):
    make, shape = MODULES[kind]
    plain, static, models = engines(make_engine, make(), shape, sizes=UNLIKE)
    for one, other in pairs(plain, static, models, optimizer=optimizer):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    assert replayed is None or len(replayed) <= 4


def test_models_that_look_across_a_batch_are_not_padded(make_engine, replayed):
    plain, static, models = engines(make_engine, MODULES["batch_norm"][0](), sizes=(8, 6, 9, 5))
    for one, other in pairs(plain, static, models):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_anchors_and_losses_that_read_them(make_engine, replayed):
    plain, static, models = engines(make_engine, mlp(), sizes=UNLIKE)
    given = {"objective": plain.objective + Proximal(0.5), "anchor": models}
    for one, other in pairs(plain, static, models, **given):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_shares_of_the_own_model(make_engine, replayed):
    plain, static, models = engines(make_engine, mlp(), sizes=UNLIKE)
    given = {"scale": {"all": torch.tensor([1.0, 0.5, 0.25, 0.0], dtype=torch.float64)}}
    for one, other in pairs(plain, static, models, **given):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_what_is_recorded_serves_other_models_and_shorter_rounds(make_engine, replayed):
    """Another optimizer, or other rows, are recorded anew."""
    plain, static, models = engines(make_engine, mlp(), sizes=ALIKE)
    other = models.like(tuple(1 - tensor for tensor in models.tensors))
    for given, steps in ((models, 3), (models, 3), (models, 4), (other, 2), (models, 1)):
        found = [fits(engine, given, 1, steps={"batch_size": 3, "steps": steps})[0] for engine in (plain, static)]
        assert torch.equal(*found)
    assert replayed is None or len(replayed) == 1
    fits(static, models, optimizer=SGD(lr=0.2))
    assert replayed is None or len(replayed) == 2


def test_an_engine_that_begins_later_gives_the_same_bits(make_engine, replayed):
    """As a run that is resumed does: of batches that are padded, and rows that rest."""
    _, static, models = engines(make_engine, mlp(), sizes=UNLIKE)
    how, state, found = LocalSteps(optimizer=MOMENTUM, batch_size=3, epochs=2), {}, None
    for round_ in range(4):
        if round_ == 3:
            later = engines(make_engine, mlp(), sizes=UNLIKE)[1]
            found = later.fit(Rows.own(models), how, seed=3, round_=round_, **state).models.tensors[0]
        fitted = static.fit(Rows.own(models), how, seed=3, round_=round_, **state)
        models, state = fitted.models, {"slots": fitted.slots, "step": fitted.step}
    assert torch.equal(models.tensors[0], found)


def test_losses_of_a_users_own_are_not_recorded(make_engine, replayed):
    """They may read what changes from round to round."""
    loss = lambda outputs, targets: torch.nn.functional.cross_entropy(outputs, targets)  # noqa: E731
    plain, static, models = engines(make_engine, mlp(), sizes=ALIKE, loss=loss)
    for one, other in pairs(plain, static, models, rounds=4):
        assert torch.equal(one, other)
    assert not replayed


def test_a_step_that_cannot_be_recorded_is_computed(make_engine, monkeypatch):
    def record(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(static_steps, "record", record)
    monkeypatch.setattr(static_steps, "REPLAYED", {"cpu"})
    plain, static, models = engines(make_engine, mlp(), sizes=ALIKE)
    with pytest.warns(
        RuntimeWarning, match=r"as a CUDA graph \(operation not permitted when stream is capturing\)"
    ) as told:
        found = fits(static, models)
    assert torch.equal(found[0], fits(plain, models)[0])
    assert len(told) == 1


def test_models_that_draw_are_not_static(make_engine, replayed):
    module = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 3))
    plain, static, models = engines(make_engine, module, sizes=ALIKE)
    assert torch.equal(fits(plain, models)[0], fits(static, models)[0])
    assert not replayed


@pytest.mark.parametrize("kind", MODULES)
def test_rows_one_after_the_other_in_one_step(make_engine, kind, replayed):
    make, shape = MODULES[kind]
    plain, static, models = engines(make_engine, make(), shape, sizes=(8, 6, 9, 5), backend="unrolled")
    for one, other in pairs(plain, static, models):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", MODULES)
def test_rows_one_after_the_other_without_graphs(make_engine, kind):
    make, shape = MODULES[kind]
    vmap, unrolled = (make_engine(make(), shape, sizes=(8, 6, 9, 5), backend=one)[0] for one in ("vmap", "unrolled"))
    models = make_engine(make(), shape, sizes=(8, 6, 9, 5))[1]
    for one, other in pairs(vmap, unrolled, models):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    rows = Rows.own(models)
    torch.testing.assert_close(vmap.loss(rows, "val"), unrolled.loss(rows, "val"), rtol=1e-9, atol=1e-10)
    for one, other in zip(vmap.grad(rows, "val"), unrolled.grad(rows, "val"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_only_rows_that_step_together_have_graphs():
    with pytest.raises(ValueError, match="backend 'loop' takes no steps together that a graph could hold"):
        Plan("loop", 1, "asked for", graphs=True)
