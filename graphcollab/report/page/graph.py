"""Who listens to whom, round by round, as points and lines that a page can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphcollab.metrics.edges import pair_weights
from graphcollab.train import Result

__all__ = ["Listening", "listening"]

MOST_NODES = 150
MOST_ROUNDS = 50
MOST_EDGES = 8_000  # in all rounds and graphs of a page together
EACH = 12  # senders of a receiver that are drawn at most
IN_A_CIRCLE = 8  # nodes at most
APART = 1.6  # distance at which points rest, somewhat more than what fills the plane evenly
SEED = 0


@dataclass(frozen=True)
class Listening:
    """What is drawn of a graph over rounds, and what is not.

    Args:
        nodes: ``node``, ``x`` and ``y`` in [-1, 1], and ``group``, of those that are drawn.
        edges: ``r``, the round, ``s`` and ``t``, positions of sender and receiver in `nodes`, and ``w``, the weight.
        rounds: Rounds that are drawn.
        left_out: What is not drawn, in sentences.
    """

    nodes: Sequence[dict[str, Any]]
    edges: Sequence[dict[str, Any]]
    rounds: Sequence[int]
    left_out: Sequence[str]


def listening(result: Result, graphs_of_page: int = 1) -> Listening | None:
    """Return what is drawn of the graph of a run; None where nobody listens to anybody else."""
    graphs = _weights(result)
    if not any(bool((weights > 0).any()) for weights in graphs.values()):
        return None
    names, rounds = result.tasks.names, sorted(graphs)
    kept = _spread(rounds, MOST_ROUNDS)
    heard = sum(graphs.values(), torch.zeros(len(names), len(names)))
    chosen = (heard.sum(0) + heard.sum(1)).argsort(descending=True, stable=True)[:MOST_NODES].sort().values
    each = max(1, min(EACH, MOST_EDGES // (graphs_of_page * len(kept) * len(chosen))))
    edges = [edge for r in kept for edge in _strongest(r, graphs[r][chosen][:, chosen], each)]
    nodes = _placed([names[k] for k in chosen.tolist()], graphs[kept[-1]][chosen][:, chosen])
    return Listening(nodes, edges, kept, _left_out(len(names), len(chosen), rounds, kept, each))


def _weights(result: Result) -> dict[int, Tensor]:
    """Return weights [K, K] by round, receivers in rows; 0 where there is no edge, on the diagonal, or not known."""
    count, last = result.tasks.num_nodes, result.graph()
    graphs = result.history.graphs or {result.data.round: (last.edge_index, last.edge_weight)}
    found = {}
    for round_, (edges, weights) in graphs.items():
        matrix = pair_weights(edges.cpu(), weights.cpu(), count, partly=True).nan_to_num(0.0).float()
        found[round_] = matrix.fill_diagonal_(0).clamp(min=0)
    return found


def _spread(rounds: Sequence[int], most: int) -> list[int]:
    """Return at most so many rounds, evenly spread, the first and the last among them."""
    if len(rounds) <= most:
        return list(rounds)
    places = torch.linspace(0, len(rounds) - 1, most).round().long().unique().tolist()
    return [rounds[place] for place in places]


def _strongest(round_: int, weights: Tensor, each: int) -> list[dict[str, Any]]:
    """Return of every receiver the senders it gives most."""
    values, senders = weights.topk(min(each, len(weights)), dim=1)
    return [
        {"r": round_, "s": sender, "t": receiver, "w": round(value, 4)}
        for receiver, (row, who) in enumerate(zip(values.tolist(), senders.tolist(), strict=True))
        for value, sender in zip(row, who, strict=True)
        if value > 0
    ]


def _placed(names: Sequence[str], weights: Tensor) -> list[dict[str, Any]]:
    """Return nodes where those that listen to each other are close, with their groups in the last round."""
    import networkx

    both = (weights + weights.T) / 2
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(names)))
    pairs = torch.triu(both, 1).nonzero().tolist()
    graph.add_weighted_edges_from((i, j, float(both[i, j])) for i, j in pairs)
    groups = networkx.community.louvain_communities(graph, seed=SEED)
    group_of = {k: g for g, some in enumerate(sorted(groups, key=lambda some: (-len(some), min(some)))) for k in some}
    if len(names) <= IN_A_CIRCLE:
        place = networkx.circular_layout(graph)
    else:
        place = networkx.spring_layout(graph, seed=SEED, k=APART / math.sqrt(len(names)))
    return [
        {"node": name, "x": _short(place[k][0]), "y": _short(place[k][1]), "group": f"group {group_of[k] + 1}"}
        for k, name in enumerate(names)
    ]


def _short(value: float) -> float:
    return round(float(value), 3)


def _left_out(count: int, drawn: int, rounds: Sequence[int], kept: Sequence[int], each: int) -> list[str]:
    """Say what is not drawn."""
    said = []
    if drawn < count:
        said.append(f"Of {count} nodes the {drawn} are drawn that give and are given most; the table below has all.")
    if len(kept) < len(rounds):
        said.append(f"Of {len(rounds)} recorded rounds {len(kept)} are drawn, evenly spread.")
    if each < drawn - 1:
        said.append(f"Of what a node listens to the {each} largest weight{'s are' * (each > 1) or ' is'} drawn.")
    if len(rounds) == 1:
        said.append("One round was recorded; with callbacks=[RecordGraph()] a run keeps all, and a slider moves here.")
    return said
