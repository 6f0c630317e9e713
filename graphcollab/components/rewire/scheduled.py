"""Rewirings without a peer search: transforms of the graph, and client sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab._base.keyed import keyed_order
from graphcollab._base.piece import TOLD, Field, Readers, updated
from graphcollab._base.settings import Natural, Share
from graphcollab.components.env import Env
from graphcollab.components.slots import Rewiring
from graphcollab.transforms._edges import select_edges, with_edges

_SAMPLE_STREAM = 107


@dataclass(frozen=True)
class ApplyTransform(Rewiring):
    """Apply a transform to the graph after the exchange of every round, or of one round.

    Edges whose receiver is absent and cannot report their weights, as with a lost site, stay unchanged.

    Args:
        transform: Any PyG transform; it may read all weights, which are published.
        at: Index of the one round, from 0 at the method's start; 10 acts after eleven rounds, as ``t == T_0`` in the
            L2C paper. None: every round.
    """

    keeps: ClassVar[tuple[Field, ...]] = (TOLD,)
    told: ClassVar[Readers] = {"everybody": "the weights of its edges, in rounds in which the graph is changed"}

    transform: BaseTransform
    at: Natural | None = None

    def __call__(self, data: Data, env: Env) -> Data:
        if self.at is not None and data.round - data.phase_start != self.at:
            return data
        told = env.plane.broadcast(data.edge_weight, data.edge_index[1])
        data = updated(data, edge_told=told, edge_weight=told)
        if env.plane.complete:
            transformed: Data = self.transform(data)
            return transformed
        known = env.plane.there[data.edge_index[1]]
        return with_edges(self.transform(select_edges(data, known)), select_edges(data, ~known))


@dataclass(frozen=True)
class SampleNodes(Rewiring):
    """In every round a random share of the nodes participates; the others rest.

    Args:
        fraction: Share of the K nodes (of those that have joined, and have not left or been isolated; with or without
            neighbors), rounded, at least one.
    """

    fraction: Share

    def init(self, data: Data, env: Env) -> Data:
        return self._draw(data, env, data.round)

    def __call__(self, data: Data, env: Env) -> Data:
        return self._draw(data, env, data.round + 1)

    def _draw(self, data: Data, env: Env, round_: int) -> Data:
        there = data.present & ~data.isolated
        count = max(math.floor(self.fraction * int(there.sum()) + 0.5), 1)
        order = keyed_order(env.seed, _SAMPLE_STREAM, data.node_id, round_)
        drawn = torch.zeros_like(there).index_fill_(0, order[there[order]][:count], True)
        return updated(data, trains=drawn, serves=drawn)


def sample_nodes(fraction: float) -> Rewiring:
    """Return the rewiring under which a share of the nodes participates: `SampleNodes`, or none if it is 1."""
    return Rewiring() if fraction == 1 else SampleNodes(fraction)
