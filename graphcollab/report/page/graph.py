"""Who listens to whom, round by round, as points and lines that a page can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphcollab.metrics.edges import pair_weights
from graphcollab.report.page.graph_places import Groups, groups_of, places_of
from graphcollab.train import Result

__all__ = ["Line", "Listening", "listening", "listens"]

MOST_NODES = 150
MOST_ROUNDS = 50
MOST_LINES = 40_000  # of all graphs of a page together
ENOUGH, FEWEST = 480, 3  # lines of a round that can be told apart; of a receiver they are some at least
EACH = (12, 8, 5, 3, 2, 1)  # senders of a receiver that are drawn at most, as many as there is room for


class Line(NamedTuple):
    """A weight from one round to before another; sender and receiver are positions among the nodes drawn."""

    first: int
    until: int
    sender: int
    receiver: int
    weight: float


@dataclass(frozen=True)
class Listening:
    """What is drawn of a graph over rounds, and what is not.

    Args:
        names: Nodes that are drawn.
        places: Where, in [-1, 1].
        groups: Their groups in the last round.
        lines: Weights as they change.
        rounds: Rounds that are drawn.
        left_out: What is not drawn, in sentences.
    """

    names: Sequence[str]
    places: Sequence[tuple[float, float]]
    groups: Groups
    lines: Sequence[Line]
    rounds: Sequence[int]
    left_out: Sequence[str]

    @property
    def last(self) -> list[Line]:
        """Lines of the last round."""
        return [line for line in self.lines if line.until > self.rounds[-1]]


def listening(result: Result, graphs_of_page: int = 1) -> Listening | None:
    """Return what is drawn of the graph of a run; None where nobody listens to anybody else."""
    names, graphs = result.tasks.names, _graphs(result)
    rounds = sorted(graphs)
    kept = _spread(rounds, MOST_ROUNDS)
    of_round = {r: _between(*graphs[r]) for r in kept}
    if not any(weight.numel() for _, weight in of_round.values()):
        return None
    total = sum(_sums(*one, len(names)) for one in of_round.values())
    chosen = torch.as_tensor(total).argsort(descending=True, stable=True)[:MOST_NODES].sort().values
    weights = torch.stack([_matrix(*of_round[r], chosen, len(names)) for r in kept])
    lines, each = _fitting(weights, kept, MOST_LINES // graphs_of_page)
    groups = groups_of(weights[-1])
    places = places_of(groups, weights[-1].sum(0).tolist())
    said = _left_out(len(names), len(chosen), rounds, kept, each)
    if any(bool(graphs[r][1].isnan().any()) for r in kept):
        said.append("Weights that other sites alone know are not drawn.")
    return Listening([names[k] for k in chosen.tolist()], places, groups, lines, kept, said)


def listens(result: Result) -> bool:
    """Tell whether anybody listens to anybody else in a round."""
    return any(_between(*one)[1].numel() for one in _graphs(result).values())


def _graphs(result: Result) -> dict[int, tuple[Tensor, Tensor]]:
    """Return edges and weights by round; of a run that has not kept them, the last."""
    graph = result.graph()
    return dict(result.history.graphs) or {result.data.round: (graph.edge_index, graph.edge_weight)}


def _between(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return edges between different nodes that have a weight."""
    edges, weights = edges.cpu(), weights.cpu().nan_to_num(0.0).float()
    some = (edges[0] != edges[1]) & (weights > 0)
    return edges[:, some], weights[some]


def _sums(edges: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return what nodes give and are given together, [K]."""
    return sum(torch.bincount(end, weights.double(), minlength=count) for end in edges)  # type: ignore[return-value]


def _matrix(edges: Tensor, weights: Tensor, chosen: Tensor, count: int) -> Tensor:
    """Return weights between some nodes, receivers in rows, [n, n]."""
    place = torch.full((count,), -1).index_put((chosen,), torch.arange(len(chosen)))
    edges = place[edges]
    here = (edges >= 0).all(0)
    return pair_weights(edges[:, here], weights[here], len(chosen), partly=True).nan_to_num(0.0).float()


def _spread(rounds: Sequence[int], most: int) -> list[int]:
    """Return at most so many rounds, evenly spread, the first and the last among them."""
    if len(rounds) <= most:
        return list(rounds)
    places = torch.linspace(0, len(rounds) - 1, most).round().long().unique().tolist()
    return [rounds[place] for place in places]


def _fitting(weights: Tensor, rounds: Sequence[int], most: int) -> tuple[list[Line], int]:
    """Return lines of weights [R, n, n], the largest of every receiver, and how many there was room for."""
    digits = max(3, 2 - math.floor(math.log10(float(weights.max()) or 1.0)))
    room = max(FEWEST, ENOUGH // weights.shape[1])
    for each in (each for each in EACH if each <= room):
        lines = _lines(_largest(weights, each), rounds, digits)
        if len(lines) <= most:
            break
    return lines, each


def _largest(weights: Tensor, each: int) -> Tensor:
    """Return weights with all but the largest of every receiver set to 0."""
    values, senders = weights.topk(min(each, weights.shape[2]), dim=2)
    return torch.zeros_like(weights).scatter(2, senders, values)


def _lines(weights: Tensor, rounds: Sequence[int], digits: int) -> list[Line]:
    """Return weights as lines, each for as long as it does not change."""
    whole = (weights * 10**digits).round().long().permute(1, 2, 0)  # [receiver, sender, R]
    before = torch.cat([torch.zeros_like(whole[..., :1]), whole[..., :-1]], 2)
    changes = (whole != before).nonzero().tolist()
    lines = []
    for (receiver, sender, n), then in zip(changes, [*changes[1:], [-1, -1, 0]], strict=True):
        weight = int(whole[receiver, sender, n])
        until = rounds[then[2]] if then[:2] == [receiver, sender] else rounds[-1] + 1
        if weight > 0:
            lines.append(Line(rounds[n], until, sender, receiver, round(weight / 10**digits, digits)))
    return lines


def _left_out(count: int, drawn: int, rounds: Sequence[int], kept: Sequence[int], each: int) -> list[str]:
    """Say what is not drawn."""
    said = []
    if drawn < count:
        said.append(f"Of {count} nodes the {drawn} are drawn that give and are given most; the table of nodes has all.")
    if len(kept) < len(rounds):
        said.append(f"Of {len(rounds)} recorded rounds {len(kept)} are drawn, evenly spread.")
    if each < drawn - 1:
        said.append(f"Of what a node listens to the {each} largest weight{'s are' * (each > 1) or ' is'} drawn.")
    return said
