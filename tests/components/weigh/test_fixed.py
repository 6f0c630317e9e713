from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from graphcollab import Tasks
from graphcollab.comm import Plane
from graphcollab.components import Env, Metropolis, NoWeights, SampleCounts, Uniform
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import Engine, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import dpsgd
from graphcollab.train.start import build_graph
from graphcollab.transforms import Complete, RandomRegular, WithSelfLoops
from tests.raising import raises

EDGES = [[0, 1, 2, 1], [0, 0, 0, 2]]


def test_sample_counts_are_normalized_per_receiver(make_graph, make_env):
    after = SampleCounts()(make_graph([[0.0]] * 3, edges=EDGES), make_env([1, 2, 5]))
    assert after.edge_weight.tolist() == [0.125, 0.25, 0.625, 1.0]


def test_uniform(make_graph, make_env):
    after = Uniform()(make_graph([[0.0]] * 3, edges=EDGES), make_env())
    assert after.edge_weight.tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])


def test_no_weights(make_graph, make_env):
    data = make_graph([[0.0]] * 3, edges=EDGES, edge_weight=torch.ones(4))
    assert NoWeights()(data, make_env()).edge_weight.tolist() == [0.0] * 4
    assert data.edge_weight.tolist() == [1.0] * 4


def test_metropolis_on_a_path(make_graph, make_env):
    # 0 - 1 - 2 with self-loops: the middle node has degree 2
    edges = [[0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2]]
    data = Metropolis().init(make_graph([[0.0]] * 3, edges=edges), make_env())
    expected = [2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 2 / 3]
    assert Metropolis()(data, make_env()).edge_weight.tolist() == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15))
def test_metropolis_is_doubly_stochastic_and_symmetric(pairs):
    pairs = [(a, b) for a, b in pairs if a != b]
    loops = torch.arange(7).expand(2, -1)
    edges = torch.cat([to_undirected(torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T, num_nodes=7), loops], 1)
    spec = ParamSpec.from_module(nn.Linear(1, 1, dtype=torch.float64))
    data = Data(num_nodes=7, edge_index=edges, x=Stacks.single(spec, torch.zeros(7, 2, dtype=torch.float64)))
    weight = Metropolis()(data, None).edge_weight
    matrix = torch.zeros(7, 7, dtype=torch.float64).index_put((edges[1], edges[0]), weight)
    torch.testing.assert_close(matrix, matrix.T)
    torch.testing.assert_close(matrix.sum(1), torch.ones(7, dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert (matrix >= 0).all()


@pytest.mark.parametrize(
    ("weigher", "graph", "rounds"), [(Metropolis(), RandomRegular(4), 200), (Uniform(), Complete(), 100)], ids=str
)
def test_the_mean_of_double_precision_models_stays(weigher, graph, rounds):
    """Gossip without learning: weights in single precision moved the mean by 2.5e-5 in 1,000 rounds."""
    draw = torch.Generator().manual_seed(0)
    pool = Pool(torch.randn(7, 3, dtype=torch.float64, generator=draw), torch.zeros(7).long())
    tasks = Tasks({"train": pool}, {"train": Split.from_lists("train", list(torch.arange(7).split(1)))})
    module = nn.Linear(3, 2, dtype=torch.float64)
    method = dpsgd(lr=1e-300, weight_decay=0.0).replace(weigh=weigher)
    data = build_graph(tasks, [module], WithSelfLoops()(graph(Data(num_nodes=7, node_id=torch.arange(7)))))
    env = Env(Engine(tasks, [module], data.x.specs), Plane(), 0)
    rows = torch.randn(7, 8, dtype=torch.float64, generator=draw)
    data.x = data.x_init = data.x.like([rows])
    data = method.start(data, env)
    for _ in range(rounds):
        data = method.play(data, env)
    assert float((data.x.tensors[0].mean(0) - rows.mean(0)).abs().max()) < 1e-12


def test_metropolis_refuses_a_directed_graph(make_graph, make_env):
    with raises("disconnected", "graph"):
        Metropolis().init(make_graph([[0.0]] * 2, edges=[[0], [1]]), make_env())


def test_they_learn_nothing(make_graph, make_env):
    data = make_graph([[0.0]])
    for weigher in (Metropolis(), NoWeights(), SampleCounts(), Uniform()):
        assert (weigher.learns, weigher.needs) == (False, ())
        assert weigher.learn(data, make_env(), torch.ones(0)) is data
