from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Method, Tasks
from graphcollab.components import Fit, PrototypeAverage, PrototypeDistance, ThroughServer
from graphcollab.components.exchange.unmixed import class_means
from graphcollab.engine import SGD
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from graphcollab.transforms import Complete
from tests.raising import raises


def plain(samples, classes=2, weights="counts", loss="cross_entropy"):
    """Begin a run of nodes whose latents are their inputs: samples is, by node, a list of (class, latent)."""
    many = [([c for c, _ in own], torch.tensor([z for _, z in own])) for own in samples]
    pairs = [(inputs, torch.tensor(labels)) for labels, inputs in many]
    scene = Scene(
        Tasks.from_samples(pairs, pairs, loss=loss),
        [SplitModel(nn.Identity(), pairs[0][0].shape[1:], classes, norm="none")],
    )
    method = Method("m", Fit(objective=PrototypeDistance()), exchange=PrototypeAverage(ThroughServer(weights)))
    data, env = scene.begin(method)
    return data, env, method.exchange


def received(samples, **options):
    data, env, exchange = plain(samples, **options)
    return exchange(data, env)


def test_mean_of_two_nodes():
    data = received([[(0, [0.0, 2.0])], [(0, [2.0, 0.0])]])
    assert data.prototypes[:, 0].tolist() == [[1.0, 1.0]] * 2
    assert data.prototype_known.tolist() == [[True, False]] * 2


@pytest.mark.parametrize(("weights", "expected"), [("counts", [1.0, 3.0]), ("uniform", [2.0, 3.0])])
def test_weights(weights, expected):
    """Node 0: class 0 at 0, three times; node 1: at 4. (3 · 0 + 1 · 4) / 4 = 1, or (0 + 4) / 2 = 2.

    Class 1 is node 1's alone, (2 + 4) / 2 = 3.
    """
    first = [(0, [-3.0]), (0, [1.0]), (0, [2.0])]
    data = received([first, [(0, [4.0]), (1, [2.0]), (1, [4.0])]], weights=weights)
    assert data.prototypes[0].flatten().tolist() == expected


def test_equal_prototypes_are_their_own_average():
    """Not divided once more by how many nodes have the class."""
    data = received([[(0, [3.0])], [(0, [3.0])], [(0, [3.0])]])
    assert data.prototypes[:, 0].tolist() == [[3.0]] * 3


def test_bytes():
    """d_z = 2; nodes have 1, 2 and 1 classes, and 3 of the 4 have a prototype then: 4 · 2 · (own + 3)."""
    own = [[(0, [1.0, 1.0])] * 5, [(0, [0.0, 0.0]), (1, [0.0, 0.0])], [(3, [0.0, 0.0])]]
    data = received(own, classes=4)
    assert data.bytes_sent.tolist() == [32.0, 40.0, 32.0]
    data, env, exchange = plain(own, classes=4)
    data.trains = torch.tensor([True, False, True])
    after = exchange(exchange(data, env), env)
    assert after.bytes_sent.tolist() == [48.0, 0.0, 48.0]  # twice 4 · 2 · (1 + 2)


def test_class_that_nobody_has():
    data = received([[(0, [1.0])], [(2, [1.0])]], classes=4)
    assert data.prototype_known.tolist() == [[True, False, True, False]] * 2
    assert torch.isfinite(data.prototypes).all()


def test_class_that_nobody_at_work_has_keeps_its_prototype():
    data, env, exchange = plain([[(0, [1.0])], [(1, [2.0]), (0, [5.0])]])
    data = exchange(data, env)
    assert data.prototypes[0].flatten().tolist() == [3.0, 2.0]
    data.serves = torch.tensor([True, False])
    data = exchange(data, env)
    assert data.prototypes[1].flatten().tolist() == [1.0, 2.0]  # class 0 of node 0 alone; class 1 as it was
    assert data.prototype_known.all()


@pytest.mark.parametrize("mask", ["trains", "serves"])
def test_nodes_at_rest_send_nothing_and_receive(mask):
    data, env, exchange = plain([[(0, [1.0])], [(1, [2.0])]])
    data[mask] = torch.tensor([True, False])
    after = exchange(data, env)
    assert after.prototype_known.tolist() == [[True, False]] * 2
    assert after.prototypes[1, 0].item() == 1
    assert after.bytes_sent.tolist() == [8.0, 0.0]


def test_isolated_nodes_keep_what_they_have():
    data, env, exchange = plain([[(0, [1.0])], [(1, [2.0])], [(1, [4.0])]])
    data = exchange(data, env)
    data.isolated = torch.tensor([False, False, True])
    data.trains = data.serves = ~data.isolated
    after = exchange(data, env)
    assert after.prototypes[..., 0].tolist() == [[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]]
    data.isolated = torch.tensor([True, False, True])
    data.trains = data.serves = ~data.isolated
    data.prototype_known = torch.zeros(3, 2, dtype=torch.bool)
    after = exchange(data, env)
    assert after.prototype_known.tolist() == [[False, False], [False, True], [False, False]]
    assert after.bytes_sent[1] - data.bytes_sent[1] == 4 * (1 + 1)


