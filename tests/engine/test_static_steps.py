"""Local steps on static tensors are the steps that they stand for, computed or replayed."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from graphcollab import methods
from graphcollab.engine import SGD, Adam, AdamW, Engine, LocalSteps, Proximal, Rows, stacked_backend, static_steps
from graphcollab.engine.plan import Plan
from graphcollab.testing import Scene
from tests.engine.test_backends_agree import MODULES, mlp
from tests.methods.quick import quick
from tests.raising import raises, warns

MOMENTUM = SGD(lr=0.1, weight_decay=0.01, momentum=0.9)  # without it the CPU has a kernel of its own
ALIKE, UNLIKE = (6, 6, 6, 6), (7, 4, 10, 5)
PULLED = ["ditto", "fedamp", "fedproto", "pfedgraph"]  # objectives beside the loss
VIEWED, STEPLESS = ["fedclassavg", "mapl"], ["cga", "fc"]  # the last two exchange gradients


@pytest.fixture(params=["computed", pytest.param("replayed", marks=pytest.mark.slow)])
def replayed(request, monkeypatch):
    """Steps are replayed on the CPU, too: operations that were traced, on the very tensors that they were traced on."""
    recorded = []

    def record(step, changed, memory):
        before = [values.clone() for values in changed]
        for _ in range(static_steps.WARM_UP):  # which must stay in bounds
            step()
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
    return [*models.tensors, *moments, fitted.told()[0]]


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


@pytest.mark.parametrize("sizes", [ALIKE, UNLIKE])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_plain_steps_of_linear_layers_in_the_backward_pass(make_engine, sizes, decay, monkeypatch, replayed):
    """As plain PyTorch takes them; what has momentum, or a loss that pulls at the weights, has gradients."""
    taken = []
    plain = stacked_backend.take_step
    monkeypatch.setattr(static_steps, "take_step", lambda *given: taken.append(given[2]) or plain(*given))
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 3, bias=False))
    _, static, models = engines(make_engine, module, sizes=sizes)
    loop = make_engine(module, sizes=sizes, backend="loop")[0]
    optimizer = SGD(lr=0.1, weight_decay=decay)
    for one, other in pairs(loop, static, models, optimizer=optimizer):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    assert any(grad is None for grads in taken for grad in grads)
    taken.clear()
    pull = {"objective": loop.objective + Proximal(0.5), "anchor": models}
    for given in ({"optimizer": MOMENTUM}, {"optimizer": optimizer, **pull}):
        for one, other in pairs(loop, static, models, **given):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    assert all(grad is not None for grads in taken for grad in grads)


@pytest.mark.parametrize("sizes", [ALIKE, UNLIKE])
def test_weights_of_samples(make_engine, sizes, replayed):
    *both, models = engines(make_engine, mlp(), sizes=sizes)
    weight, weighted = torch.arange(1, sum(sizes) + 1).double(), []
    for engine in both:
        backend = engine.backends[0]
        pools = {name: replace(pool, weight=weight) for name, pool in engine.tasks.pools.items()}
        tasks = replace(engine.tasks, pools=pools)
        weighted.append(Engine(tasks, [backend.module], [backend.spec], plans=engine.plans))
    for one, other in pairs(*weighted, models):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    assert replayed is None or replayed


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


def test_rounds_of_more_steps_than_there_is_room_for(make_engine, replayed):
    plain, static, models = engines(make_engine, mlp(), sizes=ALIKE)
    for steps in (3, 3, 4, 9, 2, 16, 9):
        found = [fits(engine, models, 1, steps={"batch_size": 3, "steps": steps}) for engine in (plain, static)]
        for one, other in zip(*found, strict=True):
            assert torch.equal(one, other)
    assert replayed is None or len(replayed) == 2  # for up to 4, and for up to 16


def test_other_nodes_of_the_same_number(make_engine, replayed):
    """They share static steps, with other lengths of batches."""
    plain, static, models = engines(make_engine, mlp(), sizes=(*ALIKE, *UNLIKE))
    how = LocalSteps(optimizer=MOMENTUM, batch_size=3, epochs=2)
    for round_, first in enumerate((0, 4, 0, 4, 2)):
        rows = Rows.own(models, torch.arange(first, first + 4))
        one, other = (engine.fit(rows, how, seed=3, round_=round_) for engine in (plain, static))
        torch.testing.assert_close(one.models.tensors[0], other.models.tensors[0], rtol=1e-9, atol=1e-10)
        for told in zip(one.told(), other.told(), strict=True):
            torch.testing.assert_close(*told, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("room", "expected"), [(2**30, 2), (0, 0)])
def test_steps_that_had_to_make_room_are_not_recorded_anew_every_time(
    make_engine, monkeypatch, room, expected, replayed
):
    monkeypatch.setattr(stacked_backend, "KEPT_BYTES", room)
    _, static, models = engines(make_engine, mlp(), sizes=ALIKE)
    for _ in range(4):
        for rate in (0.1, 0.2):
            fits(static, models, 1, optimizer=SGD(lr=rate))
    assert replayed is None or len(replayed) == expected


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
    with warns("unsupported", "a local step") as told:
        found = fits(static, models)
    assert torch.equal(found[0], fits(plain, models)[0])
    assert len(told) == 1


def test_models_that_draw_are_not_static(make_engine, replayed):
    module = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 3))
    plain, static, models = engines(make_engine, module, sizes=ALIKE)
    assert torch.equal(fits(plain, models)[0], fits(static, models)[0])
    assert not replayed


@pytest.mark.parametrize(
    "name", [name if name in PULLED else pytest.param(name, marks=pytest.mark.slow) for name in methods.__all__]
)
def test_local_steps_of_methods_are_recorded_in_their_second_round(name, monkeypatch):
    """And replayed from then on, where an objective pulls, too; but for views, which are drawn node by node."""
    recorded, counts = [], Counter()

    def record(step, changed, memory):
        if not isinstance(step, partial):  # losses, gradients, codes: not local steps
            return SimpleNamespace(replay=step)
        recorded.append(step)
        return SimpleNamespace(replay=lambda: counts.update(["replayed"]) or step(), pool=lambda: "pool")

    def counted(owner, name):
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: counts.update([name]) or plain(*given))

    monkeypatch.setattr(static_steps, "record", record)
    monkeypatch.setattr(static_steps, "REPLAYED", {"cpu"})
    counted(static_steps.StaticSteps, "_step")
    counted(stacked_backend, "take_step")  # of others than static ones
    method = quick(name, fraction=1.0)
    scene = Scene.small(sizes=(8, 9, 8, 6), embeds=method.embeds).replace(backend="vmap")
    data, env = scene.begin(method)
    for backend in env.engine.backends:
        backend.graphs = True
    for round_ in range(4):
        already = len(recorded)
        counts.clear()
        data = method.play(data, env)
        if round_ >= 2:
            assert len(recorded) == already
            assert counts["_step"] == counts["replayed"]
            assert counts["take_step"] == 0 or name in VIEWED
            assert counts["_step"] > 0 or name in VIEWED + STEPLESS


@pytest.mark.parametrize("name", ["ifca", *(pytest.param(name, marks=pytest.mark.slow) for name in methods.__all__)])
def test_methods_end_with_the_same_models_where_they_are_replayed(name, monkeypatch):
    """Whatever they ask for besides local steps: losses, gradients, codes. Fewer samples than all are no others'."""

    def record(step, changed, memory):
        before = [values.clone() for values in changed]
        traced = make_fx(step)()
        for values, old in zip(changed, before, strict=True):
            values.copy_(old)
        return SimpleNamespace(replay=traced, pool=lambda: "pool")

    monkeypatch.setattr(static_steps, "record", record)
    found = []
    for devices in (set(), {"cpu"}):
        monkeypatch.setattr(static_steps, "REPLAYED", devices)
        method = quick(name, augment=None)
        scene = Scene.small(sizes=(8, 13, 9, 13, 10, 11), embeds=method.embeds).replace(backend="vmap")
        data, env = scene.begin(method)
        for backend in env.engine.backends:
            backend.graphs = bool(devices)
        for _ in range(4):
            data = method.play(data, env)
        found.append(data.x.tensors)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_pytorchs_remark_on_waits_is_not_shown(monkeypatch):
    message = "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations"
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda _: warnings.warn(message, stacklevel=1))
    static_steps._check_waits("error")  # warnings are errors in tests


def test_only_rows_that_step_together_have_graphs():
    with raises("conflict", "graphs", "'loop'"):
        Plan("loop", 1, "asked for", graphs=True)
