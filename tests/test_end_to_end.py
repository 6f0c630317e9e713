"""What a user does, from data to models and graph, and what the methods are for, on real digits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import networkx
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset
from torch_geometric.data import Data

import graphcollab
from examples.benchmark._figures import weight_by_overlap
from graphcollab import Phases, Tasks, build_model, get_method, load_dataset, run
from graphcollab.analysis.metrics import in_cluster_share, recovery_auc
from graphcollab.data.partition import grouped_tasks, shard_tasks
from graphcollab.methods import dpsgd, fedavg, l2c, local, meta_l2c
from graphcollab.models import MLP
from graphcollab.nn import MixingEncoder
from graphcollab.train import Compute, RecordGraph
from graphcollab.transforms import Ring
from tests.raising import raises


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def seeded(seed):
    return torch.Generator().manual_seed(seed)


# as a library


def test_ten_lines(tmp_path):
    rng = np.random.default_rng(0)
    hospitals = {}
    for name, size in (("Lyon", 40), ("Turin", 55), ("Ghent", 70)):
        x = rng.normal(size=(size, 5))
        hospitals[name] = (x, (x[:, 0] + x[:, 1] > 0).astype(int))
    tasks = Tasks.from_samples(list(hospitals.values()), names=list(hospitals))
    result = run(meta_l2c(lr=0.1), tasks, nn.Linear(5, 2), rounds=10)
    print(result.history.last("val_metric"))
    model = result.model("Turin")  # a torch.nn.Linear
    graph = result.graph()  # a torch_geometric Data
    result.save_mixer(tmp_path / "mixer.safetensors")

    assert type(model) is nn.Linear
    right = model(torch.tensor(hospitals["Turin"][0]).float()).argmax(1).numpy() == hospitals["Turin"][1]
    assert right.mean() > 0.85
    assert graph.num_nodes == 3
    assert float(result.history.last("val_metric").mean()) > 0.8


def test_everything_public_can_be_reached():
    for name in graphcollab.__all__:
        assert getattr(graphcollab, name) is not None
    assert get_method("fedavg") is fedavg


@pytest.fixture(scope="module")
def result():
    nodes = [(torch.randn(20 + 7 * k, 4, generator=seeded(k)), torch.arange(20 + 7 * k) % 3) for k in range(4)]
    tests = [*nodes[:2], (nodes[0][0][:0], nodes[0][1][:0]), nodes[3]]
    tasks = Tasks.from_samples(nodes, test=tests, names=["n", "e", "s", "w"])
    return run(l2c(lr=0.1), tasks, lambda: MLP(4, (6,), 3), Ring(), rounds=3)


def test_personalized_models_are_plain_modules(result):
    models = result.models()
    assert list(models) == ["n", "e", "s", "w"]
    x = torch.randn(5, 4)
    for k, (name, model) in enumerate(models.items()):
        assert type(model) is MLP
        assert not model.training
        flat = torch.cat([p.flatten() for p in model.parameters()])
        assert torch.equal(flat, result.stacks.tensors[0][k])
        assert torch.equal(result.model(name)(x), model(x))
        assert torch.equal(result.model(k)(x), model(x))
        assert all(p.requires_grad for p in model.parameters())
    models["n"].head.weight.data.zero_()  # changing one changes no other, nor the result
    assert bool(result.model("n").head.weight.any())
    with raises("unknown", "node", "'x'", "n, e, s, w", kind=KeyError):
        result.model("x")


def test_nodes_of_unequal_size_and_without_test_data(result):
    history = result.history
    assert history.last("test_metric").isnan().tolist() == [False, False, True, False]
    assert result.summary()["nodes"] == 3
    assert result.summary()["mean"] == pytest.approx(float(history.last("test_metric")[[0, 1, 3]].mean()))


def test_the_learned_graph(result):
    graph = result.graph()
    assert isinstance(graph, Data)
    assert graph.validate(raise_on_error=True)
    assert graph.x.shape == (4, result.stacks.tensors[0].shape[1])
    assert graph.name == ["n", "e", "s", "w"]
    assert graph.has_self_loops()
    given = torch.zeros(4).index_add(0, graph.edge_index[1], graph.edge_weight)
    assert given.tolist() == pytest.approx([1.0] * 4)


def test_to_networkx(result):
    graph = result.graph()
    told = graph.to_networkx()
    assert isinstance(told, networkx.DiGraph)
    assert list(told) == ["n", "e", "s", "w"]
    assert set(told.edges) == {("nesw"[j], "nesw"[i]) for j, i in graph.edge_index.T.tolist()}
    for (sender, receiver), weight in zip(graph.edge_index.T.tolist(), graph.edge_weight.tolist(), strict=True):
        assert told.edges["nesw"[sender], "nesw"[receiver]]["weight"] == pytest.approx(weight)
    assert not told.has_edge("n", "s"), "not among the allowed edges"


def test_only_meta_l2c_has_a_mixer_to_save(result, tmp_path):
    with raises("unsupported", "result"):
        result.save_mixer(tmp_path / "mixer")


def test_regression():
    weight = torch.tensor([1.0, -2.0, 0.5])
    nodes = []
    for k in range(4):
        x = torch.randn(40, 3, generator=seeded(k))
        nodes.append((x, x @ weight + 3.0 * (k % 2)))
    tasks = Tasks.from_samples(nodes, test=nodes, loss="mse", metric="mse")
    result = run(meta_l2c(lr=0.05), tasks, lambda: nn.Linear(3, 1), rounds=25, patience=20)
    errors = result.history.mean("test_metric")
    assert errors[-1] < 0.05 < errors[0]
    assert result.history.final("test_metric").tolist() == pytest.approx(result.history.final("test_loss").tolist())
    validation = result.history.mean("val_metric")
    assert validation[result.history.returned] == min(validation)
    assert result.model(1).bias.item() == pytest.approx(3.0, abs=0.3)
    assert result.model(0).bias.item() == pytest.approx(0.0, abs=0.3)
    assert result.history.summary()["worst10"] == float(result.history.final("test_metric").max())


@pytest.mark.parametrize("outputs", [1, 2])
def test_binary_tasks_judged_by_auc(outputs):
    nodes = []
    for k in range(3):
        x = torch.randn(60, 4, generator=seeded(k))
        nodes.append((x, (x[:, 0] > 1.0).long()))  # few positives
    loss = "bce" if outputs == 1 else "cross_entropy"
    tasks = Tasks.from_samples(nodes, test=nodes, loss=loss, metric="auc")
    result = run(fedavg(lr=0.1), tasks, lambda: nn.Linear(4, outputs), rounds=6)
    assert result.history.metric == "auc"
    assert result.history.mean("test_metric")[-1] > 0.9


class Squares(Dataset):
    """A data set that makes its samples when asked."""

    def __init__(self, start, size):
        self.start, self.size = start, size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        x = (self.start + index) / 10
        return torch.tensor([x, x * x]), x > 1


def test_torch_datasets_as_input():
    train = [Squares(0, 21), Squares(3, 30), TensorDataset(torch.rand(9, 2), torch.arange(9) % 2)]
    tasks = Tasks.from_samples(train, test=train)
    assert tasks.sizes("test").tolist() == [21, 30, 9]
    result = run(local(lr=0.5), tasks, lambda: nn.Linear(2, 2), rounds=8)
    assert float(result.history.last("test_metric")[:2].min()) > 0.9


def test_own_loss_and_metric():
    """Quantile regression: the median of a skewed target, judged by how often it is exceeded."""

    def pinball(outputs, targets):
        error = targets - outputs[:, 0]
        return torch.maximum(0.5 * error, -0.5 * error).mean()

    def distance_from_half(outputs, targets):
        return abs(float((targets > outputs[:, 0]).double().mean()) - 0.5)

    distance_from_half.higher_is_better = False
    nodes = []
    for k in range(3):
        target = -torch.log(torch.rand(50 + 10 * k, generator=seeded(k)))
        nodes.append((torch.ones(len(target), 1), target))
    tasks = Tasks.from_samples(nodes, test=nodes, loss=pinball, metric=distance_from_half)
    for backend in ("vmap", "loop"):
        result = run(
            dpsgd(epochs=3, lr=0.02), tasks, lambda: nn.Linear(1, 1), rounds=20, compute=Compute(backend=backend)
        )
        assert result.history.metric == "distance_from_half"
        assert not result.history.higher_is_better
        assert result.history.mean("test_metric")[-1] < 0.1
        median = torch.cat([target for _, target in nodes]).median()
        assert float(result.model(0)(torch.ones(1, 1)).detach()) == pytest.approx(float(median), abs=0.15)
    stopped = run(local(lr=0.1), tasks, lambda: nn.Linear(1, 1), rounds=30, patience=3)
    values = stopped.history.mean("val_metric")
    assert values[stopped.history.returned] == min(values)


def test_forbidden_edges_carry_nothing(digits):
    tasks = grouped_tasks(digits, groups=2, nodes_per_group=3)
    inside = torch.tensor([[i, j] for i in range(6) for j in range(6) if i != j and i // 3 == j // 3]).T
    result = run(meta_l2c(lr=0.05), tasks, MLP(64, (16,), 10), inside, rounds=3)
    sender, receiver = result.data.edge_index
    assert bool((sender // 3 == receiver // 3).all())


def test_nodes_of_two_architectures_share_a_head():
    tasks = Tasks.from_samples([(torch.randn(30, 4, generator=seeded(k)), torch.arange(30) % 3) for k in range(4)])
    models = [lambda: MLP(4, (8, 6), 3), lambda: MLP(4, (6,), 3)]
    result = run(l2c(lr=0.1, part="head"), tasks, models, architecture=[0, 1, 0, 1], rounds=3)
    sizes = [sum(p.numel() for p in model.parameters()) for model in result.models().values()]
    assert sizes == [40 + 54 + 21, 30 + 21] * 2
    assert "x" not in result.graph()


def test_layers_with_running_statistics_randomness_and_recurrence():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.GRU(2, 5, batch_first=True), nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.body(x.unflatten(1, (2, 2)))[0][:, -1])

    norm = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3))
    tasks = Tasks.from_samples([(torch.randn(30, 4, generator=seeded(k)), torch.arange(30) % 3) for k in range(3)])
    for model in (Recurrent(), norm):
        result = run(meta_l2c(lr=0.1, batch_size=8), tasks, model, rounds=2)
        assert result.env.engine.plans[0].backend == "loop"
        assert type(result.model(0)) is type(model)
    assert int(result.model(0)[1].num_batches_tracked) > 0


def test_records_of_phases(tmp_path):
    tasks = Tasks.from_samples([(torch.randn(12, 4, generator=seeded(k)), torch.arange(12) % 3) for k in range(3)])
    method = Phases(fedavg(lr=0.1), 2, l2c(lr=0.1))
    watch = [RecordGraph({1, 3})]
    result = run(method, tasks, nn.Linear(4, 3), rounds=3, callbacks=watch, checkpoint=tmp_path / "run")
    assert sorted(result.history.graphs) == [1, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_mixer_transfers(digits, tmp_path):
    """Trained on five classes, used frozen on the others by another number of nodes, without validation data."""
    module = lambda: MLP(64, (32,), 10)  # noqa: E731
    first = grouped_tasks(digits, 2, 3, classes=[0, 1, 2, 3])
    result = run(meta_l2c(lr=0.05, mixer_lr=0.1, drop_round=None), first, module, rounds=15, evaluate_every=15)
    path = result.save_mixer(tmp_path / "mixer.safetensors")
    second = grouped_tasks(digits, 3, 4, classes=[4, 5, 6, 7, 8, 9], val_fraction=0)
    method = meta_l2c(lr=0.05, pretrained=path, frozen=True, drop_round=None)
    transferred = run(method, second, module, rounds=15, evaluate_every=15)
    data = transferred.data
    assert torch.equal(data.mixer.tensors["head/weight1"], MixingEncoder.load(path).tensors["head/weight1"])
    assert recovery_auc(data.edge_index, data.edge_weight, second.cluster) > 0.9


# what it is for, on real digits


@pytest.fixture(scope="module")
def demo(digits):
    """A partition into 100 nodes of two classes: local, FedAvg and meta-L2C for 30 rounds."""
    methods = [local(lr=0.05), fedavg(lr=0.05), meta_l2c(lr=0.05, mixer_lr=0.01)]
    tasks = shard_tasks(digits, shards=20, classes_per_node=2, seed=0)
    model = partial(build_model, "mlp", digits.input_shape, digits.num_classes)
    return {method.name: run(method, tasks, model, rounds=30, evaluate_every=30) for method in methods}


def test_collaboration_helps(demo):
    found = {name: result.summary() for name, result in demo.items()}
    assert found["meta_l2c"]["mean"] > found["local"]["mean"] > found["fedavg"]["mean"]
    assert found["meta_l2c"]["worst10"] > found["local"]["worst10"]
    assert found["meta_l2c"]["mean"] > 0.97


def test_nodes_listen_to_those_with_the_same_classes(demo):
    result = demo["meta_l2c"]
    overlap, mean, *_ = weight_by_overlap(result.data.edge_index, result.data.edge_weight, result.tasks.classes)
    assert overlap.tolist() == [0, 1, 2]
    assert mean[0] < mean[1] < mean[2]


@pytest.mark.parametrize(("mixer_lr", "seed"), [pytest.param(0.03, 0, marks=pytest.mark.slow), (0.1, 1)])
def test_nodes_of_the_same_task_find_each_other(digits, mixer_lr, seed):
    """Five tasks of two classes, three nodes each, nobody dropped, judged after 20 rounds."""
    tasks = grouped_tasks(digits, groups=5, nodes_per_group=3, seed=seed)
    model = lambda: build_model("mlp", digits.input_shape, digits.num_classes)  # noqa: E731
    method = meta_l2c(lr=0.05, mixer_lr=mixer_lr, drop_round=None)
    data = run(method, tasks, model, rounds=20, seed=seed, evaluate_every=20).data
    assert recovery_auc(data.edge_index, data.edge_weight, tasks.cluster) > 0.99
    assert in_cluster_share(data.edge_index, data.edge_weight, tasks.cluster) >= 0.9


def test_results_do_not_depend_on_chunk_and_backend(digits):
    tasks = grouped_tasks(digits, groups=5, nodes_per_group=1)
    tasks = replace(tasks, loss=lambda outputs, targets: F.cross_entropy(outputs, targets))
    model = MLP(64, (8,), 10).double()
    tasks = replace(tasks, pools={n: replace(p, inputs=p.inputs.double()) for n, p in tasks.pools.items()})
    rows = [
        run(meta_l2c(lr=0.05), tasks, model, rounds=2, compute=Compute(**settings)).stacks.tensors[0]
        for settings in ({"backend": "vmap"}, {"backend": "vmap", "chunk": 3}, {"backend": "loop"})
    ]
    assert float((rows[0] - rows[1]).abs().max()) < 1e-9
    assert float((rows[0] - rows[2]).abs().max()) < 1e-9
