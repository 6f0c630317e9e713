"""Warnings at the end of one or several runs: diverged models, undefined metrics, uninformative weights."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.scores import not_defined
from graphcollab.analysis.metrics.weight_spread import WeightSpread, weight_spread
from graphcollab.comm.lists import gather_texts
from graphcollab.comm.plane import Plane
from graphcollab.components import Env, Exchanger, Weigher
from graphcollab.components.at_work import apply_participation, edges_in_use
from graphcollab.components.guard import cure, initial_bounds
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method, last_graph
from graphcollab.methods.phases import Phases
from graphcollab.persistence.history import History

DIVERGED = "diverged"
FACTOR = 10.0
ALONE, SINGLE, UNIFORM, STILL = "own model only", "one model only", "uniform weights", "still equal weights"
EVEN_KINDS = (UNIFORM, STILL)
TEXTS = {
    ALONE: "all the own model's at {}: this amounts to local training. If others should help, weigh differences less",
    SINGLE: "a single model's at {}: nothing is averaged any more. If others should help, weigh differences less",
    UNIFORM: "uniform at {}: this amounts to averaging over neighbors. If nodes are not alike, weigh differences more",
    STILL: "still equal, or nearly so, at {}: they do not say yet who helps whom. Play more rounds",
}
OWN = 0.99  # a model with at most one percent weight on others is trained alone, whatever they send
ONE_HOT = 0.1  # weights with one entry of 0.99 have an entropy of 0.02 among 100 and of 0.05 among 4
EVEN = 0.999  # the evenness of weights that differ by some 5 % among 3 neighbors, and by 10 % among 100
EQUAL = 1 - 1e-9  # the evenness of weights that differ by a ten-thousandth: their order is meaningless
SHARE = 0.9  # of the nodes: a few of them may have individual reasons
ROUNDS = 5  # fewer rounds allow no conclusion; for equal weights, which is how they start, see `Weigher.settling`


def report_divergence(method: Method | Phases, data: Data, env: Env, history: History) -> None:
    """Warn, once, at a run's end, if losses are finite but far above those of uninformed models."""
    split = next((split for split in ("test", "val") if f"{split}_loss" in history.values), None)
    if split is None or not len(history):
        return
    loss, bound = history.final(f"{split}_loss"), initial_bounds(data, env, FACTOR, split)
    usual = bound[bound.isfinite()].median()  # with few samples losses may be near 0 by chance
    far = loss.isfinite() & (loss > bound.fmax(usual)) & ~data.isolated.cpu()
    why = {k: f"{float(loss[k]):.4g}" for k in env.plane.local(far.nonzero().flatten()).tolist()}
    if not env.plane.cross_silo:  # a party that comes back later finds no other party at the end of this run
        why = gather_texts(env.plane, why)
    if not why:
        return
    names = tuple(history.names[node] for node in why)
    text = (
        f"{method.name}: its models have diverged: the {split} loss of {few(names)} is {few(list(why.values()))} after "
        f"{history.rounds[history.returned]} rounds, more than {FACTOR:g} times as much as that of the initial model "
        f"and that of outputs of zero. To mend it, {cure(env)}, or check the data"
    )
    history.findings.append(Finding(DIVERGED, "models", text, {"round": data.round, "nodes": names}))
    issue("diverged", "models", text)


def warn_of_undefined(histories: Iterable[History], metric: Metric, count: int, known: Collection[str] = ()) -> bool:
    """Name, in one warning, nodes with samples of a split but no value of the metric at a history's last evaluation.

    Nodes in ``known`` have been named before: there is no warning if there are no others. Return whether it was issued.
    """
    lost: dict[str, tuple[list[str], int]] = {}
    for history in histories:
        for split in ("val", "test"):
            if found := history.undefined(split):
                nodes, fewest = lost.get(split, ([], count))
                left = int((~history.last(f"{split}_metric").isnan()).sum())
                lost[split] = [*dict.fromkeys([*nodes, *found])], min(left, fewest)
    new = any(node not in known for nodes, _ in lost.values() for node in nodes)
    if new:
        issue("quality", f"metric {metric.name!r}", not_defined(metric, lost, count))
    return new


