"""The graph of who listens to whom: what is shown of many nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from graphcollab.report.page.drawn import MOST_NODES, graph_section


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
    (section,) = graph_section({"l2c": _result(count, rounds)})
    (chart,) = section.charts
    shown = min(count, MOST_NODES)
    cells = [[cell.text for cell in row] for row in chart.table.rows]
    assert [row[0] for row in cells] == [f"n{k}" for k in range(count - shown, count)]
    assert f"in round {rounds[-1]}," in chart.table.caption
    assert ("Shown are" in chart.caption) == (count > MOST_NODES)
    assert cells[-2][2] == f"n{count - 1} {(count - 2) / count:.3f}"


def test_nobody_listens_to_anybody_else() -> None:
    assert [*graph_section({"local": _result(1, range(1, 2))})] == []
