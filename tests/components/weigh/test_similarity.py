"""The four metrics against plain numpy and torch, as scores of given edges and as weighers."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

from graphcollab import Method
from graphcollab.comm import Plane
from graphcollab.components import (
    CosineUpdates,
    CosineWeights,
    DistanceKernel,
    Exchange,
    Fit,
    InverseLoss,
    NoWeights,
    PeerWeights,
    Similarity,
    SimilarityWeights,
    as_similarity,
)
from graphcollab.engine import SGD
from graphcollab.testing import Scene
from graphcollab.transforms import Complete, WithSelfLoops
from tests.raising import raises

METRICS = [
    InverseLoss(),
    InverseLoss(split="val", reduction="mean"),
    CosineWeights(),
    CosineUpdates(),
    CosineUpdates(alpha=0.25),
    DistanceKernel("inverse"),
]
every_metric = pytest.mark.parametrize("metric", [*METRICS, DistanceKernel(), DistanceKernel(2.0)], ids=repr)

EDGES = torch.tensor([[0, 1, 3, 5, 2, 2, 4], [1, 0, 0, 4, 4, 2, 5]])  # not the graph's, in no order, one self-loop


@pytest.fixture
def scene():
    """Six trained nodes: x differs from x_start, and that from x_init."""
    return Scene.small()


def trained(scene):
    method = Method("local", local=Fit(epochs=2, optimizer=SGD(lr=0.1)))
    data, env = scene.play(method, rounds=1)
    data = copy.copy(data)
    data.x_start = data.x
    return method.local(data, env), env


def rows(stacks, part="all"):
    return stacks.part(part).double().numpy()


def cosine(u, v):
    return float(u @ v / math.sqrt(u @ u) / math.sqrt(v @ v))


def plain_loss(scene, data, split, model, owner):
    """The mean loss of one node's model on another's samples, by a plain module."""
    spec, row = data.x.row(model)
    kind = 0 if scene.architecture is None else scene.architecture[model]
    module = spec.load_into(copy.deepcopy(scene.modules[kind]), row).eval()
    owned = scene.tasks.splits[split]
    pool, index = scene.tasks.pools[owned.pool], owned.of(owner)
    with torch.no_grad():
        return float(cross_entropy(module(pool.inputs[index]), pool.targets[index])), len(index)


@pytest.mark.parametrize("shared_head", [False, True])
@pytest.mark.parametrize("split", ["train", "val"])
def test_inverse_loss_is_of_the_senders_model_on_the_receivers_samples(split, shared_head):
    scene = Scene.small(shared_head=shared_head)
    data, env = trained(scene)
    for reduction in ("sum", "mean"):
        expected = []
        for j, i in EDGES.T.tolist():
            loss, count = plain_loss(scene, data, split, j, i)
            expected.append(1 / (loss * count if reduction == "sum" else loss))
        found = InverseLoss(split, reduction).scores(data, env, EDGES)
        assert found.dtype == torch.float64
        assert found.tolist() == pytest.approx(expected, rel=1e-9)


def test_models_travel_to_the_samples(scene):
    class Post(Plane):
        seen = ()

        def evaluate_at(self, rows, answer, to="data"):
            self.seen = (rows.index.tolist(), rows.node.tolist())
            return super().evaluate_at(rows, answer, to)

    data, env = trained(scene)
    post = Post()
    InverseLoss().scores(data, env._replace(plane=post), EDGES)
    assert post.seen == tuple(EDGES.tolist())


def test_models_of_other_nodes_are_read_through_the_halo(scene):
    class Doubled(Plane):
        def halo_exchange(self, rows, edge_index):
            assert edge_index is EDGES
            found = super().halo_exchange(rows, edge_index)
            return replace(found, rows=rows + 1)  # what comes over the wire is what is compared

    data, env = trained(scene)
    x, change = rows(data.x), rows(data.x) - rows(data.x_start)
    env = env._replace(plane=Doubled())
    pairs = EDGES.T.tolist()
    assert CosineWeights().scores(data, env, EDGES).tolist() == pytest.approx(
        [cosine(x[i], x[j] + 1) for j, i in pairs]
    )
    assert CosineUpdates().scores(data, env, EDGES).tolist() == pytest.approx(
        [cosine(change[i], change[j] + 1) for j, i in pairs]
    )
    assert DistanceKernel("inverse").scores(data, env, EDGES).tolist() == pytest.approx(
        [1 / np.linalg.norm(x[i] - x[j] - 1) for j, i in pairs]
    )


@pytest.mark.parametrize("part", ["all", "head"])
def test_metrics_of_models_against_numpy(part):
    scene = Scene.small(shared_head=part == "head")  # two architectures, which have only the head in common
    data, env = trained(scene)
    x, start, init = (rows(stacks, part) for stacks in (data.x, data.x_start, data.x_init))
    pairs = [(j, i) for j, i in EDGES.T.tolist() if i != j]
    edges = torch.tensor(pairs).T
    last = np.array([cosine(x[i] - start[i], x[j] - start[j]) for j, i in pairs])
    total = np.array([cosine(x[i] - init[i], x[j] - init[j]) for j, i in pairs])
    assert np.abs(last - total).max() > 0.01
    expected = {
        CosineWeights(part): [cosine(x[i], x[j]) for j, i in pairs],
        CosineUpdates(1.0, part): last,
        CosineUpdates(0.0, part): total,
        CosineUpdates(0.25, part): 0.25 * last + 0.75 * total,
        DistanceKernel("inverse", part): [1 / np.linalg.norm(x[i] - x[j]) for j, i in pairs],
    }
    for metric, values in expected.items():
        found = metric.scores(data, env, edges)
        assert found.dtype == torch.float64
        assert found.tolist() == pytest.approx(list(values), rel=1e-9), metric


def test_hand_cases(make_graph, make_env):
    start = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    data = make_graph(start, start + torch.tensor([[3.0, 0.0], [4.0, 3.0], [0.0, 0.0]]))  # x: (4,0), (4,4), (2,2)
    data.x_init = data.x_init.map(lambda tensor: 0 * tensor)
    edges = torch.tensor([[1, 2], [0, 0]])
    found = {metric: metric.scores(data, make_env(), edges).tolist() for metric in METRICS[2:]}
    root = math.sqrt(0.5)
    assert found[CosineWeights()] == pytest.approx([root, root])
    assert found[CosineUpdates()] == pytest.approx([0.8, 0.0])  # who has not moved resembles nobody
    assert found[CosineUpdates(alpha=0.25)] == pytest.approx([0.25 * 0.8 + 0.75 * root, 0.75 * root])
    assert found[DistanceKernel("inverse")] == pytest.approx([1 / 4, 1 / math.sqrt(8)])


def test_only_the_terms_that_count_are_computed(make_graph, make_env):
    data = make_graph([[1.0], [2.0]], [[2.0], [4.0]])
    edges = torch.tensor([[1], [0]])
    for alpha, unused in ((1.0, "x_init"), (0.0, "x_start")):
        less = copy.copy(data)
        del less[unused]
        assert CosineUpdates(alpha).scores(less, make_env(), edges).tolist() == [1.0]


def test_equal_models_have_a_finite_similarity(make_graph, make_env):
    data = make_graph([[1.0, 2.0]] * 2)
    assert DistanceKernel("inverse", scale=2.0).scores(data, make_env(), torch.tensor([[1], [0]])).tolist() == [2e12]
    assert DistanceKernel("inverse").scores(data, make_env(), torch.tensor([[1], [0]])).isfinite().all()


@every_metric
def test_a_model_that_is_not_finite_is_similar_to_nobody(metric, scene):
    data, env = trained(scene)
    tensor = data.x.tensors[0].clone()
    tensor[2] = float("nan")
    data.x = data.x.like([tensor])
    edges = torch.tensor([[2, 1], [0, 0]])
    found = metric.scores(data, env, edges).tolist()
    assert found[0] == 0
    assert found[1] != 0


@every_metric
def test_no_edges(metric, scene):
    data, env = trained(scene)
    found = metric.scores(data, env, torch.zeros(2, 0, dtype=torch.int64))
    assert (found.shape, found.dtype) == ((0,), torch.float64)


@every_metric
def test_relabeled_nodes_have_the_same_scores(metric, scene):
    data, env = trained(scene)
    place = torch.tensor([3, 0, 5, 1, 4, 2])  # node k is called place[k]
    moved = copy.copy(data)
    for name in ("x", "x_start", "x_init"):
        moved[name] = data[name].select(place.argsort())
    engine = copy.copy(env.engine)
    engine.tasks = env.engine.tasks.select(place.argsort())
    found = metric.scores(moved, env._replace(engine=engine), place[EDGES])
    torch.testing.assert_close(found, metric.scores(data, env, EDGES), rtol=1e-9, atol=1e-12)


class Fixed(Similarity):
    """Similarities that are given."""

    def scores(self, data, env, edge_index):
        assert (edge_index[0] != edge_index[1]).all()  # self-loops are not scored
        return data.table[edge_index[1], edge_index[0]]


def by_similarity(metric):
    return PeerWeights(metric, merge=SimilarityWeights())


def test_weights_by_similarity_are_of_what_is_positive(make_graph, make_env):
    table = torch.tensor([[9.0, 0.6, 0.2], [-1.0, 9.0, 3.0], [-1.0, -2.0, 9.0]], dtype=torch.float64)
    edges = torch.cartesian_prod(torch.arange(3), torch.arange(3)).flip(1).T
    data = by_similarity(Fixed())(make_graph([[0.0]] * 3, edges=edges, table=table), make_env())
    matrix = torch.zeros(3, 3).index_put((edges[1], edges[0]), data.edge_weight)
    expected = [[3 / 7, 3 / 7, 1 / 7], [0, 0.5, 0.5], [0, 0, 1]]
    torch.testing.assert_close(matrix, torch.tensor(expected))


@every_metric
def test_a_method_learns_with_any_of_them(metric):
    method = Method(
        "by_similarity",
        local=Fit(epochs=1, optimizer=SGD(lr=0.1)),
        weigh=by_similarity(metric),
        exchange=Exchange("zero", "x"),
        prepare=WithSelfLoops(),
    )
    data, _ = Scene.small().play(method, rounds=2)
    assert data.x.tensors[0].isfinite().all()
    sums = torch.zeros(6, dtype=data.edge_weight.dtype).index_add_(0, data.edge_index[1], data.edge_weight)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_bytes(make_graph, make_env):
    # 1 moved as 0 did, 2 the other way: as weighers, all send their models; 2's models weigh nothing for 0 and 1
    edges = [[0, 1, 2, 0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2]]
    data = make_graph([[0.0, 0.0]] * 3, [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], edges)
    floats = 2  # P
    for metric, more in ((CosineUpdates(), floats), (CosineUpdates(0.0), 0), (CosineWeights(), 0)):
        assert metric.payload(data) == more
        sent = by_similarity(metric)(data, make_env()).bytes_sent
        # every node has two receivers; 0 and 1 weigh nothing for 2, and 2 nothing for either
        assert sent.tolist() == [4 * (2 * more + 1 * floats), 4 * (2 * more + 1 * floats), 4 * (2 * more + 2 * floats)]
    after = Exchange("zero", "x")(by_similarity(CosineWeights())(data, make_env()), make_env())
    assert after.bytes_sent.tolist() == [16.0, 16.0, 16.0]  # in all, one model for each receiver


def test_models_on_edges_not_in_use_are_not_charged(make_graph, make_env):
    data = make_graph([[1.0], [-1.0]], edges=[[0, 1], [1, 0]])
    data.serves = torch.tensor([False, True])
    assert by_similarity(CosineWeights())(data, make_env()).bytes_sent.tolist() == [0.0, 0.0]


def test_bytes_of_several_architectures():
    scene = Scene.small(shared_head=True)
    data, env = trained(scene)
    data.edge_index, data.bytes_sent = torch.tensor([[0, 1], [2, 3]]), torch.zeros(6, dtype=torch.float64)
    data.table, data.edge_weight = torch.ones(6, 6, dtype=torch.float64), torch.zeros(2)
    sizes = [spec.num_parameters for spec in data.x.specs]
    assert PeerWeights(Fixed(), merge=NoWeights())(data, env).bytes_sent.tolist() == [
        4.0 * sizes[0],
        4.0 * sizes[1],
        0,
        0,
        0,
        0,
    ]


class Largest(TorchDispatchMode):
    """Records the largest tensor that any operator makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(made, torch.Tensor):
                own = made.values() if made.layout == torch.sparse_csr else made
                self.numbers = max(self.numbers, own.numel())
        return out


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@every_metric
def test_no_metric_makes_a_tensor_of_all_edges_and_parameters(metric, backend):
    scene = Scene.small(torch.float32, sizes=[4] * 24)
    torch.manual_seed(0)
    wide = torch.nn.Sequential(torch.nn.Linear(4, 400), torch.nn.ReLU(), torch.nn.Linear(400, 3))  # P = 3203
    scene = replace(scene, modules=[wide], backend=backend, chunk=8)
    data, env = trained(scene)
    edges = Complete()(Data(num_nodes=24)).edge_index  # all pairs, 552
    with Largest() as largest:
        found = metric.scores(data, env, edges)
    assert found.isfinite().all()
    assert largest.numbers <= 48 * 3203 < edges.shape[1] * 3203 / 10  # no more than both ends' models


