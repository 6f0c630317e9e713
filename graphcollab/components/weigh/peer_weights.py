"""The weigher of methods that select peers: measure, choose, weigh, and charge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import MissingError
from graphcollab._base.piece import Field, Origin, Piece, updated
from graphcollab._base.settings import Buffers, Count
from graphcollab.comm.relation import Relation
from graphcollab.components.at_work import crossing_edges
from graphcollab.components.env import Env
from graphcollab.components.exchange.exchange import buffers_width
from graphcollab.components.rewire.two_stages import NeighborBag
from graphcollab.components.slots import Weigher
from graphcollab.components.weigh.formulas import Formula, SampleCounts
from graphcollab.components.weigh.similarity import Similarity
from graphcollab.engine.stack import Stacks
from graphcollab.transforms import GMMNeighborAugmentation
from graphcollab.transforms._edges import edge_keys, neighbor_rank, select_edges


@dataclass(frozen=True)
class AllPeers(Piece):
    """Choose all peers that were met."""

    purpose: ClassVar[str] = "to choose peers by"
    by_score: ClassVar[bool] = False
    """Whether it chooses by ``edge_score``, similarities that a metric must have measured."""
    judges: ClassVar[bool] = False
    """Whether it reads models itself, so that they travel even without a metric."""

    def rests(self, data: Data) -> bool:
        """Return whether no peer is to be chosen in the current round."""
        return False

    def looks_at(self, data: Data) -> Tensor | None:
        """Return the edges in use (``edge_chosen``) along which models are read in the round; None: no edges."""
        return data.edge_chosen

    def __call__(self, data: Data, env: Env) -> Data:
        return data


@dataclass(frozen=True)
class BestPeers(AllPeers):
    """Choose the ``count`` most similar peers; ties go to the smaller ``node_id``."""

    by_score: ClassVar[bool] = True

    count: Count = 2

    def __call__(self, data: Data, env: Env) -> Data:
        score = data.edge_score.nan_to_num(-torch.inf)  # not measured: self-loops, and absent senders
        rank, _ = neighbor_rank(updated(data, edge_weight=score))
        return updated(data, edge_chosen=data.edge_chosen & (rank >= 0) & (rank < self.count))


@dataclass(frozen=True)
class AugmentBags(AllPeers):
    """In rounds that change a sampler's bags: sort all peers by `GMMNeighborAugmentation`, choose from the new bags."""

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_member", "per_edge", "which edges lead to peers in the bag", known_to="receiver"),
    )
    by_score: ClassVar[bool] = True

    bag: NeighborBag

    def looks_at(self, data: Data) -> Tensor | None:
        return data.edge_chosen if self.bag.augments(data.round) else None

    def __call__(self, data: Data, env: Env) -> Data:
        if not self.bag.augments(data.round):
            return data
        measured = ~data.edge_score.isnan()
        members = data.edge_member.clone()
        members[measured] = GMMNeighborAugmentation(drop=False)(select_edges(data, measured)).edge_member
        data = updated(data, edge_member=members)
        taken = self.bag.draw_from(data, env, data.round, data.edge_index[:, members], turn=2)
        drawn = torch.isin(*(edge_keys(edges, data.num_nodes) for edges in (data.edge_index, taken)))
        return updated(data, edge_chosen=data.edge_chosen & drawn)


