"""Graphs come in as people have them, and mean the same edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab import Tasks, run
from graphcollab._base.settings import SettingError
from graphcollab.methods import l2c
from graphcollab.persistence import LearnedGraph
from graphcollab.train.start import build_graph
from tests.raising import raises, warns

NAMES = ["ada", "bob", "cy"]
EDGES = [(1, 0), (2, 0), (0, 1)]  # ada hears bob and cy, bob hears ada; sorted by receiver
NAMED = [("bob", "ada"), ("ada", "bob"), ("cy", "ada")]


def tasks(names=NAMES):
    x = torch.arange(12.0).view(6, 2)
    return Tasks.from_samples([(x, (x[:, 0] > 3).long())] * len(names), names=names)


def edges(graph, of=None):
    return [*map(tuple, build_graph(of or tasks(), [nn.Linear(2, 2)], graph).edge_index.T.tolist())]


INDEX = torch.tensor(EDGES).T


@pytest.mark.parametrize(
    "graph",
    [
        INDEX,
        INDEX.numpy(),
        INDEX.flip(1).numpy()[:, ::-1],
        Data(edge_index=INDEX, num_nodes=3),
        NAMED,
        [("bob", "ada", 0.5), ("ada", "bob", 0.0), ("cy", "ada", 1)],
        [[1, 0], [2, 0], ["ada", 1]],
        LearnedGraph(edge_index=INDEX, edge_weight=torch.zeros(3), num_nodes=3, name=NAMES),
    ],
    ids=lambda graph: type(graph).__name__,
)
def test_all_mean_the_same(graph):
    assert edges(graph) == EDGES


@pytest.mark.parametrize("graph", [INDEX.int(), Data(edge_index=INDEX.int(), num_nodes=3)], ids=["tensor", "Data"])
def test_edges_of_32_bits_are_edges(graph):
    assert build_graph(tasks(), [nn.Linear(2, 2)], graph).edge_index.dtype == torch.int64
    model = nn.Linear(2, 2)
    one, other = (run(l2c(epochs=1), tasks(), model, each, rounds=2) for each in (graph, INDEX))
    assert torch.equal(one.stacks.tensors[0], other.stacks.tensors[0])


def test_no_edges():
    assert edges([]) == []


def test_self_loops():
    assert edges([("cy", "cy"), ("ada", "cy")]) == [(0, 2), (2, 2)]


def test_two_nodes():
    two = tasks(["ada", "bob"])
    assert edges(torch.tensor([[1], [0]]), two) == [(1, 0)]
    assert edges([("bob", "ada")], two) == [(1, 0)]


def test_a_learned_graph_goes_by_names():
    result = run(l2c(epochs=1), tasks(), nn.Linear(2, 2), NAMED, rounds=1)
    turned = tasks(["cy", "ada", "bob"])
    by_name = {("bob", "ada"), ("cy", "ada"), ("ada", "bob")}
    for graph in (result.graph(), [*result.graph().to_networkx().edges]):
        found = {(turned.names[j], turned.names[i]) for j, i in edges(graph, turned) if i != j}
        assert found == by_name


@pytest.mark.parametrize(
    ("graph", "error", "says"),
    [
        ([("ada", "rob")], KeyError, ("unknown", "node", "'rob'", "'bob'")),
        ([("ada", 7)], IndexError, ("range", "node", "7")),
        (torch.eye(2).to(torch.complex64), ValueError, ("shape", "edge_index")),
        (torch.eye(2), ValueError, ("shape", "edge_index")),
        (torch.eye(2).bool(), ValueError, ("shape", "edge_index")),
        ("ada", SettingError, ("value", "graph")),
        ([[0, 1, 1], [1, 0, 0], [1, 0, 0]], SettingError, ("value", "graph")),
        ([("ada", "bob", 0.5, 0.5)], SettingError, ("value", "graph")),
        ([["ada", "bob", 0.5]], SettingError, ("value", "graph")),
        (np.ones((4, 4)), SettingError, ("value", "graph", "dense_to_sparse(W.T)")),
        (torch.eye(3), SettingError, ("value", "graph", "dense_to_sparse(W.T)")),
        (torch.eye(3).long(), SettingError, ("value", "graph", "dense_to_sparse(W.T)")),
        (torch.tensor([[0], [3]]), ValueError, ("range", "edge_index")),
    ],
)
def test_graphs_that_do_not_fit(graph, error, says):
    with raises(*says, kind=error):
        edges(graph)


@pytest.mark.parametrize("graph", [[("ada", 1.5)], [("ada", "bob", "cleo")], np.array([["a"]] * 2)])
def test_what_is_no_edge_is_refused(graph):
    with pytest.raises((TypeError, ValueError)):
        edges(graph)


def test_what_a_learned_graph_says_is_taken_again():
    graph = LearnedGraph(edge_index=INDEX, edge_weight=torch.tensor([0.25, 0.5, 1.0]), num_nodes=3, name=NAMES)
    assert edges(graph.named_edges()) == edges(graph) == EDGES


def test_positions_are_refused_where_names_are_other_numbers():
    numbered = tasks(["1", "2", "3"])
    with raises("ambiguous", "graph", "1", "2", "3"):
        edges(torch.tensor([[1], [2]]), numbered)
    assert edges([(1, 2)], numbered) == [(0, 1)]
    assert edges(Data(edge_index=torch.tensor([[1], [2]]), num_nodes=3), numbered) == [(1, 2)]
    assert edges(torch.tensor([[1], [2]]), tasks(["0", "1", "2"])) == [(1, 2)]


def test_a_file_is_a_graph_by_name(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_text("sender,receiver,weight\n" + "".join(f"{j},{i},0.5\n" for j, i in NAMED))
    graph = LearnedGraph.from_csv(path)
    assert graph.named_edges() == [(j, i, 0.5) for j, i in NAMED]
    assert edges(graph) == edges(LearnedGraph.from_csv(str(path))) == EDGES
    path.write_text("\ufeffreceiver,km,sender\n07,3,8\nNA,4,8\n")
    graph = LearnedGraph.from_csv(path)
    assert edges(graph, tasks(["NA", "9", "07", "8"])) == [(3, 0), (3, 2)]
    with raises("unknown", "node", kind=KeyError):
        edges(graph)
    path.write_text("sender,receiver\nada,bob\nada,bob\n")
    with raises("duplicate", "edge_index"):
        edges(LearnedGraph.from_csv(path))
    odd = LearnedGraph(edge_index=INDEX, edge_weight=torch.ones(3), num_nodes=3, name=["=ada", "-bob", "'cy"])
    assert LearnedGraph.from_csv(odd.to_csv(path)).named_edges() == odd.named_edges()
    path.write_text("sender,receiver\n")
    assert edges(LearnedGraph.from_csv(path)) == []
    path.write_text("sender,receiver\nada\n")
    with raises("unknown", "node", kind=KeyError):
        edges(LearnedGraph.from_csv(path))
    weighted = "sender,receiver,weight\nada,bob,"
    for content in ("from,to\nada,bob\n", "", f"{weighted}much\n", f"{weighted}\n"):
        path.write_text(content)
        with raises("format", f"file {path}"):
            LearnedGraph.from_csv(path)
    path.write_bytes(b"sender,receiver\na,\xff\n")
    with raises("format", f"file {path}"):
        LearnedGraph.from_csv(path)


def test_what_a_run_wrote_is_a_graph(tmp_path):
    first = run(l2c(), tasks(), nn.Linear(2, 2), graph=NAMED, rounds=1).graph()
    read = LearnedGraph.from_csv(first.to_csv(tmp_path / "g.csv"))
    with warns("no-effect", "graph"):
        again = run(l2c(), tasks(), nn.Linear(2, 2), graph=read, rounds=1).graph()
    assert again.named_edges() == first.named_edges()


def test_triples_of_names_that_are_numbers():
    of = tasks(("1", "2", "3", "4"))
    assert edges([(1, 2, 0.33), (3, 4, 1.0)], of) == edges([("1", "2"), ("3", "4")], of)
    with pytest.raises(SettingError):
        edges([[1, 2, 0.33], [3, 1, 1.0], [0, 0, 1.0]], of)  # may be the rows of a matrix
