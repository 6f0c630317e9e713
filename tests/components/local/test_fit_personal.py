from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from graphcollab import Method
from graphcollab.components import Fit, FitPersonal, Judge
from graphcollab.engine import SGD, Adam, Proximal
from graphcollab.engine.stack import ParamSpec
from graphcollab.testing import Scene
from tests.raising import raises

ALL, SOME = [True] * 6, [True, False, True, True, False, True]


def play(local, masks, scene=None):
    """Play one round per mask; return the states after them."""
    method = Method("m", local, judge=Judge(field="x_personal"))
    data, env = (scene or Scene.small()).begin(method)
    states = [data]
    for mask in masks:
        data.trains = torch.tensor(mask)
        data = method.play(data, env)
        states.append(data)
    return states


def test_pull_is_towards_the_rounds_start(points):
    """η = ½, λ = 1, c = 8, from 0. Shared: 4, 6. Personal: 4, then 4 - ((4 - 8) + (4 - 0)) / 2 = 4.

    A pull towards the moving shared model would lead to 6. In the next round, pulled towards 6: 4 - ((4 - 8) +
    (4 - 6)) / 2 = 7, 7 - ((7 - 8) + (7 - 6)) / 2 = 7; shared: 7, 7.5.
    """
    method = Method("m", FitPersonal(Fit(steps=2, optimizer=SGD(lr=0.5))), judge=Judge(field="x_personal"))
    data, env = points([[[8.0]]]).begin(method)
    data = method.play(data, env)
    assert (method.models(data, env).part("all").item(), data.x.part("all").item()) == (4.0, 6.0)
    data = method.play(data, env)
    assert (method.models(data, env).part("all").item(), data.x.part("all").item()) == (7.0, 7.5)


def test_training_loss_is_the_personal_models(points):
    """Before the two steps above: ½ 8² = 32, then ½ 4² + ½ 4² = 16."""
    method = Method("m", FitPersonal(Fit(steps=2, optimizer=SGD(lr=0.5))))
    data, env = points([[[8.0]]]).begin(method)
    assert method.play(data, env).train_loss.item() == 24.0


def test_without_pull_both_models_are_trained_alike():
    after = play(FitPersonal(Fit(epochs=2, batch_size=4), lam=0.0), [ALL])[-1]
    alone = play(FitPersonal(Fit(epochs=2, batch_size=4), lam=5.0), [ALL])[-1]
    torch.testing.assert_close(after.x_personal.tensors[0], after.x.tensors[0], rtol=0, atol=1e-14)
    assert torch.equal(after.x.tensors[0], alone.x.tensors[0])
    assert not torch.allclose(after.x_personal.tensors[0], alone.x_personal.tensors[0])


@pytest.mark.parametrize("shared_head", [False, True])
@pytest.mark.parametrize("optimizer", [SGD(lr=0.1), SGD(lr=0.1, momentum=0.9), Adam(lr=0.05)], ids=repr)
def test_nodes_at_rest_keep_their_personal_model(optimizer, shared_head):
    local = FitPersonal(Fit(batch_size=4, optimizer=optimizer, keep_state=True), part="head")
    _, first, second = play(local, [ALL, SOME], Scene.small(shared_head=shared_head))
    for node in range(6):
        for name in ("x", "x_personal"):
            same = torch.equal(first[name].row(node)[1], second[name].row(node)[1])
            assert same is not SOME[node]
        for slot in optimizer.slots:
            kept = torch.equal(first.personal_state[slot].row(node)[1], second.personal_state[slot].row(node)[1])
            assert kept is not SOME[node]
            apart = torch.equal(first.personal_state[slot].row(node)[1], first.fit_state[slot].row(node)[1])
            assert not apart
    assert torch.equal(first.personal_step[~torch.tensor(SOME)], second.personal_step[~torch.tensor(SOME)])


@pytest.mark.parametrize("part", ["all", "head", "backbone"])
def test_only_the_part_is_pulled(part):
    """Recomputed for node 1 with a plain module, gradients by autograd, all samples at once."""
    scene = Scene.small()
    method = Method("m", FitPersonal(Fit(steps=4, batch_size=100, optimizer=SGD(lr=0.2)), lam=2.0, part=part))
    data, env = scene.begin(method)
    module, spec = copy.deepcopy(scene.modules[0]), ParamSpec.from_module(scene.modules[0])
    tasks = scene.tasks
    where = tasks.splits["train"].of(1)
    inputs, targets = tasks.pools["train"].inputs[where], tasks.pools["train"].targets[where]
    for round_ in range(2):
        anchor = {name: p.detach().clone() for name, p in copy.deepcopy(scene.modules[0]).named_parameters()}
        if round_:
            anchor = dict(zip(spec.names, spec.views(data.x.tensors[0][1]), strict=True))
        for _ in range(4):
            module.zero_grad()
            F.cross_entropy(module(inputs), targets).backward()
            with torch.no_grad():
                for name, p in module.named_parameters():
                    pulled = part == "all" or name.startswith(part)
                    p -= 0.2 * (p.grad + (2.0 * (p - anchor[name]) if pulled else 0))
        data = method.play(data, env)
        torch.testing.assert_close(data.x_personal.tensors[0][1], spec.flatten(module), rtol=0, atol=1e-12)


def test_other_objectives_are_kept():
    """λ = 1 beside a proximal term of 1 is λ = 2, and the shared model has the proximal term alone."""
    one, two = Proximal(1.0), FitPersonal(Fit(batch_size=4), lam=2.0)
    both = play(FitPersonal(Fit(batch_size=4, objective=one), lam=1.0), [ALL])[-1]
    torch.testing.assert_close(
        both.x_personal.tensors[0], play(two, [ALL])[-1].x_personal.tensors[0], rtol=0, atol=1e-13
    )
    method = Method("m", Fit(batch_size=4, objective=one))
    assert torch.equal(both.x.tensors[0], Scene.small().play(method, rounds=1)[0].x.tensors[0])


def test_a_node_whose_loss_is_not_finite_keeps_its_last_good_personal_model():
    scene = Scene.small()
    method = Method(
        "m", FitPersonal(Fit(steps=200, batch_size=4, optimizer=SGD(lr=1e12))), judge=Judge(field="x_personal")
    )
    data, env = scene.begin(method)
    after = method.play(data, env._replace(isolate=True))
    assert bool(after.isolated.any())
    models = method.models(after, env).tensors[0]
    assert torch.equal(models[after.isolated], data.x.tensors[0][after.isolated])


def test_personal_models_of_an_earlier_phase_go_on():
    method = Method("m", FitPersonal(Fit(batch_size=4)), judge=Judge(field="x_personal"))
    data, env = Scene.small().play(method)
    assert torch.equal(method.start(data, env).x_personal.tensors[0], data.x_personal.tensors[0])


@pytest.mark.parametrize("lam", [-1.0, float("inf"), float("nan")])
def test_strength_is_checked(lam):
    with raises("value", "lam"):
        FitPersonal(lam=lam)


def test_unknown_part_is_refused():
    with raises("unknown", "part 'tail'", kind=KeyError):
        play(FitPersonal(part="tail"), [])


def test_personal_models_must_be_trained():
    with raises("unknown", "judge", "'x_personal'"):
        Scene.small().begin(Method("m", Fit(), judge=Judge(field="x_personal")))
