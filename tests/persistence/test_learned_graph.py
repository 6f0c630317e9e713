"""Learned graphs leave the library with names, and weights as others call them."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab import Tasks, run
from graphcollab.methods import ditto
from graphcollab.persistence import LearnedGraph
from tests.raising import warns


@pytest.fixture
def graph():
    edges = torch.tensor([[1, 0, 2], [0, 0, 1]])
    weight = torch.tensor([0.25, 0.75, 1.0])
    return LearnedGraph(edge_index=edges, edge_weight=weight, num_nodes=4, name=["a, b", "é", "c", "alone"])


def test_it_is_a_data(graph):
    assert isinstance(graph, Data)
    assert graph.num_nodes == 4
    assert isinstance(graph.clone(), LearnedGraph)


def test_networkx(graph):
    told = graph.to_networkx()
    assert list(told) == ["a, b", "é", "c", "alone"]
    assert told.edges["é", "a, b"]["weight"] == 0.25  # from sender to receiver
    assert set(told.edges) == {("é", "a, b"), ("a, b", "a, b"), ("c", "é")}


def test_csv(graph, tmp_path):
    text = graph.to_csv(tmp_path / "graph.csv").read_text(encoding="utf-8")
    assert text == 'sender,receiver,weight\né,"a, b",0.25\n"a, b","a, b",0.75\nc,é,1.0\n'


def test_writing_a_graph_without_edges_warns(tmp_path):
    x, y = torch.randn(6, 2), torch.arange(6) % 2
    graph = run(ditto(epochs=1), Tasks.from_samples([(x, y), (x, y)]), torch.nn.Linear(2, 2), rounds=1).graph()
    assert graph.named_edges() == []
    with warns("empty", "graph"):
        text = graph.to_csv(tmp_path / "graph.csv").read_text()
    assert text == "sender,receiver,weight\n"