@dataclass(frozen=True)
class PeerWeights(Weigher):
    """Measure the similarity of the senders that a node may hear in the round, choose among them, and weigh the chosen.

    Every model that is read has traveled, even if it is then not merged: it is charged to its sender here, merged ones
    by the exchange. Senders that do not serve in the round are neither measured nor chosen.

    Args:
        metric: Similarity to measure. None: nothing; peers cannot be chosen or weighed by similarity then.
        choose: Models to read, and peers to merge with: `AllPeers`, `BestPeers`, `AugmentBags`, `DoubleGreedy`.
        merge: Weights of the chosen and of a node's own model: by `SampleCounts` (FedAvg); or by the similarities of
            the round, `SimilarityWeights` or `SimplexWeights`.
        part: Part of the models that is merged; the exchange's. The measured part may be another one.
        buffers: Whether running statistics are merged, too; the exchange's, and that of a metric that depends on them.

    Shapes:
        Writes ``edge_score`` [E] (NaN if nothing was measured), ``edge_chosen`` [E] and ``edge_weight`` [E] (0 if not
        chosen), and ``scores``, a `Relation` with the round's measurements.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_score", "per_edge", "similarities that were measured", "round", "receiver"),
        Field("edge_chosen", "per_edge", "who is merged with", "round", "receiver"),
        Field("scores", "relation", "similarities that were measured, for callbacks and samplers", "round", "receiver"),
    )
    travels: ClassVar[str] = "the models that are looked at and not merged, and what else a metric compares"
    shared: ClassVar[tuple[str, ...]] = ("part", "buffers")

    metric: Similarity | None = None
    choose: AllPeers = field(default_factory=AllPeers)
    merge: Formula = field(default_factory=SampleCounts)
    part: str = "all"
    buffers: Buffers = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is None and (self.choose.by_score or self.merge.reads_scores):
            raise MissingError(
                "metric", "choosing or weighing peers by similarity needs a metric: PeerWeights(CosineWeights(), …)"
            )

    @property
    def origin(self) -> Origin:
        return "computed" if self.choose.judges else self.merge.origin

    def rests(self, data: Data) -> bool:
        return self.choose.rests(data)

    def init(self, data: Data, env: Env) -> Data:
        for piece in (self.metric, self.choose, self.merge):
            data = data if piece is None else piece.init(data, env)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        sender, receiver = data.edge_index
        met = crossing_edges(data)
        data = updated(data, edge_chosen=met)
        looked = met if self.merge.reads_scores else self.choose.looks_at(data)
        if self.metric is None and not self.choose.judges:
            looked = None
        if self.metric is not None and looked is not None:
            measured = data.edge_index[:, looked]
            score = self.metric.scores(data, env, measured)
            here = env.plane.is_local(measured[1])
            data.scores = Relation.square(measured[:, here], score[here], data.num_nodes)
            data.edge_score = score.new_full(sender.shape, torch.nan)
            data.edge_score[looked] = score.masked_fill(~here, torch.nan)
        data = self.choose(data, env)
        kept = (data.edge_chosen | (sender == receiver)) & env.plane.is_local(receiver)
        weight = self.merge.weights(select_edges(data, kept), env).to(data.x.dtype)
        data.edge_weight = torch.zeros_like(sender, dtype=weight.dtype)
        data.edge_weight[kept] = weight
        return data if looked is None else self._charge(data, env, looked)

    def _charge(self, data: Data, env: Env, looked: Tensor) -> Data:
        # the exchange counts the part of the models that it mixes, along edges with nonzero weight
        metric, (sender, receiver) = self.metric, data.edge_index
        scored = self.part if metric is None else metric.part
        mixed = buffers_width(data.x, self.buffers)
        if metric is not None:
            data = env.plane.charge(data, sender[looked], metric.payload(data))
        specs = data.x.specs
        for merged in (False, True):
            some = looked & ((data.edge_weight != 0) == merged)
            for stack, where in _by_architecture(data.x, sender[some], env.plane.kind):
                statistics = mixed if metric is None else metric.statistics(data, stack)
                beyond = max(specs[stack].width(scored) - merged * specs[stack].width(self.part), 0)
                beyond += max(statistics - merged * mixed, 0)
                if beyond:
                    data = env.plane.charge(data, sender[some][where], beyond, at=receiver[some][where])
        return data


def _by_architecture(models: Stacks, nodes: Tensor, kind: Tensor | None) -> Iterator[tuple[int, Tensor]]:
    """Yield every architecture among the nodes, whoever owns them, and which of them have it, [m].

    ``kind`` [K] is the architecture of every node, known where models of only some nodes are.
    """
    if kind is None:
        yield from ((stack, where) for stack, where, _ in models.locate(nodes))
        return
    for stack in range(len(models.specs)):
        yield stack, (kind[nodes] == stack).nonzero().flatten()
