"""DAC: sampling by similarity, merging by counts, probabilities or cosines, and a memory that stays sparse."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.utils import scatter

from graphcollab import Tasks, run
from graphcollab.analysis.metrics import in_cluster_share
from graphcollab.analysis.metrics.traffic import contact_counts
from graphcollab.components import CosineUpdates, InverseLoss
from graphcollab.components.rewire.adaptive import priors
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.engine import SGD
from graphcollab.methods import dac
from graphcollab.testing import Scene
from graphcollab.train import Callback, RecordGraph
from tests.methods.forms import check_form
from tests.raising import raises

METRICS = ("cosine_updates", "cosine_weights", "inverse_loss", "inverse_distance")
FORMS = [*zip(METRICS, ("softmax", "similarity", "fedavg", "similarity"), strict=True)]


@pytest.mark.parametrize(("metric", "merge"), FORMS)
def test_contract_of_all_forms(metric, merge):
    check_form(dac(metric=metric, samples=2, merge=merge, lr=0.1, patience=3, epochs=1))


@pytest.mark.parametrize("metric", METRICS[2:])
def test_only_cosines_are_weighed_by_a_softmax(metric):
    with raises("conflict", "merge"):
        Scene.small().play(dac(metric=metric, merge="softmax"), rounds=1)


def test_one_round_by_hand(points):
    # Targets 0, 0 and 8, all models at 2: after a step with lr .5 they are 1, 1 and 5, of which each node meets both
    # others. Samples: 1, 1 and 2. Merging by counts: (1 + 1 + 2·5) / 4 for everybody.
    scene = points([[[0.0]], [[0.0]], [[8.0], [8.0]]])
    method = dac(metric="inverse_distance", samples=2, optimizer=SGD(lr=0.5), batch_size=10)
    data, env = scene.begin(method, [[2.0], [2.0], [2.0]])
    after = method.play(data, env)
    assert after.x.part("all").flatten().tolist() == pytest.approx([3.0, 3.0, 3.0])
    edges, scores = after.scores.edge_index.tolist(), after.scores.values.tolist()
    measured = {(j, i): s for j, i, s in zip(*edges, scores, strict=True)}
    assert measured[2, 0] == measured[0, 2] == pytest.approx(1 / 4)
    assert measured[1, 0] > 1e6  # models that are the same are as similar as can be
    known = dict(zip(zip(*after.memory.edge_index.tolist(), strict=True), after.memory.values.tolist(), strict=True))
    assert known[2, 1] == pytest.approx([1 / 4, 1])
    assert after.bytes_sent.tolist() == [8.0, 8.0, 8.0]  # one number to each of two others; nothing to tell yet
    again = method.play(after, env)
    assert (again.bytes_sent - after.bytes_sent).tolist() == [8 + 2 * 16.0] * 3  # and two similarities to each


def test_fedsim_by_hand(points):
    scene = points([[[0.0]], [[4.0]], [[8.0]]])
    method = dac(metric="inverse_distance", samples=2, merge="similarity", optimizer=SGD(lr=0.5), batch_size=10)
    data, env = scene.begin(method)
    assert data.edge_prior[data.edge_index[0] != data.edge_index[1]].tolist() == [0.5] * 6
    after = method.play(data, env)  # nothing is known, so all weigh the same: x = (0, 2, 4) → 2
    assert after.x.part("all").flatten().tolist() == pytest.approx([2.0, 2.0, 2.0])


def test_probabilities_follow_similarity(points):
    # After the first round node 0 knows its distances 2 and 4 to the others: s = 1/2 and 1/4, scaled to 1 and 0.
    scene = points([[[0.0]], [[4.0]], [[8.0]]])
    method = dac(metric="inverse_distance", samples=2, tau=3.0, optimizer=SGD(lr=0.5), batch_size=10)
    data, env = scene.begin(method)
    after = method.play(data, env)
    prior = {(j, i): p for j, i, p in zip(*after.edge_index.tolist(), after.edge_prior.tolist(), strict=True) if j != i}
    e = torch.tensor([3.0, 0.0], dtype=torch.float64).exp()
    p = e / e.sum() + 1e-6
    assert prior[1, 0] == pytest.approx(float(p[0] / p.sum()))
    assert prior[2, 0] == pytest.approx(float(p[1] / p.sum()))
    assert prior[0, 1] == pytest.approx(0.5)  # both are as far from node 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samples", 0),
        ("samples", 2.5),
        ("tau", float("inf")),
        ("tau", 0.0),
        ("scale", "max"),
        ("merge", "mean"),
        ("unknown", "never"),
        ("share", "nothing"),
        ("two_step", "best"),
        ("tells", 0),
        ("limit", 0),
        ("epsilon", 0.0),
        ("growth", -1.0),
        ("metric", "cosine"),
    ],
)
def test_bad_settings(name, value):
    with raises("value", name, value):
        dac(**{name: value})


def test_nodes_that_may_meet_fewer_meet_all_of_those():
    scene = Scene.small()
    six, five = (run(dac(samples=many), scene.tasks, list(scene.modules), rounds=2) for many in (6, 5))
    assert torch.equal(six.stacks.tensors[0], five.stacks.tensors[0])


def test_a_metric_that_needs_samples_a_node_has_not():
    x, y = torch.randn(6, 3), torch.arange(6) % 2
    tasks = Tasks.from_samples([(x, y)] * 3, val=[(x, y), (x[:0], y[:0]), (x, y)], names=["a", "b", "c"])
    with raises("empty", "split 'val'", "'b'"):
        run(dac(metric=InverseLoss("val"), samples=1), tasks, torch.nn.Linear(3, 2), rounds=1)
    with raises("empty", "node 'node 1'"):
        Tasks.from_samples([(x, y), (x[:0], y[:0])], val_fraction=0)


def test_tau_that_would_overflow():
    tasks = linear_regression_tasks(nodes=(4, 4), seed=0)
    model = torch.nn.Linear(10, 1)
    result = run(dac(metric="inverse_distance", samples=2, tau=1e300, scale=None), tasks, model, rounds=4)
    assert all(bool(t.isfinite().all()) for t in result.stacks.tensors)


def test_negative_similarities_are_known_and_unlikely():
    tasks = linear_regression_tasks(nodes=(6, 6), seed=0)
    result = run(dac(metric="cosine_updates", samples=3, lr=0.05), tasks, torch.nn.Linear(10, 1), rounds=5)
    assert bool((result.data.memory.values[:, 0] < 0).any())
    assert bool(result.data.edge_prior.isfinite().all())


def test_nodes_find_their_cluster():
    tasks = linear_regression_tasks(nodes=(8, 8, 8), seed=0)
    method = dac(metric="cosine_weights", samples=3, merge="softmax", lr=0.1, batch_size=5)
    result = run(method, tasks, torch.nn.Linear(10, 1), rounds=30, callbacks=[RecordGraph()], evaluate_every=30)
    late = {r: g for r, g in result.history.graphs.items() if r > 15}
    edge_index, count = contact_counts(late, 24)
    assert in_cluster_share(edge_index, count.double(), tasks.cluster) > 0.9
    early = {r: g for r, g in result.history.graphs.items() if r == 1}
    edge_index, count = contact_counts(early, 24)
    assert in_cluster_share(edge_index, count.double(), tasks.cluster) < 0.6


def test_weights_of_every_receiver_sum_to_one():
    scene = Scene.small()
    method = dac(metric=CosineUpdates(0.5), samples=2, merge="softmax")
    data, env = scene.begin(method)
    data = method.weigh(method.local(data.update({"x_start": data.x}), env), env)
    total = scatter(data.edge_weight, data.edge_index[1], dim_size=6)
    assert total.tolist() == pytest.approx([1.0] * 6)


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor has."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.layout == torch.strided and out.dtype != torch.uint8:  # bytes: heap.py
            self.numbers = max(self.numbers, out.untyped_storage().nbytes() // out.element_size())
        return out


def test_memory_grows_with_pairs_known_and_not_with_all_pairs():
    nodes, samples, rounds = 3000, 5, 3
    x = torch.randn(2 * nodes, 2, generator=torch.Generator().manual_seed(0))
    y = torch.arange(2 * nodes) % 2
    tasks = Tasks.from_samples([(x[2 * k : 2 * k + 2], y[2 * k : 2 * k + 2]) for k in range(nodes)], val_fraction=0)
    with Largest() as largest:
        result = run(dac(samples=samples), tasks, torch.nn.Linear(2, 2), rounds=rounds, evaluate_every=rounds)
    # A node measures 5 others a round; from the second round on each of them tells of the 5 it has measured so far.
    most = nodes * (samples * rounds + samples * samples * (1 + 2))
    assert result.data.memory.edge_index.shape[1] <= most
    assert largest.numbers < 4 * most < nodes * nodes / 5


def test_of_what_they_are_told_nodes_remember_no_more_than_the_limit():
    tasks = linear_regression_tasks(nodes=(12, 12), seed=0)
    result = run(dac(metric="cosine_weights", limit=6, samples=3), tasks, torch.nn.Linear(10, 1), rounds=6)
    receiver, told = result.data.memory.edge_index[1], result.data.memory.values[:, 1] == 0
    assert int(torch.bincount(receiver[told], minlength=24).max()) == 6
    measured = torch.bincount(receiver[~told], minlength=24)
    assert int(measured.max()) <= 3 * 6
    assert int(measured.min()) > 6


def test_what_is_told_and_remembered_does_not_grow_with_rounds():
    tasks = linear_regression_tasks(nodes=(60, 60), seed=0)
    rounds, told, kept = 9, [], []

    class Watch(Callback):
        def on_round(self, data, history):
            told.append(data.bytes_sent.sum().item())
            kept.append((data.memory.values[:, 1] == 0).sum().item())

    method = dac(samples=3, tells=6, limit=9)
    run(method, tasks, torch.nn.Linear(10, 1), rounds=rounds, evaluate_every=rounds, callbacks=[Watch()])
    sent = [now - before for before, now in zip([0, *told], told, strict=False)]
    model = 4 * 11 * 3 * 120
    # After a round 3 others can be told of, then 6 at most, 2 numbers for each, to 3 listeners.
    assert sent[0] == model
    assert sent[1] == model + 4 * 2 * 3 * 3 * 120
    assert all(model + 4 * 2 * 4 * 3 * 120 < one <= model + 4 * 2 * 6 * 3 * 120 for one in sent[2:])
    assert 5 * 120 < kept[-1] <= 9 * 120


def test_probabilities_gather_in_the_cluster(points):
    """Two clusters of quadratics: in the end a node would draw almost only peers with its own target."""
    scene = points([[[0.0]]] * 4 + [[[9.0]]] * 4)
    method = dac(metric="inverse_loss", samples=2, tau=30.0, merge="similarity", optimizer=SGD(lr=0.5), batch_size=10)
    data, env = scene.begin(method)
    for _ in range(25):
        data = method.play(data, env)
    p, _ = priors(data.memory, 30.0, "minmax")
    sender, receiver = data.memory.edge_index
    inside = scatter(p * ((sender < 4) == (receiver < 4)), receiver, dim_size=8)
    assert float(inside.min()) > 0.99
