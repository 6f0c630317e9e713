"""Who listens to whom, round by round, as places and lines: as many as a page can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphcollab.metrics.edges import pair_weights
from graphcollab.train import Result

MOST_NODES, MOST_ROUNDS = 150, 50
MOST_LINES = 60_000  # of all graphs of a page together
MOST_SENDERS = 12  # of a receiver
IN_A_CIRCLE = 8  # nodes at most; more are where springs of the weights pull them


class Line(NamedTuple):
    """A weight from one round to before another; sender and receiver are positions among the nodes drawn."""

    first: int
    until: int
    sender: int
    receiver: int
    weight: float


@dataclass(frozen=True)
class Listening:
    """What is drawn of a graph over rounds.

    Args:
        names: Nodes that are drawn: those that give and are given most.
        places: Where, in [-1, 1].
        lines: Weights of every round.
        rounds: Rounds that are drawn.
        left_out: Whether nodes, rounds or weights are not drawn.
    """

    names: Sequence[str]
    places: Sequence[tuple[float, float]]
    lines: Sequence[Line]
    rounds: Sequence[int]
    left_out: bool


def listening(result: Result, graphs_of_page: int = 1) -> Listening | None:
    """Return what is drawn of the graph of a run; None where nobody listens to anybody else."""
    names, graphs = result.tasks.names, _graphs(result)
    rounds = _spread(sorted(graphs))
    edges = {r: _between(*graphs[r]) for r in rounds}
    if not any(weight.numel() for _, weight in edges.values()):
        return None
    sums = [torch.bincount(end, w.double(), minlength=len(names)) for index, w in edges.values() for end in index]
    chosen = torch.stack(sums).sum(0).argsort(descending=True, stable=True)[:MOST_NODES].sort().values
    weights = torch.stack([_matrix(*one, chosen, len(names)) for one in edges.values()])  # [R, n, n]
    room = max(1, MOST_LINES // (graphs_of_page * len(rounds) * len(chosen)))
    lines = _lines(weights, rounds, min(room, MOST_SENDERS, len(chosen)))
    unknown = any(bool(graphs[r][1].isnan().any()) for r in rounds)
    fewer = len(chosen) < len(names) or len(rounds) < len(graphs) or len(lines) < int((weights > 0).sum())
    return Listening([names[k] for k in chosen.tolist()], _places(weights[-1]), lines, rounds, fewer or unknown)


def _places(weights: Tensor) -> list[tuple[float, float]]:
    """Return places of nodes, to which springs of the weights [n, n] pull them; of a few nodes on a circle."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(len(weights)))
    both = (weights + weights.T) / 2
    graph.add_weighted_edges_from((i, j, float(both[i, j])) for i, j in torch.triu(both, 1).nonzero().tolist())
    few = len(weights) <= IN_A_CIRCLE
    places = networkx.circular_layout(graph) if few else networkx.spring_layout(graph, seed=0)
    return [(float(x), float(y)) for x, y in map(places.__getitem__, range(len(weights)))]


def _graphs(result: Result) -> dict[int, tuple[Tensor, Tensor]]:
    """Return edges and weights by round; of a run that has not kept them, the last."""
    graph = result.graph()
    return dict(result.history.graphs) or {result.data.round: (graph.edge_index, graph.edge_weight)}


def _between(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return edges between different nodes that have a weight."""
    edges, weights = edges.cpu(), weights.cpu().nan_to_num(0.0).float()
    some = (edges[0] != edges[1]) & (weights > 0)
    return edges[:, some], weights[some]


def _matrix(edges: Tensor, weights: Tensor, chosen: Tensor, count: int) -> Tensor:
    """Return weights between some nodes, receivers in rows, [n, n]."""
    place = torch.full((count,), -1).index_put((chosen,), torch.arange(len(chosen)))
    edges = place[edges]
    here = (edges >= 0).all(0)
    return pair_weights(edges[:, here], weights[here], len(chosen), partly=True).nan_to_num(0.0).float()


def _spread(rounds: Sequence[int]) -> list[int]:
    """Return at most `MOST_ROUNDS` rounds, evenly spread, the first and the last among them."""
    places = torch.linspace(0, len(rounds) - 1, min(len(rounds), MOST_ROUNDS)).round().long().tolist()
    return [rounds[place] for place in places]


def _lines(weights: Tensor, rounds: Sequence[int], each: int) -> list[Line]:
    """Return weights [R, n, n] as lines, the largest of every receiver; each holds until the next round drawn."""
    largest, senders = (found.tolist() for found in weights.topk(each, dim=2))
    until = [*rounds[1:], rounds[-1] + 1]
    return [
        Line(rounds[n], until[n], senders[n][receiver][k], receiver, float(f"{weight:.3g}"))
        for n, of_round in enumerate(largest)
        for receiver, of_node in enumerate(of_round)
        for k, weight in enumerate(of_node)
        if weight > 0
    ]
