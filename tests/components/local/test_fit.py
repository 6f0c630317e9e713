from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Method, Tasks, run
from graphcollab.components import Fit
from graphcollab.engine import SGD, Adam, AddNoise, Proximal, SupervisedContrast, Views
from graphcollab.testing import Scene
from tests.raising import raises


def play(fit, masks, shared_head=False):
    """Play one round per mask; return the states after them."""
    method, scene = Method("m", fit), Scene.small(shared_head=shared_head)
    data, env = scene.begin(method)
    states = [data]
    for mask in masks:
        data.trains = torch.tensor(mask)
        data = method.play(data, env)
        states.append(data)
    return states


ALL, SOME = [True] * 6, [True, False, True, True, False, True]


@pytest.mark.parametrize("shared_head", [False, True])
@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, momentum=0.9), Adam(lr=0.05)], ids=["sgd", "adam"])
def test_idle_nodes_keep_model_and_optimizer_state(optimizer, shared_head):
    fit = Fit(epochs=1, batch_size=4, optimizer=optimizer, keep_state=True)
    _, first, second = play(fit, [ALL, SOME], shared_head)
    for node in range(6):
        same = torch.equal(first.x.row(node)[1], second.x.row(node)[1])
        assert same is not SOME[node]
        for slot in optimizer.slots:
            kept = torch.equal(first.fit_state[slot].row(node)[1], second.fit_state[slot].row(node)[1])
            assert kept is not SOME[node]
    rested = ~torch.tensor(SOME)
    assert torch.equal(first.fit_step[rested], second.fit_step[rested])
    assert (second.fit_step[~rested] == 2 * first.fit_step[~rested]).all()
    assert torch.equal(first.train_loss[rested], second.train_loss[rested])


@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, momentum=0.9), Adam(lr=0.05)], ids=["sgd", "adam"])
def test_a_node_that_rested_equals_one_that_was_alone(optimizer):
    """Node 1 trains in rounds 0 and 2. So does a run in which nobody else does anything."""
    fit = Fit(epochs=1, batch_size=4, optimizer=optimizer, keep_state=True)
    only = [k == 1 for k in range(6)]
    busy = play(fit, [ALL, SOME, ALL])[-1]
    quiet = play(fit, [only, [False] * 6, only])[-1]
    torch.testing.assert_close(busy.x.row(1)[1], quiet.x.row(1)[1], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(busy.fit_step[1], quiet.fit_step[1])


def test_nobody_trains():
    start, after = play(Fit(), [[False] * 6])
    assert torch.equal(start.x.part("all"), after.x.part("all"))
    assert after.bad_step.tolist() == [-1] * 6


def test_steps_in_place_of_epochs():
    fit = Fit(steps=7, batch_size=4, keep_state=True)
    assert play(fit, [ALL])[-1].fit_step.tolist() == [7] * 6


def test_a_strong_pull_keeps_nodes_at_the_rounds_start():
    free, pulled = (
        play(Fit(epochs=5, optimizer=SGD(lr=0.01), objective=objective), [ALL]) for objective in (None, Proximal(50.0))
    )
    moved = [float((states[1].x.part("all") - states[0].x.part("all")).norm()) for states in (free, pulled)]
    assert moved[1] < moved[0] / 2


def test_a_batch_of_one_sample_is_refused_where_the_model_needs_more():
    """The nodes have 7, 8 and 9 samples."""
    x, y = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3
    tasks = Tasks.from_samples([(x[:n], y[:n]) for n in (7, 8, 9)], names=("ada", "bob", "cy"), val_fraction=0.0)
    normed = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))

    def play(model=normed, **settings):
        return run(Method("m", Fit(**settings)), tasks, model, rounds=1)

    with raises("too-few", "batch_size", "batch_size=6", "'ada' (1 in all)", "Sequential"):
        play(batch_size=6)
    with raises("too-few", "batch_size", "'ada'", "'bob'", "'cy'"):
        play(batch_size=1)
    with raises("too-few", "batch_size", "4", "'cy'"):
        play(batch_size=4, steps=3)
    for settings in ({"batch_size": 5}, {"batch_size": 4, "steps": 2}, {"model": nn.Linear(4, 3), "batch_size": 1}):
        assert play(**settings).data.round == 1


@pytest.mark.parametrize("settings", [{"epochs": 0}, {"steps": 0}, {"batch_size": 0}, {"steps": 1.5}, {"epochs": True}])
def test_refusals(settings):
    with raises("value", *settings):
        Fit(**settings)


def test_an_optimizer_by_name():
    assert Fit(optimizer="adam").optimizer == Adam()
    with raises("value", "optimizer", "LBFGS"):
        Fit(optimizer=torch.optim.LBFGS)


def test_the_first_view_is_one_of_several():
    with raises("missing", "views"):
        Fit(first_view=True)


def blank_second(views):
    """Take the second half of the samples, which is the second view, away."""
    first, second = views.chunk(2)
    return torch.cat([first, torch.zeros_like(second)])


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_the_tasks_loss_may_judge_the_first_view_only(backend):
    """With the samples themselves for a first view that is training without views."""
    settings = {"epochs": 2, "batch_size": 4, "optimizer": SGD(lr=0.1)}
    scene = Scene.small(embeds=True).replace(backend=backend)

    def trained(**options):
        data, _ = scene.play(Method("m", Fit(**settings, **options)), rounds=1)
        return data.x.tensors[0], data.train_loss

    (plain, loss), (first, seen) = trained(), trained(views=Views(blank_second), first_view=True)
    torch.testing.assert_close(first, plain, rtol=0, atol=1e-12)
    assert seen.tolist() == pytest.approx(loss.tolist())
    assert not torch.allclose(trained(views=Views(blank_second))[0], plain)
    contrast = SupervisedContrast()
    both = [trained(views=Views(blank_second), first_view=one, objective=contrast)[0] for one in (True, False)]
    assert not torch.allclose(both[0], plain)
    assert not torch.allclose(both[0], both[1])


def test_all_that_it_holds_is_walked():
    fit = Fit(objective=2.0 * Proximal(1.0), views=Views(AddNoise()), through="head")
    kinds = [type(piece).__name__ for piece in fit.walk()]
    assert kinds == ["Fit", "SGD", "Sum", "Proximal", "Views", "AddNoise"]


@pytest.mark.parametrize("keep_state", [False, True])
def test_what_it_writes_is_declared(keep_state):
    before, after = play(Fit(batch_size=4, keep_state=keep_state), [ALL])
    declared = {field.name for field in Fit.keeps}
    written = {name for name in after.keys() if name not in before or after[name] is not before[name]}  # noqa: SIM118
    assert written & declared == {"train_loss", "bad_step"} | ({"fit_state", "fit_step"} if keep_state else set())
