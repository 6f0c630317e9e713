"""The weigh slot of methods that look for peers: measure, choose, weigh."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch_geometric.data import Data

from graphcollab.comm import Relation
from graphcollab.control.at_work import edges_in_use
from graphcollab.piece import Field, Weigher
from graphcollab.transforms import select_edges
from graphcollab.weigh.choose import AllPeers, AugmentBags, BestPeers
from graphcollab.weigh.fixed import SampleCounts
from graphcollab.weigh.similarity import Similarity

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["PeerWeights"]


@dataclass(frozen=True)
class PeerWeights(Weigher):
    """Measure how similar the peers that were met are, choose among them, and weigh the chosen ones.

    Every model that is measured has travelled, also if it is not merged then: it is charged to its sender here, the
    merged ones by the exchange. Peers that do not serve in the round are neither measured nor chosen.

    Args:
        metric: What is measured. None: nothing.
        choose: In which rounds to measure, and whom to merge with: `AllPeers`, `BestPeers`, `AugmentBags`.
        merge: How the chosen and a node's own model are weighed: `SampleCounts` (FedAvg), `FedSim`, `SoftmaxScores`.
        part: Part of the models that is merged; the exchange's. What is measured may be another one.
        buffers: Whether running statistics are merged, too; the exchange's, and that of a metric that judges by them.

    Raises:
        ValueError: If peers are to be chosen or weighed by similarity, and there is no metric.

    Shapes:
        Writes ``edge_score`` [E] (NaN where nothing was measured), ``edge_chosen`` [E] and ``edge_weight`` [E] (0 where
        not chosen), and ``scores``, a `Relation` with what was measured in the round.
    """

    metric: Similarity | None = None
    choose: AllPeers = field(default_factory=AllPeers)
    merge: Weigher = field(default_factory=SampleCounts)
    part: str = "all"
    buffers: str = "keep"

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("scores", "relation", "similarities measured in the round", "round", "receiver"),
    )

    @property
    def agrees(self) -> dict[str, object]:
        """The part, and what else must be the exchange's."""
        return {"part": self.part, "buffers": self.buffers}

    def __post_init__(self) -> None:
        judged = getattr(self.metric, "buffers", self.buffers)
        if judged != self.buffers:
            raise ValueError(f"PeerWeights merges with buffers {self.buffers!r}, and its metric judges {judged!r}")
        if self.metric is None and (isinstance(self.choose, BestPeers | AugmentBags) or _reads_scores(self.merge)):
            raise ValueError("choosing or weighing peers by similarity needs a metric: PeerWeights(CosineWeights(), …)")

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that the metric and the merging read."""
        return (*(self.metric.needs if self.metric else ()), *self.merge.needs)

    def __call__(self, data: Data, env: Env) -> Data:
        """Set ``edge_weight``."""
        sender, receiver = data.edge_index
        in_use, crossing = edges_in_use(data), sender != receiver
        met = crossing if in_use is None else crossing & in_use
        data = copy.copy(data)
        data.edge_chosen = met
        measures = self.choose.measures(data) or _reads_scores(self.merge)
        if measures and self.metric is not None:
            measured = data.edge_index[:, met]
            score = self.metric.scores(data, env, measured)
            data.scores = Relation(measured, score, (data.num_nodes, data.num_nodes))
            data.edge_score = score.new_full(sender.shape, torch.nan)
            data.edge_score[met] = score
        data = self.choose(data, env)
        kept = data.edge_chosen | ~crossing
        weight = self.merge.weights(select_edges(data, kept), env).to(data.x.dtype)
        data.edge_weight = torch.zeros_like(sender, dtype=weight.dtype)
        data.edge_weight[kept] = weight
        return self.metric.charge(data, env, self.part, self.buffers) if measures and self.metric is not None else data


def _reads_scores(merge: Weigher) -> bool:
    """Tell whether a weigher reads the similarities of the round."""
    return bool(getattr(merge, "reads_scores", False))