def test_what_they_need():
    assert [metric.needs for metric in METRICS] == [("train",), ("val",), (), (), (), ()]
    for metric in METRICS:
        assert {split for piece in by_similarity(metric).walk() for split in piece.needs} == {*metric.needs}
    assert not any(by_similarity(metric).learns for metric in METRICS)


def test_a_node_without_samples_is_named(scene):
    tasks = scene.tasks
    empty = tasks.splits["val"].select(torch.arange(6))
    split = type(empty).from_lists(empty.pool, [empty.of(k) if k != 4 else empty.of(k)[:0] for k in range(6)])
    data, env = trained(scene)
    engine = copy.copy(env.engine)
    engine.tasks = replace(tasks, splits={**tasks.splits, "val": split})
    env = env._replace(engine=engine)
    with raises("empty", "split 'val'", "'node 4'"):
        InverseLoss("val").scores(data, env, EDGES)
    InverseLoss("val").scores(data, env, EDGES[:, :3])  # nobody asks node 4
    with raises("empty", "split 'val'", "'node 4'"):
        Scene.small().replace(tasks=engine.tasks).begin(
            Method("m", local=Fit(), weigh=by_similarity(InverseLoss("val")))
        )


def test_negative_losses_have_no_inverse(scene):
    data, env = trained(scene)

    class Engine:
        tasks = env.engine.tasks

        def loss(self, rows, split):
            return torch.linspace(1, -1, len(rows))

    with raises("range", "loss", "0.333333", "4"):
        InverseLoss().scores(data, env._replace(engine=Engine()), EDGES)


