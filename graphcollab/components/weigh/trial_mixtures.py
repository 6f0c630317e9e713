"""`TrialMixtures`, phase 1 of directed collaboration graphs: mix, fine-tune, compare, and adjust."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.device import beside, pick
from graphcollab._base.errors import ConflictError
from graphcollab._base.keyed import keyed_seed
from graphcollab._base.piece import Field, Origin, Readers, updated
from graphcollab._base.settings import Count, Fraction, Share
from graphcollab.analysis.metrics.classification import accuracy
from graphcollab.comm.transport import Halo
from graphcollab.components.at_work import crossing_edges
from graphcollab.components.env import Env
from graphcollab.components.slots import Weigher
from graphcollab.engine import SGD, Engine, LocalSteps, Rows
from graphcollab.engine.optimizer import RowOptimizer

_TRIAL_STREAM = 114
WORST = -1e300  # finite, so that differences are numbers


@dataclass(frozen=True)
class TrialMixtures(Weigher):
    r"""Try a mixture with every neighbor's model, and increase the weights of those that helped.

    Every edge j → i has a number :math:`p_{ij} \in [0, 1]`, initially ½. In every round node i mixes its model with
    that of j, trains the mixture for some steps on its own data, and compares:

    .. math::
        \bar h = (1 - p_{ij}) h_i + p_{ij} h_j, \qquad
        p_{ij} \leftarrow \begin{cases}
            p_{ij} + \delta & \text{fine-tuned } \bar h \text{ is better than } h_i \\
            p_{ij} - \delta & \text{it is worse} \\
            p_{ij} & \text{they are equal}
        \end{cases}

    clipped to [0, 1]. No model changes. An edge whose p falls below ``minimum`` has weight 0, and vanishes if the
    rewiring is ``Threshold(1e-12)``. Every tried edge is charged d floats.

    .. math::
        \alpha_{ij} = \frac{p_{ij}}{1 + \sum_k p_{ik}}, \qquad \alpha_{ii} = \frac{1}{1 + \sum_k p_{ik}}

    so a neighbor that always helped has the same weight as the own model. See `directed`, phase 1.

    Args:
        epochs: Passes over a node's training samples to fine-tune a mixture.
        steps: Number of steps, instead of ``epochs``.
        batch_size: B.
        optimizer: The update of fine-tuning.
        delta: δ.
        start: Initial p.
        minimum: An edge with a smaller p has weight 0. It must not be above ``start``.
        split: Samples for the comparison: ``"val"``, or ``"train"``.
        fair: Compare with h_i after as many additional steps, on the same batches; otherwise with h_i itself, as in the
            thesis, which favors the mixture by its fine-tuning.
        part: Part of the model that is mixed; the rest of a mixture is i's.

    Shapes:
        Keeps ``edge_trial`` [E], the p; writes ``edge_weight`` [E]. Mixtures exist one chunk at a time.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_trial", "per_edge", "how far trials speak for the sender", known_to="receiver"),
    )
    origin: ClassVar[Origin] = "learned"
    travels: ClassVar[str] = "the part that is mixed, along every edge tried"
    told: ClassVar[Readers] = {"listeners": "the part of its model that is mixed"}
    shared: ClassVar[tuple[str, ...]] = ("part",)

    epochs: Count = 1
    steps: Count | None = None
    batch_size: Count = 10
    optimizer: RowOptimizer = field(default_factory=lambda: SGD(lr=0.01, weight_decay=5e-4))
    delta: Share = 0.1
    start: Fraction = 0.5
    minimum: Fraction = 0.05
    split: Literal["val", "train"] = "val"
    fair: bool = True
    part: str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minimum > self.start:
            raise ConflictError(
                "minimum", f"minimum must be at most start, got minimum={self.minimum}, start={self.start}"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.split,)

    def init(self, data: Data, env: Env) -> Data:
        return updated(data, edge_trial=torch.full((data.edge_index.shape[1],), self.start, dtype=data.x.dtype))

    def __call__(self, data: Data, env: Env) -> Data:
        sender, receiver = data.edge_index
        edges = crossing_edges(data).nonzero().flatten()
        p, loop = data.edge_trial, sender == receiver
        if len(edges):
            sent = env.plane.halo_exchange(data.x.part(self.part), data.edge_index)
            own = edges[env.plane.is_local(receiver[edges])]
            step = self.delta * self._compare(data, env, sent, own).cpu().to(data.edge_trial.dtype)
            p = p.index_add(0, own, step).clamp(0, 1)
        data = env.plane.charge(data, sender[edges], data.x.part(self.part).shape[1])
        worth = torch.where(loop, 1.0, p.masked_fill(p < self.minimum, 0))
        total = 1 + scatter(worth.masked_fill(loop, 0), receiver, dim_size=data.num_nodes)
        return updated(data, edge_trial=p, edge_weight=worth / total[receiver])

    def _compare(self, data: Data, env: Env, sent: Halo, edges: Tensor) -> Tensor:
        """Return 1 for every edge whose mixture is better, -1 if it is worse, else 0, [e], on the device."""
        sender, receiver = data.edge_index[:, edges]
        nodes, place = receiver.unique(return_inverse=True)
        if self.fair:
            alone = self._tuned_scores(data, env, sent, nodes, nodes, data.edge_trial.new_zeros(len(nodes)))
        else:
            alone = self._scores(env.engine, Rows.own(data.x, nodes))
        own = pick(alone, place)
        mixed = self._tuned_scores(data, env, sent, sender, receiver, data.edge_trial[edges])
        rounding = 16 * torch.finfo(data.x.dtype).eps * torch.maximum(own.abs(), mixed.abs())
        return (mixed > own + rounding).long() - (mixed < own - rounding).long()

    def _tuned_scores(self, data: Data, env: Env, sent: Halo, sender: Tensor, receiver: Tensor, p: Tensor) -> Tensor:
        """Return the scores [R] of fine-tuned mixtures, which exist one chunk at a time."""
        engine, out = env.engine, torch.empty(len(p), dtype=torch.float64, device=data.x.device)
        steps = LocalSteps(self.epochs, self.steps, self.batch_size, self.optimizer)
        seed = keyed_seed(env.seed, _TRIAL_STREAM, 0)
        for s, where, row in data.x.locate(receiver):
            columns = data.x.specs[s].columns(self.part)
            for take, own in zip(*(t.split(engine.plans[s].chunk) for t in (where, row)), strict=True):
                models = data.x.tensors[s][beside(own, sent.rows)]
                heard, share = pick(sent.rows, sent.place(sender[take])), beside(p[take, None], sent.rows)
                models[:, columns] = torch.lerp(models[:, columns], heard, share)
                mixed = Rows(data.x.only(s, models), receiver[take], torch.arange(len(take)))
                fitted = engine.fit(mixed, steps, seed=seed, round_=data.round)
                rows = replace(mixed, source=data.x.only(s, fitted.models.tensors[0]))
                out[beside(take, out)] = self._scores(engine, rows).masked_fill(fitted.outcome()[1] >= 0, WORST)
        return out

    def _scores(self, engine: Engine, rows: Rows) -> Tensor:
        """Return accuracies or negative losses, [R], on the device; the lowest possible score if NaN or -∞."""
        out = torch.full((len(rows),), WORST, dtype=torch.float64, device=rows.source.device)
        for chunk in engine.predict(rows, self.split):
            classes = not chunk.targets.is_floating_point()
            judged = chunk.outputs, chunk.targets, chunk.mask, chunk.weight
            score = accuracy.leaving_out(engine.ignored)(*judged) if classes else -engine.losses_of(chunk).double()
            out[beside(chunk.rows, out)] = score.nan_to_num(nan=WORST, neginf=WORST)
        return out