def told_by_table(tasks: Tasks) -> list[str]:
    """Return the sites that `Tasks.from_frame` has warned about: rows of a single class, with AUC as the metric."""
    return [site for one in tasks.findings if one.code == "one-class" for site in one.numbers["sites"]]


def report_collapse(method: Method | Phases, data: Data, env: Env, history: History) -> None:
    """Warn, once, at a run's end, if its weights are concentrated on one model or do not distinguish models."""
    dropped = [one for one in history.findings if one.code == UNIFORM and one.numbers["round"] <= data.round]
    found, played = None, _played(method, data)
    if (spread := _spread(method, data, env)) is not None:
        if played >= ROUNDS:
            found = _alone(method, data, spread, history) or _single(method, data, spread, history)
        if found is None:
            last = method.last(data.round)
            early = not last.rewire.weighs and played < last.weigh.settling
            evenness, kind = _evenness(method, data, env, spread), STILL if early else UNIFORM
            found = _uniform(method, data, *evenness, history, kind=kind)
            found = None if dropped and early else found
    if found is not None:
        history.findings.append(found)
    for finding in [found] if found is not None else dropped[:1]:
        if finding.code != STILL:
            issue("quality", "weights", finding.message)


def may_have_dropped(method: Method | Phases, data: Data) -> bool:
    """Return whether edges have changed after a round in which weights were learned."""
    return "last_graph" in data and _played(method, data) >= 1 and learned(method, method.last(data.round))


def note_dropped(method: Method | Phases, data: Data, env: Env, history: History) -> None:
    """Keep a finding if neighbors were dropped after a round (`may_have_dropped`) with uninformative weights."""
    if (spread := _spread(method, data, env)) is None:
        return
    fewer = _senders(data, data.edge_index) < _senders(data, last_graph(data)[0])
    if bool(fewer.any()) and (found := _uniform(method, data, spread, spread.evenness, history, EQUAL)) is not None:
        said = f"{found.message}. By these weights neighbors were dropped after round {data.round}, at random"
        history.findings.append(replace(found, message=said))


def _spread(method: Method | Phases, data: Data, env: Env, per_sample: bool = False) -> WeightSpread | None:
    """Return the spread of weights in the last exchange, if there was one and they were not fixed."""
    last = method.last(data.round)
    if _played(method, data) < 1 or not (learned(method, last) or _computed(last)):
        return None
    then = copy.copy(data)
    then.round, (then.edge_index, then.edge_weight) = data.round - 1, last_graph(data)
    if last.weigh.rests(then):
        return None
    if per_sample:
        then.edge_weight = then.edge_weight / env.engine.tasks.sizes("train")[then.edge_index[0]]
    return spread_in_round(last.exchange, apply_participation(then, env), env.plane)


def learned(method: Method | Phases, last: Method) -> bool:
    """Return whether the weights of the method that played last were learned, by it or by an earlier phase."""
    before = any(isinstance(piece, Weigher) and piece.origin == "learned" for piece in method.walk())
    return last.weigh.origin == "learned" or (last.weigh.origin == "kept" and before)


def _computed(last: Method) -> bool:
    """Return whether a round of the method computes weights from models or data, in any slot."""
    by_local = last.weigh.origin == "kept" and last.local.crosses
    return last.weigh.origin == "computed" or by_local or last.rewire.weighs


def _played(method: Method | Phases, data: Data) -> int:
    """Return the number of rounds in which weights were learned, or kept since."""
    kept = method.last(data.round).weigh.origin == "kept"
    return int(data.round - (0 if kept else data.phase_start))


def _alone(method: Method | Phases, data: Data, spread: WeightSpread, history: History) -> Finding | None:
    """Return a finding if almost all nodes with in-neighbors give their own model all weight."""
    judged, alone, own = spread.neighbors > 0, spread.own >= OWN, spread.own
    if method.last(data.round).rewire.weighs:  # nodes without neighbors were given none
        judged, without = _may_receive(data) > 0, _senders(data, last_graph(data)[0]) == 0
        alone, own = alone | without, own.masked_fill(without, 1)
    return _finding(ALONE, method, data, history, alone, judged, own=float(own[judged].nanmean()))