def test_a_loss_of_zero_and_one_that_is_not_finite(scene):
    data, env = trained(scene)

    class Engine:
        tasks = env.engine.tasks

        def loss(self, rows, split):
            return torch.tensor([0.0, math.inf, math.nan, 2.0])

    found = InverseLoss(reduction="mean", eps=1e-6).scores(data, env._replace(engine=Engine()), EDGES[:, :4])
    assert found.tolist() == pytest.approx([1e6, 0.0, 0.0, 0.5])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: InverseLoss(reduction="max"), ("value", "reduction", "'sum', 'mean'", "'max'")),
        (lambda: InverseLoss(eps=0.0), ("value", "eps", "0.0")),
        (lambda: DistanceKernel(-1.0), ("value", "sigma", "'median'", "'inverse'", "-1.0")),
        (lambda: CosineUpdates(alpha=1.5), ("value", "alpha", "1.5")),
        (lambda: CosineUpdates(alpha=float("nan")), ("value", "alpha", "nan")),
        (lambda: as_similarity("Inverse-Los"), ("unknown", "similarity", "'Inverse-Los'", "'inverse_loss'")),
    ],
)
def test_refusals(make, error):
    with raises(*error):
        make()


def test_a_part_that_is_not_shared_is_refused_at_the_start():
    for metric in (CosineWeights(), CosineUpdates(), DistanceKernel("inverse"), DistanceKernel()):
        with raises("mismatch", "part 'all'", "'head'"):
            Scene.small(shared_head=True).begin(Method("m", local=Fit(), weigh=by_similarity(metric)))


def test_by_name():
    names = "inverse_loss", "cosine_weights", "cosine_updates", "inverse_distance"
    made = [InverseLoss(), CosineWeights(), CosineUpdates(), DistanceKernel("inverse")]
    assert [as_similarity(name) for name in names] == made
    metric = CosineUpdates(alpha=0.5)
    assert as_similarity(metric) is metric
    assert as_similarity("cosine_weights", part="head") == CosineWeights("head")
    assert as_similarity("inverse_loss", part="head") == InverseLoss()
    for wrong in (CosineUpdates, 3):
        with raises("value", "metric"):
            as_similarity(wrong)
