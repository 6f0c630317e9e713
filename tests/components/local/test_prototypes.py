from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Method, Tasks
from graphcollab.components import Fit, PrototypeAverage, PrototypeDistance
from graphcollab.components.local.prototypes import embed_sample
from graphcollab.engine import SGD
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from tests.raising import raises

SETTINGS = {"epochs": 2, "batch_size": 4, "optimizer": SGD(lr=0.1)}


def begin(local, scene=None, known=None):
    """Begin a run; with ``known``, nodes have received prototypes of these classes, each its own."""
    data, env = (scene or Scene.small(embeds=True)).begin(Method("m", local))
    if known is not None:
        data = copy.copy(data)
        draw = torch.Generator().manual_seed(1)
        data.prototypes = torch.randn(data.prototypes.shape, generator=draw, dtype=data.prototypes.dtype)
        data.prototype_known = torch.tensor(known).expand(data.num_nodes, -1)
    data.x_start = data.x
    return data, env


def test_it_begins_without_prototypes():
    data, _ = begin(Fit(objective=PrototypeDistance()))
    assert data.prototypes.shape == (6, 3, 5)
    assert data.prototypes.dtype == torch.float64
    assert not data.prototypes.any()
    assert data.prototype_known.shape == (6, 3)
    assert not data.prototype_known.any()


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_without_prototypes_it_is_plain_training(backend):
    scene = Scene.small(embeds=True).replace(backend=backend)
    data, env = begin(Fit(**SETTINGS, objective=PrototypeDistance()), scene)
    one, two = Fit(**SETTINGS, objective=PrototypeDistance())(data, env), Fit(**SETTINGS)(data, env)
    torch.testing.assert_close(one.x.tensors[0], two.x.tensors[0], rtol=0, atol=1e-14)
    assert one.train_loss.tolist() == pytest.approx(two.train_loss.tolist(), rel=1e-12)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("shared_head", [False, True])
def test_a_step_is_along_the_gradient_of_both_losses(shared_head, backend):
    """One step on all of a node's samples, against a module of its own and autograd."""
    known = [True, False, True]
    lam, lr = 2.0, 0.1
    local = Fit(steps=1, batch_size=20, optimizer=SGD(lr=lr), objective=PrototypeDistance(lam))
    scene = Scene.small(shared_head=shared_head, embeds=True).replace(backend=backend)
    data, env = begin(local, scene, known)
    after = local(data, env)
    split, pool = scene.tasks.splits["train"], scene.tasks.pools["train"]
    for k in range(6):
        spec, row = data.x.row(k)
        module = spec.load_into(copy.deepcopy(scene.modules[k % 2 if shared_head else 0]), row).train()
        inputs, targets = pool.inputs[split.of(k)], pool.targets[split.of(k)]
        out = module(inputs, embed=True)
        error = (out.latent - data.prototypes[k, targets]).square().mean(1) * torch.tensor(known)[targets]
        loss = F.cross_entropy(out.logits, targets) + lam * error.mean()
        loss.backward()
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter -= lr * parameter.grad
        new = ParamSpec.from_module(module).flatten(module)[: spec.num_parameters]
        torch.testing.assert_close(after.x.row(k)[1][: spec.num_parameters], new, rtol=0, atol=1e-12)
        assert after.train_loss[k].item() == pytest.approx(loss.item())


def test_a_class_that_is_not_known_makes_no_difference():
    local = Fit(**SETTINGS, objective=PrototypeDistance())
    data, env = begin(local, known=[True, True, False])
    other = copy.copy(data)
    other.prototypes = data.prototypes.index_fill(1, torch.tensor([2]), 100.0)
    assert torch.equal(local(data, env).x.tensors[0], local(other, env).x.tensors[0])
    other.prototypes = data.prototypes.index_fill(1, torch.tensor([1]), 100.0)
    assert not torch.equal(local(data, env).x.tensors[0], local(other, env).x.tensors[0])


def test_nodes_at_rest_keep_their_models():
    local = Fit(**SETTINGS, objective=PrototypeDistance())
    data, env = begin(local, known=[True] * 3)
    every = local(data, env).x.tensors[0]
    data.trains = torch.tensor([True, False, True, True, False, True])
    some = local(data, env).x.tensors[0]
    assert torch.equal(some, torch.where(data.trains[:, None], every, data.x.tensors[0]))


def test_prototypes_of_an_earlier_phase_are_kept_if_they_fit():
    local = Fit(objective=PrototypeDistance())
    data, env = begin(local, known=[True, False, True])
    again = local.init(data, env)
    assert torch.equal(again.prototypes, data.prototypes)
    assert again.prototype_known[0].tolist() == [True, False, True]
    data.prototypes = data.prototypes[..., :4]
    assert not local.init(data, env).prototype_known.any()


def test_sample_of_every_architecture():
    data, env = begin(Fit(objective=PrototypeDistance()), Scene.small(shared_head=True, embeds=True))
    found = embed_sample(data, env)
    assert [(out.logits.shape, out.latent.shape, out.projection.shape) for out in found] == [
        ((1, 3), (1, 5), (1, 4))
    ] * 2
    assert not torch.equal(found[0].latent, found[1].latent)


def models(*latents, classes=2):
    return [SplitModel(nn.Linear(3, size), (3,), classes) for size in latents]


def tasks(targets, loss="cross_entropy", metric="accuracy"):
    samples = [(torch.randn(len(t), 3), torch.tensor(t)) for t in targets]
    return Tasks.from_samples(samples, samples, loss=loss, metric=metric)


@pytest.mark.parametrize(
    ("scene", "error"),
    [
        (
            Scene(tasks([[0, 1], [1, 0]]), models(4, 5), architecture=(0, 1)),
            ("mismatch", "model", "(2, 4)", "(2, 5)"),
        ),
        (
            Scene(tasks([[0, 1]]), [nn.Linear(3, 2)]),
            ("missing", "node 'node 0'", "Linear"),
        ),
        (
            Scene(tasks([[0.5, 1.0]], "mse", "mse"), models(4, classes=1)),
            ("shape", "targets", "torch.float32", "(2,)"),
        ),
    ],
    ids=["latents of two sizes", "no latents", "no classes"],
)
def test_bad_input(scene, error):
    with raises(*error):
        scene.begin(Method("m", Fit(objective=PrototypeDistance())))


def test_latents_are_needed_even_if_the_objective_reads_none():
    with raises("missing", "node 'node 0'"):
        Scene(tasks([[0, 1]]), [nn.Linear(3, 2)]).begin(Method("m", Fit(), exchange=PrototypeAverage()))
