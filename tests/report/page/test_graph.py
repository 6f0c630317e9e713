"""The graph of who listens to whom: what is shown of many nodes and rounds, and the rows of its matrix."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from graphcollab.report.page.drawn import MOST_NODES, Weights, _as_csv, weights_of


def _result(count: int, rounds: range) -> SimpleNamespace:
    """A run whose node k listens to node k + 1 in every round, the more the larger k is, and node 0 to itself."""
    receiver = torch.arange(count)
    edges = torch.stack([(receiver + 1).clamp(max=count - 1), receiver])
    graph = SimpleNamespace(edge_index=edges, edge_weight=receiver / count)
    history = SimpleNamespace(graphs=dict.fromkeys(rounds, (graph.edge_index, graph.edge_weight)))
    tasks = SimpleNamespace(names=[f"n{k}" for k in range(count)])
    return SimpleNamespace(tasks=tasks, graph=lambda: graph, history=history, data=SimpleNamespace(round=rounds[-1]))


@pytest.mark.parametrize(("count", "rounds"), [(3, range(1, 2)), (60, range(1, 120)), (80, range(4, 8))])
def test_the_nodes_with_the_largest_weights_and_the_last_round_are_shown(count, rounds) -> None:
    found = weights_of(_result(count, rounds))
    shown = min(count, MOST_NODES)
    assert found.names == [f"n{k}" for k in range(count - shown, count)]
    assert found.rounds[-1] == rounds[-1]
    assert (len(found.rounds), found.fewer) == (min(len(rounds), 50), count > MOST_NODES or len(rounds) > 50)
    above = torch.diagonal(found.values[-1], offset=1)  # sender k + 1 in the row of receiver k
    assert above.tolist() == pytest.approx([k / count for k in range(count - shown, count - 1)])


def test_nobody_listens_to_anybody_else() -> None:
    assert weights_of(_result(1, range(1, 2))) is None


def test_a_round_holds_until_the_next_that_is_shown() -> None:
    weights = torch.tensor([[[0.0, 0.5], [1 / 3, 0.0]], [[0.0, 0.0], [0.125, 0.0]]])
    text = _as_csv(Weights(["a", "b"], [2, 6], weights, False)).values
    assert text.splitlines() == ["r,u,i,j,value", "2,6,0,1,0.5", "2,6,1,0,0.333", "6,7,1,0,0.125"]