def test_nobody_at_work_changes_nothing():
    data, env, exchange = plain([[(0, [1.0])], [(1, [2.0])]])
    data.trains = torch.zeros(2, dtype=torch.bool)
    assert exchange(data, env) is data


def test_labels_that_are_no_class_are_left_out():
    """A user's loss may ignore some, as PyTorch's does -100."""
    loss = lambda outputs, labels: F.cross_entropy(outputs, torch.where(labels < 2, labels, -100))  # noqa: E731
    data = received([[(0, [1.0]), (-100, [50.0]), (7, [50.0])]] * 2, loss=loss)
    assert data.prototypes[0].flatten().tolist() == [1.0, 0.0]
    assert data.prototype_known[0].tolist() == [True, False]


@pytest.mark.parametrize("shared_head", [False, True])
@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("chunk", [1, 4])
def test_against_the_models_one_by_one(shared_head, backend, chunk):
    scene = Scene.small(shared_head=shared_head, embeds=True).replace(backend=backend, chunk=chunk)
    local = Fit(batch_size=20, optimizer=SGD(lr=0.1), objective=PrototypeDistance())
    method = Method("m", local, exchange=PrototypeAverage())
    data, env = scene.play(method, rounds=2)
    split, pool = scene.tasks.splits["train"], scene.tasks.pools["train"]
    sums, counts = torch.zeros(3, 5, dtype=torch.float64), torch.zeros(3, 1)
    nodes = torch.tensor([4, 0, 3])
    means, numbers = class_means(data, env, nodes, 3, 5)
    for k in range(6):
        spec, row = data.x.row(k)
        module = spec.load_into(copy.deepcopy(scene.modules[k % 2 if shared_head else 0]), row).eval()
        latent = module(pool.inputs[split.of(k)], embed=True).latent.detach()
        for c in range(3):
            own = latent[pool.targets[split.of(k)] == c]
            sums[c] += own.sum(0)
            counts[c] += len(own)
            if k in nodes:
                place = nodes.tolist().index(k)
                assert numbers[place, c] == len(own)
                expected = own.mean(0) if len(own) else torch.zeros(5, dtype=torch.float64)
                torch.testing.assert_close(means[place, c], expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(data.prototypes[2], sums / counts, rtol=0, atol=1e-12)


def test_running_statistics_and_not_those_of_the_samples():
    """Evaluation mode: with running mean 0 and variance 1, batch normalization leaves samples as they are."""
    samples = [(torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([0, 0, 1]))] * 2
    model = SplitModel(nn.BatchNorm1d(1, eps=1e-12), (1,), 2)
    scene = Scene(Tasks.from_samples(samples, samples), [model])
    data, env = scene.begin(Method("m", Fit(objective=PrototypeDistance()), exchange=PrototypeAverage()))
    assert PrototypeAverage()(data, env).prototypes[0].flatten().tolist() == pytest.approx([1.5, 6.0])


def test_what_all_know_is_stored_once():
    data = received([[(0, [1.0])], [(1, [2.0])]])
    assert data.prototypes.stride(0) == data.prototype_known.stride(0) == 0


def test_unknown_weights():
    with raises("value", "weights", "'counts'", "'uniform'", "'equal'"):
        PrototypeAverage(ThroughServer("equal"))


def test_it_needs_latents():
    scene = Scene.small()
    with raises("missing", "node 'node 0'"):
        scene.begin(Method("m", Fit(), exchange=PrototypeAverage()))
    assert Method("m", Fit(), exchange=PrototypeAverage()).embeds


def test_models_do_not_depend_on_edge_weights():
    data, env, exchange = plain([[(0, [1.0])], [(1, [2.0])]])
    data = Complete()(data)
    data.edge_weight = torch.zeros(2)
    assert exchange.weight_gradient(data, env, torch.ones(2, 1)).tolist() == [0.0, 0.0]


def test_weights_of_samples():
    """Latents 0 and 3 with weights 1 and 2, and 6 with weight 1: class means 2 and 6, counts 3 · 3 / 4 and 3 / 4."""
    data, env, exchange = plain([[(0, [0.0]), (0, [3.0]), (1, [6.0])], [(1, [2.0])]])
    tasks = env.engine.tasks
    weight = torch.tensor([1.0, 2.0, 1.0, 5.0])
    pools = {**tasks.pools, "train": replace(tasks.pools["train"], weight=weight)}
    env.engine.tasks = replace(tasks, pools=pools)
    means, counts = class_means(data, env, torch.arange(2), 2, 1)
    assert means.flatten().tolist() == pytest.approx([2, 6, 0, 2])
    assert counts.flatten().tolist() == pytest.approx([2.25, 0.75, 0, 1])
    found = exchange(data, env).prototypes[0].flatten().tolist()
    assert found == pytest.approx([2, (0.75 * 6 + 2) / 1.75])


def test_classes_without_weight_have_no_prototype():
    data, env, exchange = plain([[(0, [1.0]), (1, [6.0])]] * 2)
    tasks = env.engine.tasks
    pools = {**tasks.pools, "train": replace(tasks.pools["train"], weight=torch.tensor([1.0, 0.0, 1.0, 0.0]))}
    env.engine.tasks = replace(tasks, pools=pools)
    assert exchange(data, env).prototype_known[0].tolist() == [True, False]
