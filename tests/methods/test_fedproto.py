from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Phases, Tasks, run
from graphcollab.components.exchange.unmixed import class_means
from graphcollab.methods import fedproto, local
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from tests.methods.forms import check_form
from tests.raising import raises

QUICK = {"epochs": 2, "batch_size": 4, "lr": 0.1}


def nodes(classes, count=12, seed=0):
    """Return a node for each list of classes, with samples around one center per class."""
    draw = torch.Generator().manual_seed(seed)
    centers = 3 * torch.randn(6, 4, generator=draw)
    samples = []
    for own in classes:
        targets = torch.tensor(own).repeat(count // len(own))
        samples.append((centers[targets] + torch.randn(len(targets), 4, generator=draw), targets))
    return Tasks.from_samples(samples, samples, samples)


def models(latent=5, classes=6):
    torch.manual_seed(0)
    shallow, deep = nn.Linear(4, 7), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
    return [SplitModel(backbone, (4,), classes, latent) for backbone in (shallow, deep)]


@pytest.mark.parametrize("settings", [{"weights": "uniform"}, {"predict": "head", "steps": 3, "fraction": 0.5}])
def test_contract_of_the_options(settings):
    check_form(fedproto(**{**QUICK, "epochs": 1, **settings}))


def test_the_first_round_is_local_training_and_all_are_with_no_weight_on_prototypes():
    scene = Scene.small(embeds=True)
    settings = {**QUICK, "momentum": 0.5, "weight_decay": 1e-3}
    alone = [scene.models(local(**settings), rounds).tensors[0] for rounds in (1, 2)]
    for lam, rounds, same in ((5.0, 1, True), (5.0, 2, False), (0.0, 2, True)):
        data, _ = scene.play(fedproto(lam=lam, **settings), rounds)
        apart = float((data.x.tensors[0] - alone[rounds - 1]).abs().max())
        assert (apart < 1e-12) == same


def test_prototypes_are_what_makes_latents_of_different_models_comparable():
    """Nodes of two architectures: class means lie nearer to each other, seen from how far classes are apart."""
    spread = []
    for lam in (0.0, 3.0):
        scene = Scene(nodes([[0, 1, 2]] * 4), models(), architecture=(0, 1, 0, 1))
        data, env = scene.play(fedproto(lam=lam, lr=0.1, epochs=2), rounds=15)
        means, _ = class_means(data, env, torch.arange(4), 6, 5)
        means = means[:, :3]
        center = means.mean(0)
        between = (center - center.mean(0)).square().sum(-1).mean()
        spread.append(float((means - center).square().sum(-1).mean() / between))
    assert spread[1] < 0.25 * spread[0]


def test_a_node_with_a_single_class_and_classes_that_nobody_has():
    """Node 0 has class 3 alone; classes 4 and 5 are nobody's and are never predicted."""
    result = run(fedproto(lr=0.05), nodes([[3], [0, 1, 3], [0, 2], [1, 2]]), models(), rounds=15,
                 architecture=(0, 1, 1, 0))  # fmt: skip
    assert result.data.prototype_known[0].tolist() == [True] * 4 + [False] * 2
    assert min(result.history.values["test_metric"][-1].tolist()) > 0.9
    assert all(map(torch.isfinite, result.history.values["test_loss"][-1]))
    inputs = 10 * torch.randn(200, 4)
    for k in range(4):
        assert result.model(k).eval()(inputs).argmax(1).max() < 4


def test_bytes():
    """4 · d_z · (own classes + those that have a prototype), in every round."""
    result = run(fedproto(), nodes([[3], [0, 1, 3], [0, 2]]), models(), rounds=2, architecture=(0, 1, 1))
    assert result.data.bytes_sent.tolist() == [2 * 4 * 5 * (own + 4) for own in (1, 3, 2)]
    assert result.data.messages_sent.tolist() == [4, 4, 4]


def test_phases_go_on_with_the_prototypes_there_are():
    scene = Scene.small(embeds=True)
    data, env = scene.play(Phases(fedproto(**QUICK), 2, fedproto(lam=0.1, **QUICK)), rounds=2)
    started = fedproto().start(data, env)
    assert torch.equal(started.prototypes, data.prototypes)
    assert started.prototype_known.all()


def test_unknown_prediction():
    with raises("value", "predict", "'prototype'", "'head'", "'proto'"):
        fedproto(predict="proto")
