from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab import Tasks, run
from graphcollab.methods import fedavg, local, random_peers
from graphcollab.models import MLP
from graphcollab.testing import Scene
from graphcollab.train.start import build_graph, build_modules
from graphcollab.transforms import Ring
from tests.raising import raises


def make():
    return MLP(4, (6,), 3)


@pytest.fixture
def tasks():
    return Scene.small(torch.float32).tasks


def test_modules_are_drawn_from_the_seed():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, two = build_modules([make, make], 0)
    (again,), (other,) = build_modules(make, 0), build_modules(make, 1)
    assert torch.equal(one.head.weight, again.head.weight)
    assert not torch.equal(one.head.weight, other.head.weight)
    assert not torch.equal(one.head.weight, two.head.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_is_copied_and_a_sequential_is_one_model():
    module = nn.Sequential(nn.Linear(4, 3))
    (copied,) = build_modules(module, 0)
    assert copied is not module
    assert torch.equal(copied[0].weight, module[0].weight)
    assert copied[0].weight.data_ptr() != module[0].weight.data_ptr()


@pytest.mark.parametrize("wrong", ["mlp", 3, None, lambda: "mlp", [make, "mlp"], MLP])
def test_what_is_no_model(wrong):
    with raises("value", "model", kind=(TypeError, ValueError)):
        build_modules(wrong, 0)
    with raises("empty", "model"):
        build_modules([], 0)


def test_every_node_starts_from_the_same_parameters(tasks):
    module = make()
    data = build_graph(tasks, [module])
    assert data.x.tensors[0].shape == (6, 51)
    assert bool((data.x.tensors[0] == torch.cat([p.flatten() for p in module.parameters()])).all())
    assert data.edge_index.shape == (2, 30)
    assert data.node_id.tolist() == tasks.ids.tolist()
    assert data.trains.tolist() == data.serves.tolist() == [True] * 6
    assert not data.isolated.any()
    assert data.round == 0


def test_edges_may_be_given_in_any_form(tasks):
    ring = build_graph(tasks, [make()], Ring())
    by_index = build_graph(tasks, [make()], ring.edge_index.flip(1))
    assert torch.equal(ring.edge_index, by_index.edge_index)
    edge_attr = torch.arange(12.0)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    given = Data(num_nodes=6, edge_index=ring.edge_index[:, order], edge_attr=edge_attr[order], edge_weight=edge_attr)
    by_data = build_graph(tasks, [make()], given)
    assert torch.equal(by_data.edge_index, ring.edge_index)
    assert torch.equal(by_data.edge_attr, edge_attr)
    assert not by_data.edge_weight.any()


def test_two_architectures(tasks):
    data = build_graph(tasks, [make(), MLP(4, (9,), 3)], architecture=[0, 1, 1, 0, 0, 1])
    assert [t.shape for t in data.x.tensors] == [(3, 51), (3, 75)]
    assert [m.tolist() for m in data.x.members] == [[0, 3, 4], [1, 2, 5]]


def test_architectures_by_name(tasks):
    kinds = dict(zip(tasks.names, [0, 1, 1, 0, 0, 1], strict=True))
    data = build_graph(tasks, [make(), MLP(4, (9,), 3)], architecture=dict(reversed(kinds.items())))
    assert [m.tolist() for m in data.x.members] == [[0, 3, 4], [1, 2, 5]]
    with raises("unknown", "node", "'Bern'", kind=KeyError):
        build_graph(tasks, [make(), MLP(4, (9,), 3)], architecture={**kinds, "Bern": 0})
    lacking = {name: kind for name, kind in kinds.items() if name != tasks.names[2]}
    with pytest.raises(KeyError, match=tasks.names[2]):
        build_graph(tasks, [make(), MLP(4, (9,), 3)], architecture=lacking)


BAD = {
    "missing": (None, ("missing", "architecture")),
    "too short": ([0, 1], ("value", "architecture", "6")),
    "too large": ([0, 1, 2, 0, 0, 0], ("value", "architecture")),
    "negative": ([0, 1, -1, 0, 0, 0], ("value", "architecture")),
    "unused": ([0, 0, 0, 0, 0, 0], ("empty", "architecture 1")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_architectures(tasks, case):
    architecture, message = BAD[case]
    with raises(*message):
        build_graph(tasks, [make(), MLP(4, (9,), 3)], architecture=architecture)


def test_bad_graphs(tasks):
    for graph, message in (
        (torch.tensor([[0, 6], [1, 0]]), ("range", "edge_index", "edge 1 (6 -> 0)")),
        (torch.tensor([[0, 0], [1, 1]]), ("duplicate", "edge_index", "2 times")),
        (torch.tensor([0, 1]), ("value", "graph")),
        (torch.tensor([[0.0], [1.0]]), ("shape", "edge_index")),
        (Data(num_nodes=5, edge_index=torch.tensor([[0], [1]])), ("mismatch", "graph", "5", "6")),
        (Data(num_nodes=6), ("missing", "edge_index")),
    ):
        with raises(*message):
            build_graph(tasks, [make()], graph)


def test_a_list_is_no_edge_index(tasks):
    with raises("value", "graph"):
        build_graph(tasks, [make()], [[0, 1, 2], [1, 0, 3]])


def test_weights_and_losses_have_the_models_number_type():
    tasks = Tasks.from_samples([(torch.ones(2, 3), torch.zeros(2).long())] * 2)
    for dtype in (torch.float32, torch.float64):
        data = build_graph(tasks, [nn.Linear(3, 2, dtype=dtype)])
        assert (data.edge_weight.dtype, data.train_loss.dtype) == (dtype, dtype)


def test_edges_that_are_given_are_remembered():
    given = build_graph(Scene.small().tasks, [make()], torch.tensor([[1, 0, 0, 3], [0, 1, 0, 4]]))
    assert given.allowed.edge_index.tolist() == [[1, 0, 3], [0, 1, 4]]  # as they are kept, without self-loops
    assert given.component[0] == given.component[1]
    assert given.component.unique().numel() == 5
    assert "allowed" not in build_graph(Scene.small().tasks, [make()])
    for method in (fedavg(), random_peers()):  # no pairs are listed
        everybody = build_graph(Scene.small().tasks, [make()], method=method)
        assert everybody.num_edges == 0
        assert "allowed" not in everybody


def test_a_function_of_tasks_makes_a_model_for_them(tasks):
    sizes = []
    made = lambda given: [sizes.append(given.input_shape), MLP(*given.input_shape, (6,), 3)][1]  # noqa: E731
    (one,) = run(local(lr=0), tasks, made, rounds=1).modules
    (other,) = run(local(lr=0), tasks, lambda width=4: MLP(width, (6,), 3), rounds=1).modules
    assert sizes == [(4,)]
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)  # both are drawn from the seed
    with raises("value", "model"):
        build_modules(made, 0)
    both = run(local(lr=0), tasks, [made, made], architecture=[0, 1] * 3, rounds=1)
    assert [type(module) for module in both.modules] == [MLP, MLP]
