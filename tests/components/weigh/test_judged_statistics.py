"""Models are judged with the running statistics that the mixed model would have, and what travels is charged."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from graphcollab import Method
from graphcollab.components import Exchange, FirstOrderGain, Fit, InverseLoss, PeerWeights, SimilarityWeights
from graphcollab.engine import SGD
from graphcollab.methods import dac, dpsgd, fomo, panm, pens
from graphcollab.testing import Scene
from tests.raising import raises

EDGES = torch.tensor([[0, 1, 3, 5, 2, 2], [1, 0, 0, 4, 4, 2]])
BUFFERS = 11  # a mean and a variance of 5 channels, and a count


def normed():
    draw = torch.Generator().manual_seed(3)
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw))
    return module


@pytest.fixture
def scene():
    return Scene.small().replace(modules=[normed()])


@pytest.fixture
def trained(scene):
    method = Method("local", local=Fit(epochs=2, batch_size=64, optimizer=SGD(lr=0.1)))
    data, env = scene.play(method, rounds=1)
    data = copy.copy(data)
    data.x_start = data.x
    return method.local(data, env), env


def loss_of(data, env, parameters, statistics, owner, split):
    """The loss of a plain module on a node's samples."""
    module, spec = normed(), data.x.specs[0]
    row = statistics.clone()
    row[: spec.num_parameters] = parameters[: spec.num_parameters]
    spec.load_into(module, row).eval()
    owned = env.engine.tasks.splits[split]
    pool, index = env.engine.tasks.pools[owned.pool], owned.of(owner)
    with torch.no_grad():
        return float(cross_entropy(module(pool.inputs[index]), pool.targets[index]))


@pytest.mark.parametrize("buffers", ["keep", "average"])
def test_losses_are_of_the_models_that_would_be_mixed(trained, buffers):
    data, env = trained
    rows = data.x.tensors[0]
    found = InverseLoss(reduction="mean", buffers=buffers).scores(data, env, EDGES)
    for score, (j, i) in zip(found.tolist(), EDGES.T.tolist(), strict=True):
        assert score == pytest.approx(1 / loss_of(data, env, rows[j], rows[i if buffers == "keep" else j], i, "train"))


@pytest.mark.parametrize("buffers", ["keep", "average"])
def test_gains_are_of_the_models_that_would_be_mixed(trained, buffers):
    data, env = trained
    data.edge_index = EDGES
    rows, start = data.x.tensors[0], data.x_start.tensors[0]
    found = FirstOrderGain(buffers=buffers).gains(data, env, EDGES)
    for gain, (j, i) in zip(found.tolist(), EDGES.T.tolist(), strict=True):
        before = loss_of(data, env, start[i], rows[i], i, "val")  # the exchange starts from the own statistics of now
        after = loss_of(data, env, rows[j], rows[i if buffers == "keep" else j], i, "val")
        apart = (rows[j] - start[i])[: data.x.specs[0].num_parameters].norm().item()
        assert gain == pytest.approx((before - after) / apart)


@pytest.mark.parametrize("method", [dac, pens, panm], ids=lambda m: m.__name__)
@pytest.mark.parametrize("buffers", ["keep", "average"])
def test_models_that_are_met_are_charged_with_their_statistics_where_these_travel(scene, method, buffers):
    """Each is sent once, whether it is merged or only measured."""
    data, env = scene.begin(method(metric="inverse_loss", samples=2, buffers=buffers))
    sender, receiver = data.edge_index
    met = torch.bincount(sender[sender != receiver], minlength=6)
    width = data.x.specs[0].num_parameters + (BUFFERS if buffers == "average" else 0)
    after = method(metric="inverse_loss", samples=2, buffers=buffers).play(data, env)
    assert after.bytes_sent.tolist() == (4.0 * width * met).tolist()


@pytest.mark.parametrize("buffers", ["keep", "average"])
def test_fomo_and_dpsgd_charge_what_travels(scene, buffers):
    width = normed_width = sum(p.numel() for p in normed().parameters())
    width += BUFFERS if buffers == "average" else 0
    assert normed_width == 53
    for method in (fomo(samples=2, buffers=buffers), dpsgd(buffers=buffers)):
        data, env = scene.begin(method)
        sender, receiver = data.edge_index
        met = torch.bincount(sender[sender != receiver], minlength=6)
        assert method.play(data, env).bytes_sent.tolist() == (4.0 * width * met).tolist()


def test_a_weigher_that_judges_otherwise_than_the_exchange_mixes_is_refused():
    by_similarity = PeerWeights(InverseLoss(), merge=SimilarityWeights())
    judged_otherwise = PeerWeights(InverseLoss(), buffers="average")
    for weigh in (by_similarity, FirstOrderGain(), PeerWeights(InverseLoss()), judged_otherwise):
        with raises("mismatch", "buffers", "'average'", "'keep'"):
            Method("m", local=Fit(), weigh=weigh, exchange=Exchange(buffers="average"))
    assert dac(metric=InverseLoss(), buffers="average").weigh.metric.buffers == "average"
