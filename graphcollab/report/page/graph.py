"""Who listens to whom, round by round, as points and lines that a page can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab.metrics.edges import pair_weights
from graphcollab.naming import few
from graphcollab.report._text import number
from graphcollab.report.page.content import Chart, Section
from graphcollab.report.page.graph_chart import Line, graph_chart
from graphcollab.report.values import Cell, Column, Table
from graphcollab.train import Result

__all__ = ["Listening", "graph_section", "listening"]

MOST_NODES = 150
MOST_ROUNDS = 50
MOST_LINES = 40_000  # of all graphs of a page together
ENOUGH, FEWEST = 480, 3  # lines of a round that can be told apart; of a receiver they are some at least
EACH = (12, 8, 5, 3, 2, 1)  # senders of a receiver that are drawn at most, as many as there is room for


IN_A_CIRCLE = 8  # nodes at most; more are where springs of the weights pull them
CLEAR = 0.3  # modularity from which on groups are clear (Newman and Girvan, 2004)
NAMED = 12  # nodes up to which captions name every group's
SAID = (
    "A line goes from a node that is listened to (sender) to the one that listens (receiver, at the arrow's head); the "
    "thicker, the larger the weight. Colors are groups whose nodes listen to each other more than to others, in the "
    "last round drawn."
)
ONE = "One round was recorded; where a run records all, by RecordGraph(), a slider moves here."


@dataclass(frozen=True)
class Listening:
    """What is drawn of a graph over rounds, and what is not.

    Args:
        names: Nodes that are drawn.
        places: Where, in [-1, 1].
        groups: Every node's group in the last round, from 0, the largest first.
        modularity: How far groups are from each other: 0 is as by chance, 0.3 and more are clear groups.
        lines: Weights as they change.
        rounds: Rounds that are drawn.
        left_out: What is not drawn, in sentences.
    """

    names: Sequence[str]
    places: Sequence[tuple[float, float]]
    groups: Sequence[int]
    modularity: float
    lines: Sequence[Line]
    rounds: Sequence[int]
    left_out: Sequence[str]

    @property
    def last(self) -> list[Line]:
        """Lines of the last round."""
        return [line for line in self.lines if line.until > self.rounds[-1]]


def graph_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section with a chart of every method whose nodes listen to others, if there is any."""
    some = {
        name: result for name, result in last.items() if any(len(_between(*g)[1]) for g in _graphs(result).values())
    }
    charts: list[Chart] = []
    for name, result in some.items():
        if (found := listening(result, len(some))) is not None:
            place, rounds = f"graph-{len(charts)}", (found.rounds[0], found.rounds[-1])
            args = (found.names, found.places, found.groups, found.lines, rounds)
            charts.append(graph_chart(*args, place, _caption(name, found), _table(name, found)))
    if charts:
        yield Section("graph", "Who listens to whom", [SAID], charts)


def _listens(result: Result) -> bool:
    return any(_between(*one)[1].numel() for one in _graphs(result).values())


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
    said = _left_out(len(names), len(chosen), rounds, kept, each)
    if any(bool(graphs[r][1].isnan().any()) for r in kept):
        said.append("Weights that other sites alone know are not drawn.")
    groups, modularity, places = _laid_out(weights[-1])
    return Listening([names[k] for k in chosen.tolist()], places, groups, modularity, lines, kept, said)


def _laid_out(weights: Tensor) -> tuple[list[int], float, list[tuple[float, float]]]:
    """Return groups by the method of Louvain, their modularity, and places of nodes, of weights [n, n]."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(len(weights)))
    both = (weights + weights.T) / 2
    graph.add_weighted_edges_from((i, j, float(both[i, j])) for i, j in torch.triu(both, 1).nonzero().tolist())
    found = networkx.community.louvain_communities(graph, seed=0)
    some = sorted(found, key=lambda group: (-len(group), min(group)))
    of = {k: g for g, group in enumerate(some) for k in group}
    clear = networkx.community.modularity(graph, some) if graph.size() else 0.0
    few_nodes = len(weights) <= IN_A_CIRCLE
    places = networkx.circular_layout(graph) if few_nodes else networkx.spring_layout(graph, seed=0)
    return (
        [of[k] for k in range(len(weights))],
        clear,
        [(float(x), float(y)) for x, y in map(places.__getitem__, range(len(weights)))],
    )


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


def _caption(name: str, one: Listening) -> str:
    """Say what is drawn, and whether groups are clear."""
    when = f"rounds {one.rounds[0]} to {one.rounds[-1]}" if len(one.rounds) > 1 else f"round {one.rounds[0]}"
    drawn = " drawn" * bool(one.left_out)
    most = f"The largest weight{drawn} is {number(max(line.weight for line in one.lines), None)}."
    alone = [ONE] * (len(one.rounds) == 1)
    return " ".join([f"{name}: who listens to whom, {when}.", most, _of_groups(one), *one.left_out, *alone])


def _of_groups(one: Listening) -> str:
    """Say how many groups there are, and how far they are from each other."""
    inside = {g: [n for n, of in zip(one.names, one.groups, strict=True) if of == g] for g in sorted({*one.groups})}
    if len(inside) == 1:
        return "Nodes form no groups."
    which = "; ".join(f"group {g + 1}: {few(names)}" for g, names in inside.items())
    if len(one.names) > NAMED:
        which = f"{len(inside)} groups, of {few([str(len(names)) for names in inside.values()])} nodes"
    clear = round(one.modularity, 2) >= CLEAR
    how = "clearly apart" if clear else "not clearly apart, so do not read much into them"
    return f"{which[0].upper()}{which[1:]}. They are {how} (modularity {number(one.modularity, 2)})."


def _table(name: str, one: Listening) -> Table:
    """Return the weights of the last round, a row for every receiver."""
    heard: dict[int, list[str]] = {k: [] for k in range(len(one.names))}
    listeners = dict.fromkeys(heard, 0)
    for line in sorted(one.last, key=lambda line: -line.weight):
        heard[line.receiver].append(f"{one.names[line.sender]} {number(line.weight, None)}")
        listeners[line.sender] += 1
    rows = [
        [Cell(node), Cell(f"group {one.groups[k] + 1}"), Cell(listeners[k]), Cell(", ".join(heard[k]) or "nobody")]
        for k, node in enumerate(one.names)
    ]
    columns = [Column("node"), Column("group"), Column("listeners", "count"), Column("listens to")]
    return Table(columns, rows, caption=f"{name}: weights in round {one.rounds[-1]}, of the lines that are drawn")
