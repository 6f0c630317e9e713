from __future__ import annotations

import pytest
import torch

from graphcollab import Method, Phases, run
from graphcollab.components import Exchange, Fit, FitWithReference, PeerWeights, PrototypeDistance
from graphcollab.engine import SGD, Adam, Proximal
from graphcollab.methods import local, meta_l2c
from graphcollab.testing import Scene
from graphcollab.transforms import WithSelfLoops
from tests.raising import raises

STEP = {"epochs": 2, "batch_size": 4, "lr": 0.1}


def mixing(fit):
    """Models are averaged every round; beside each a reference is trained."""
    return Method("m", FitWithReference(fit), PeerWeights(), Exchange(), prepare=WithSelfLoops())


def play(method, masks, scene=None):
    data, env = (scene or Scene.small()).begin(method)
    states = [data]
    for mask in masks:
        data.trains = data.serves = torch.tensor(mask)
        data = method.play(data, env)
        states.append(data)
    return states


ALL, SOME = [True] * 6, [True, False, True, True, False, True]


@pytest.mark.parametrize("optimizer", [SGD(lr=0.1), Adam(lr=0.01)], ids=["sgd", "adam"])
@pytest.mark.parametrize("keep_state", [False, True])
def test_references_are_what_local_training_gives(optimizer, keep_state):
    """Bit for bit, with nodes at rest and whatever state the optimizer keeps; and they change nothing else."""
    fit = Fit(epochs=2, batch_size=4, optimizer=optimizer, keep_state=keep_state)
    states = play(mixing(fit), [ALL, SOME, ALL])
    alone = play(Method("alone", fit), [ALL, SOME, ALL])
    without = play(mixing(fit).replace(local=fit), [ALL, SOME, ALL])
    for data, expected, bare in zip(states[1:], alone[1:], without[1:], strict=True):
        assert torch.equal(data.x_alone.tensors[0], expected.x.tensors[0])
        assert torch.equal(data.x.tensors[0], bare.x.tensors[0])
        assert torch.equal(data.train_loss, bare.train_loss)
        assert not torch.allclose(data.x.tensors[0], expected.x.tensors[0])


def test_meta_l2c_trains_what_local_does():
    scene = Scene.small(torch.float32)
    settings = {"rounds": 3, "seed": 4}
    mixed = run(meta_l2c(**STEP, weight_decay=0.0), scene.tasks, scene.modules[0], **settings)
    alone = run(local(**STEP, weight_decay=0.0), scene.tasks, scene.modules[0], **settings)
    assert torch.equal(mixed.data.x_alone.tensors[0], alone.data.x.tensors[0])
    assert mixed.data.alone_loss.tolist() == pytest.approx(alone.history.values["val_loss"][-1].tolist(), rel=1e-6)


def test_references_have_their_own_anchor():
    fit = Fit(epochs=2, batch_size=4, objective=Proximal(1.0))
    data, alone = (play(method, [ALL, ALL])[-1] for method in (mixing(fit), Method("alone", fit)))
    assert torch.equal(data.x_alone.tensors[0], alone.x.tensors[0])


def test_references_go_on_after_local_training():
    """Adam's state, which an earlier phase has left, is the reference's, too."""
    fit = Fit(epochs=1, batch_size=4, optimizer=Adam(lr=0.01), keep_state=True)
    alone = Method("alone", fit)
    scene = Scene.small()
    together, expected = (scene.play(Phases(alone, 2, second), rounds=4)[0] for second in (mixing(fit), alone))
    assert torch.equal(together.x_alone.tensors[0], expected.x.tensors[0])


@pytest.mark.parametrize("fit", [Fit(through="all"), Fit(objective=PrototypeDistance())], ids=["through", "reads"])
def test_local_steps_that_hear_others_are_refused(fit):
    with raises("unsupported", "local"):
        FitWithReference(fit)


def test_all_that_is_kept_is_declared():
    method = mixing(Fit(epochs=1, batch_size=4, optimizer=Adam(lr=0.01), keep_state=True))
    data = play(method, [ALL])[-1]
    kept = {name for name in data.to_dict() if name.startswith("alone")}
    assert kept == {"alone", "alone_state", "alone_step", "alone_loss"}
    assert kept <= {field.name for field in method.fields}


def test_nodes_left_behind_train_none():
    data, env = Scene.small().begin(Method("m", Fit(epochs=1, batch_size=4)))
    data.isolated = torch.tensor([False, True, False, False, False, False])
    found = FitWithReference(Fit(epochs=1, batch_size=4)).init(data, env)
    assert found.alone.tolist() == [True, False, True, True, True, True]


def test_losses_by_hand(points):
    """A point at 8 for training, one at 6 for validation, and steps of ½: models are 4 and 6, losses ½ 2² and 0."""
    method = mixing(Fit(steps=1, optimizer=SGD(lr=0.5)))
    data, env = points([[[8.0]], [[0.0]]], [[[6.0]], [[1.0]]]).begin(method)
    data = method.play(data, env)
    assert (data.x_alone.part("all").tolist(), data.alone_loss.tolist()) == ([[4.0], [0.0]], [2.0, 0.5])
    data = method.play(data, env)
    assert (data.x_alone.part("all").tolist(), data.alone_loss.tolist()) == ([[6.0], [0.0]], [0.0, 0.5])


def test_nodes_at_rest_or_taken_out_keep_theirs():
    method = mixing(Fit(epochs=1, batch_size=4))
    data, env = Scene.small().begin(method)
    data = method.play(data, env)
    before = data.x_alone.tensors[0]
    data.trains = data.serves = torch.tensor(SOME)
    data.alone = torch.tensor([True, True, True, False, False, True])
    data = method.play(data, env)
    still = (data.x_alone.tensors[0] == before).all(1)
    assert still.tolist() == [False, True, False, True, True, False]
    assert data.alone_loss.isfinite().tolist() == [True, False, True, False, False, True]
    data.alone = torch.zeros(6, dtype=torch.bool)
    after = method.play(data, env)
    assert torch.equal(after.x_alone.tensors[0], data.x_alone.tensors[0])
    assert after.alone_loss.isnan().all()


def test_references_that_diverge_stop_nobody(points):
    """With steps of 10²⁰⁰, from 0 to 10²⁰⁰, where losses overflow; others bring the model itself back to 0."""
    method = mixing(Fit(steps=1, optimizer=SGD(lr=1e200)))
    data, env = points([[[1.0]], [[0.0]]], [[[1.0]], [[0.0]]]).begin(method)
    back = data.x
    data = method.play(data, env)
    assert data.x_alone.part("all").tolist() == [[1e200], [0.0]]
    assert data.alone.tolist() == [False, True]  # its loss, ½ 10⁴⁰⁰, is not finite
    data.x, data.alone = back, torch.tensor([True, True])
    data = method.play(data, env)
    assert data.bad_step.tolist() == [-1, -1]
    assert data.x_alone.part("all").tolist() == [[1e200], [0.0]]  # it stays as it was
    assert (data.alone.tolist(), data.alone_loss.isnan().tolist()) == ([False, True], [True, False])
