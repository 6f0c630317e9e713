from __future__ import annotations

import torch

from graphcollab.components import Fit
from graphcollab.components.judge import FineTuned
from graphcollab.engine import SGD, NonFiniteLossError, Proximal
from graphcollab.methods import fedavg
from graphcollab.testing import Scene, differences
from tests.raising import raises, warns

HALF = Fit(steps=1, optimizer=SGD(lr=0.5))
EXPLODING = Fit(steps=200, batch_size=4, optimizer=SGD(lr=1e12))


def test_a_step_from_the_average(points):
    """Models 2 and 4 average to 3; half a step from there leads to 2.5 and 3.5."""
    method = fedavg(epochs=1, lr=1.0, weight_decay=0.0).replace(judge=FineTuned(HALF))
    data, env = points([[[2.0]], [[4.0]]]).begin(method)
    data = method.play(data, env)
    assert method.models(data, env).part("all").flatten().tolist() == [2.5, 3.5]
    assert data.x.part("all").flatten().tolist() == [3.0, 3.0]


def test_training_is_not_touched():
    scene, plain = Scene.small(), fedavg(epochs=1)
    tuned = plain.replace(judge=FineTuned(Fit(epochs=2, batch_size=4)))
    (one, _), (two, env) = scene.begin(plain), scene.begin(tuned)
    for _ in range(3):
        tuned.models(two, env)
        one, two = plain.play(one, env), tuned.play(two, env)
    assert differences(one, two) == []


def test_every_evaluation_begins_anew():
    method = fedavg(epochs=1).replace(judge=FineTuned(Fit(epochs=1, batch_size=4)))
    data, env = Scene.small().play(method)
    one, two = (method.models(data, env).tensors[0] for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, data.x.tensors[0])


def test_batches_are_its_own():
    """With the same start and round, fine-tuning meets other batches than the local update."""
    method = fedavg(epochs=1).replace(judge=FineTuned(fedavg(epochs=1, batch_size=4).local))
    data, env = Scene.small().begin(method)
    data.x_start = data.x
    trained = method.judge.local(data, env).x.tensors[0]
    assert not torch.allclose(method.models(data, env).tensors[0], trained)


def test_nodes_at_rest_are_fine_tuned_and_isolated_ones_are_not(points):
    method = fedavg(fraction=0.5).replace(judge=FineTuned(HALF))
    data, env = points([[[2.0]], [[4.0]], [[6.0]]]).begin(method)
    data.isolated = torch.tensor([False, False, True])
    assert method.models(data, env).part("all").flatten().tolist() == [1.0, 2.0, 0.0]


def test_an_objective_is_anchored_at_the_start(points):
    """Two half steps from 0 towards 8, pulled back to 0: 4, and 4 - ((4 - 8) + 4) / 2 = 4."""
    fit = Fit(steps=2, optimizer=SGD(lr=0.5), objective=Proximal(1.0))
    method = fedavg().replace(judge=FineTuned(fit))
    data, env = points([[[8.0]]]).begin(method)
    assert method.models(data, env).part("all").item() == 4.0


def test_a_loss_that_is_not_finite_is_named():
    method = fedavg(epochs=1).replace(judge=FineTuned(EXPLODING))
    data, env = Scene.small().play(method, rounds=1)
    with raises("diverged", "node 'node 0'", kind=NonFiniteLossError):
        method.models(data, env)
    with warns("diverged", "node 'node 0'"):
        kept = method.models(data, env._replace(isolate=True))
    assert torch.equal(kept.tensors[0][0], data.x.tensors[0][0])
    assert bool(torch.isfinite(kept.tensors[0]).all())


def test_no_state_is_kept():
    with raises("unsupported", "keep_state"):
        FineTuned(Fit(keep_state=True))
