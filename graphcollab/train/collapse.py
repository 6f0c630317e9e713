"""What a run says at its end if the weights that were learned, or computed, tell nodes nothing."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.checks import issue
from graphcollab.control import attend
from graphcollab.control.at_work import edges_in_use
from graphcollab.env import Env
from graphcollab.method import Method, last_graph
from graphcollab.metrics import WeightSpread, weight_spread
from graphcollab.phases import Phases
from graphcollab.plane import Plane
from graphcollab.slots import Exchanger, Weigher
from graphcollab.train.history import Finding, History

ALONE, SINGLE, UNIFORM, STILL = "own model only", "one model only", "uniform weights", "still equal weights"
EVEN_KINDS = (UNIFORM, STILL)
OWN = 0.99  # a model that is no more than a hundredth others' is trained alone, whatever they send
ONE_HOT = 0.1  # the entropy of weights of which one is 0.99 is 0.02 among 100, 0.05 among 4
EVEN = 0.999  # the evenness of weights that differ by some 5 % among 3 neighbours, and by 10 % among 100
EQUAL = 1 - 1e-9  # the evenness of weights that differ by a ten-thousandth: which are the smallest means nothing
SHARE = 0.9  # of the nodes: a few of them may have reasons of their own
ROUNDS = 5  # of fewer nothing can be said; for equal weights, which is how they start, see `Weigher.settling`


def report_collapse(method: Method | Phases, data: Data, env: Env, history: History) -> None:
    """Warn, once, at a run's end, if its weights are all one model's, or do not tell models apart.

    So they are in the last exchange, or they did not when neighbours were dropped by them. It is kept as a finding, as
    is, without a warning, that weights are as equal as they were at the start after too few rounds to expect more.
    """
    dropped = [finding for finding in history.findings if finding.kind == UNIFORM and finding.round <= data.round]
    found, played = None, _played(method, data)
    if (spread := _spread(method, data, env, 1)) is not None:
        if played >= ROUNDS:
            found = _alone(method, data, spread, history) or _single(method, data, spread, history)
        if found is None:
            found = _uniform(method, data, *_evenness(method, data, env, spread), EVEN, history)
            last = method.last(data.round)
            if found is not None and not last.rewire.weighs and played < last.weigh.settling:
                found = None if dropped else _too_early(method, data, played, found)
    if found is not None:
        history.findings.append(found)
    for finding in [found] if found is not None else dropped[:1]:
        if finding.kind != STILL:
            issue("quality", "weights", finding.text)


def may_have_dropped(method: Method | Phases, data: Data) -> bool:
    """Tell whether edges have changed after a round in which weights were learned."""
    return "last_graph" in data and _played(method, data) >= 1 and learned(method, method.last(data.round))


def note_dropped(method: Method | Phases, data: Data, env: Env, history: History) -> None:
    """Keep a finding if neighbours were dropped after a round whose weights did not tell them apart."""
    if not may_have_dropped(method, data) or (spread := _spread(method, data, env, 1)) is None:
        return
    fewer = _heard(data, data.edge_index) < _heard(data, last_graph(data)[0])
    if bool(fewer.any()) and (found := _uniform(method, data, spread, spread.evenness, EQUAL, history)) is not None:
        text = f"{found.text}. By these weights neighbours were dropped after round {data.round}, at random"
        history.findings.append(replace(found, text=text))


def _spread(
    method: Method | Phases, data: Data, env: Env, rounds: int, per_sample: bool = False
) -> WeightSpread | None:
    """Return how weights were spread in the last exchange, if they were not fixed, and for so many rounds."""
    last = method.last(data.round)
    if _played(method, data) < rounds or not (learned(method, last) or _computed(last)):
        return None
    then = copy.copy(data)
    then.round, (then.edge_index, then.edge_weight) = data.round - 1, last_graph(data)
    if last.weigh.rests(then):
        return None
    if per_sample:
        then.edge_weight = then.edge_weight / env.engine.tasks.sizes("train")[then.edge_index[0]]
    return spread_in_round(last.exchange, attend(then, env), env.plane)


def learned(method: Method | Phases, last: Method) -> bool:
    """Tell whether the weights of the method that played last were learned, by it or by a phase before it."""
    before = any(isinstance(piece, Weigher) and piece.origin == "learned" for piece in method.walk())
    return last.weigh.origin == "learned" or (last.weigh.origin == "kept" and before)


def _computed(last: Method) -> bool:
    """Tell whether a round of the method computes weights from models or data, in whatever slot."""
    by_local = last.weigh.origin == "kept" and last.local.crosses
    return last.weigh.origin == "computed" or by_local or last.rewire.weighs


def _words(method: Method | Phases, data: Data) -> tuple[str, str, str, str]:
    """Return what its weights are called, and what to change where they are the own model's, one model's, or equal."""
    last = method.last(data.round)
    if learned(method, last):
        fewer = "take smaller steps on the weights, or "
        more = "take larger steps on the weights or let them decay less, play more rounds, or "
        samples = "give nodes more validation samples"
        return "learned", fewer + samples, fewer + "bound their logits", more + samples
    pieces = [*last.weigh.walk(), *last.local.walk(), *last.rewire.walk()]
    alone, even = (
        next((piece.cures[kind] for piece in pieces if kind in piece.cures), "change the settings that they depend on")
        for kind in ("alone", "even")
    )
    return "computed", alone, alone, even


def _played(method: Method | Phases, data: Data) -> int:
    """Return how many rounds weights were learned in, or kept since."""
    kept = method.last(data.round).weigh.origin == "kept"
    return int(data.round - (0 if kept else data.phase_start))


def _alone(method: Method | Phases, data: Data, spread: WeightSpread, history: History) -> Finding | None:
    """Return what is to be said if almost all nodes that hear others give their own model all weight."""
    judged, alone, own = spread.neighbors > 0, spread.own >= OWN, spread.own
    if method.last(data.round).rewire.weighs:  # who has no neighbors was given none
        judged, unheard = _may_hear(data) > 0, _heard(data, last_graph(data)[0]) == 0
        alone, own = alone | unheard, own.masked_fill(unheard, 1)
    if not _most(alone, judged):
        return None
    kind, cure, _, _ = _words(method, data)
    text = (
        f"{method.name}: its {kind} weights are all the own model's: {float(own[judged].nanmean()):.3f} in the mean, "
        f"at least {OWN} at {int((alone & judged).sum())} of {int(judged.sum())} nodes. This amounts to local "
        f"training. If others should help, {cure}"
    )
    return Finding(data.round, ALONE, _named(alone & judged, history), text)


def _single(method: Method | Phases, data: Data, spread: WeightSpread, history: History) -> Finding | None:
    """Return what is to be said if almost all nodes that hear several others give one model, whosever, all weight."""
    judged, own = spread.neighbors > 1, spread.own >= OWN
    single = own | ((spread.largest >= OWN) & (spread.entropy <= ONE_HOT))  # pulls may be 1 from several
    if not _most(single, judged):
        return None
    kind, _, cure, _ = _words(method, data)
    text = (
        f"{method.name}: its {kind} weights are a single model's: at least {OWN} at {int((single & judged).sum())} of "
        f"{int(judged.sum())} nodes, which is another's at {int((single & judged & ~own).sum())} of them. Nothing is "
        f"averaged any more. If others should help, {cure}"
    )
    return Finding(data.round, SINGLE, _named(single & judged, history), text)


def _evenness(method: Method | Phases, data: Data, env: Env, spread: WeightSpread) -> tuple[WeightSpread, Tensor]:
    """Return how even weights of neighbors are, and how even all are, [K].

    Weights that are computed may be as equal as shares of samples are, and what the own model has may be a setting.
    """
    if learned(method, method.last(data.round)):
        return spread, _of_all(data, spread, env.plane)
    by_counts = _spread(method, data, env, 1, per_sample=True)
    evenness = spread.evenness if by_counts is None else torch.fmax(spread.evenness, by_counts.evenness)
    return spread._replace(evenness=evenness), evenness


def _of_all(data: Data, spread: WeightSpread, plane: Plane) -> Tensor:
    """Return how even all weights are, the own model's among them, in use or as they were given, [K].

    What others that are at rest leave to the own model says nothing about what was learned.
    """
    edge_index, weight = last_graph(data)
    told = ~weight.isnan() if plane.private else torch.ones_like(weight, dtype=torch.bool)
    given = weight_spread(edge_index[:, told], weight[told], data.num_nodes)
    return torch.fmax(given.entropy, spread.entropy)


def _uniform(
    method: Method | Phases, data: Data, spread: WeightSpread, evenness: Tensor, least: float, history: History
) -> Finding | None:
    """Return what is to be said if almost all nodes that hear several others weigh them with that evenness at least.

    Those that hear fewer than they may have learned whom to drop, whatever the others weigh.
    """
    whole = _heard(data, last_graph(data)[0]) >= _may_hear(data)
    judged, even = spread.neighbors > 1, (spread.evenness >= least) & (evenness >= least) & whole
    if not _most(even, judged):
        return None
    kind, _, _, cure = _words(method, data)
    text = (
        f"{method.name}: its {kind} weights are uniform: at {int(even.sum())} of {int(judged.sum())} nodes the "
        f"entropy of neighbours' weights is at least {float(spread.evenness[even].min()):.4f} of what there can be "
        f"(the own model has {float(spread.own[judged].mean()):.3f} in the mean). This amounts to averaging over all "
        f"neighbours. If nodes are not alike, {cure}"
    )
    return Finding(data.round, UNIFORM, _named(even, history), text)


def _too_early(method: Method | Phases, data: Data, played: int, found: Finding) -> Finding:
    """Return what is to be said of even weights that are not blamed on what was learned."""
    kind = _words(method, data)[0]
    text = (
        f"{method.name}: after {played} round{'s' * (played > 1)} its {kind} weights are still equal, or nearly so, "
        f"at {len(found.nodes)} nodes: they do not say yet who helps whom. Play more rounds"
    )
    return replace(found, kind=STILL, text=text)


def _heard(data: Data, edge_index: Tensor) -> Tensor:
    """Return how many others every node hears that were not left behind, [K]."""
    sender, receiver = edge_index
    return torch.bincount(receiver[(sender != receiver) & ~data.isolated[sender]], minlength=data.num_nodes)


def _may_hear(data: Data) -> Tensor:
    """Return how many others every node may hear that were not left behind, [K]."""
    if "allowed" in data:
        return _heard(data, data.allowed.edge_index)
    return (~data.isolated).sum() - (~data.isolated).long()


def _most(found: Tensor, judged: Tensor) -> bool:
    return bool(judged.any()) and float((found & judged).sum()) >= SHARE * float(judged.sum())


def _named(nodes: Tensor, history: History) -> tuple[str, ...]:
    return tuple(history.names[node] for node in nodes.nonzero().flatten().tolist())


def spread_in_round(exchange: Exchanger, data: Data, plane: Plane) -> WeightSpread | None:
    """Return how the weights of a round are spread over edges in use, or None where models do not travel along edges.

    The data's edges, weights and masks must be that round's. Nodes that do not train have no in-neighbors. Of weights
    that are not known here, as between sites, nothing is said.
    """
    if not exchange.along_edges:
        return None
    in_use = edges_in_use(data)
    used = data.trains[data.edge_index[1]] if in_use is None else in_use & data.trains[data.edge_index[1]]
    used = used & plane.known(data.edge_index[1]) if plane.private else used
    return weight_spread(data.edge_index[:, used], exchange.shares(data)[used], data.num_nodes)