def _single(method: Method | Phases, data: Data, spread: WeightSpread, history: History) -> Finding | None:
    """Return a finding if almost all nodes with several in-neighbors give a single model all weight."""
    judged, own = spread.neighbors > 1, spread.own >= OWN
    single = own | ((spread.largest >= OWN) & (spread.entropy <= ONE_HOT))  # pulls of several senders may each be 1
    return _finding(SINGLE, method, data, history, single, judged, others=int((single & judged & ~own).sum()))


def _evenness(method: Method | Phases, data: Data, env: Env, spread: WeightSpread) -> tuple[WeightSpread, Tensor]:
    """Return the evenness of the neighbors' weights, and of all, [K]; computed ones also relative to sample shares."""
    if learned(method, method.last(data.round)):
        return spread, _of_all(data, spread, env.plane)
    by_counts = _spread(method, data, env, per_sample=True)
    evenness = spread.evenness if by_counts is None else torch.fmax(spread.evenness, by_counts.evenness)
    return spread._replace(evenness=evenness), evenness


def _of_all(data: Data, spread: WeightSpread, plane: Plane) -> Tensor:
    """Return the evenness of all weights, own included, [K]: in use or as given, as rest changes those in use."""
    edge_index, weight = last_graph(data)
    known = ~weight.isnan() if plane.cross_silo else torch.ones_like(weight, dtype=torch.bool)
    given = weight_spread(edge_index[:, known], weight[known], data.num_nodes)
    return torch.fmax(given.entropy, spread.entropy)


def _uniform(
    method: Method | Phases,
    data: Data,
    spread: WeightSpread,
    evenness: Tensor,
    history: History,
    least: float = EVEN,
    kind: str = UNIFORM,
) -> Finding | None:
    """Return a finding if almost all nodes with several in-neighbors, none dropped, weigh them evenly."""
    whole = _senders(data, last_graph(data)[0]) >= _may_receive(data)
    judged, even = spread.neighbors > 1, (spread.evenness >= least) & (evenness >= least) & whole
    return _finding(kind, method, data, history, even, judged, own=float(spread.own[judged].mean()))


def _finding(
    kind: str, method: Method | Phases, data: Data, history: History, some: Tensor, judged: Tensor, **numbers: float
) -> Finding | None:
    """Return a finding about nodes ``some`` if they are almost all of those ``judged``."""
    some = some & judged
    found, many = int(some.sum()), int(judged.sum())
    if not many or found < SHARE * many:
        return None
    origin = "learned" if learned(method, method.last(data.round)) else "computed"
    text = f"{method.name}: its {origin} weights are {TEXTS[kind].format(f'{found} of {many} nodes')}"
    names = tuple(history.names[node] for node in some.nonzero().flatten().tolist())
    return Finding(kind, "weights", text, {"round": data.round, "nodes": names, "judged": many, **numbers})


def _senders(data: Data, edge_index: Tensor) -> Tensor:
    """Return the number of in-neighbors of every node that were not isolated, [K]."""
    sender, receiver = edge_index
    return torch.bincount(receiver[(sender != receiver) & ~data.isolated[sender]], minlength=data.num_nodes)


def _may_receive(data: Data) -> Tensor:
    """Return the number of other nodes, not isolated, that every node may receive from, [K]."""
    if "allowed" in data:
        return _senders(data, data.allowed.edge_index)
    return (~data.isolated).sum() - (~data.isolated).long()


def spread_in_round(exchange: Exchanger, data: Data, plane: Plane) -> WeightSpread | None:
    """Return the spread of a round's weights over edges in use, or None if models do not travel along edges.

    The data must be that round's. Nodes that do not train have no in-neighbors; weights not known here do not count.
    """
    if not exchange.along_edges:
        return None
    in_use = edges_in_use(data)
    used = data.trains[data.edge_index[1]] if in_use is None else in_use & data.trains[data.edge_index[1]]
    used = used & plane.is_local(data.edge_index[1]) if plane.cross_silo else used
    return weight_spread(data.edge_index[:, used], exchange.shares(data)[used], data.num_nodes)
