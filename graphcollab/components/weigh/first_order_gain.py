"""FedFomo's weigher: the gain of a step towards another model on a node's own validation data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.device import beside
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Buffers
from graphcollab.comm.relation import Relation
from graphcollab.components.allowed import parts_apart
from graphcollab.components.at_work import serving
from graphcollab.components.env import Env
from graphcollab.components.exchange.exchange import buffers_travel, buffers_width
from graphcollab.components.slots import Weigher
from graphcollab.engine import Rows
from graphcollab.nn.functional.by_receiver import receives

BLOCK_NUMBERS = 2**20  # differences in memory at a time
ROUNDING = 8  # relative tolerance in ε: the error of mixing in a distance, and of averaging in a difference of losses


@dataclass(frozen=True)
class FirstOrderGain(Weigher):
    """Weigh models by the decrease of the receiver's validation loss per distance to them.

    Gains are from the receiver's model at the start of the round (the base) to the senders' models after their local
    update, and to its own for the self-loop. Use it with ``Exchange("x_start", "x", against="x_start")``. If no model
    helps, all weights are 0 and the receiver keeps the base; a node that hears no other node keeps its locally trained
    model (its self-loop has weight 1). See `fomo`.

    Args:
        split: Split of the receiver's samples on which losses are computed.
        norm: ``"l2"`` (the paper's), or ``"l1"`` as in the published code.
        part: Part of the model that is exchanged, the exchange's. Losses are of the receiver's own model with that part
            replaced.
        buffers: The exchange's: ``"keep"`` evaluates with the receiver's own running statistics, ``"average"`` with the
            sender's, which travel then.

    Shapes:
        Reads ``x_start`` and ``x``; writes ``edge_weight`` [E], ``edge_gain`` [E] (g, float64; NaN if a sender does not
        serve or a receiver does not train) and ``scores``, a `Relation` with g of other nodes' models.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_gain", "per_edge", "fall of the own validation loss per distance", "round", "receiver"),
        Field("scores", "relation", "gains of other nodes' models, for callbacks", "round", "receiver"),
    )
    travels: ClassVar[str] = "models that are judged and not mixed, along edges"
    told: ClassVar[Readers] = {"listeners": "its model, to be judged"}
    shared: ClassVar[tuple[str, ...]] = ("part", "buffers")

    split: Literal["train", "val"] = "val"
    norm: Literal["l2", "l1"] = "l2"
    part: str = "all"
    buffers: Buffers = "keep"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.split,)

    def __call__(self, data: Data, env: Env) -> Data:
        sender, receiver = data.edge_index
        measured = data.trains[receiver] & (serving(data)[sender] | (sender == receiver))
        gain = torch.full(sender.shape, torch.nan, dtype=torch.float64)
        gain[measured] = self.gains(data, env, data.edge_index[:, measured])
        measured = measured & env.plane.is_local(receiver)
        crossing = measured & (sender != receiver)
        data = updated(
            data,
            edge_gain=gain,
            scores=Relation.square(data.edge_index[:, crossing], gain[crossing], data.num_nodes),
            edge_weight=gain_weights(gain, data.edge_index, data.num_nodes).to(data.x.dtype),
        )
        unmixed = crossing & (data.edge_weight == 0)
        width = data.x.part(self.part).shape[1] + buffers_width(data.x, self.buffers)
        return env.plane.charge(data, sender[unmixed], width, at=receiver[unmixed])

    def gains(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return g_ij for the given edges, [E'], float64."""
        sender, receiver = edge_index
        nodes = env.plane.local(receiver.unique())
        nothing_else = all(spec.columns(self.part) == slice(0, spec.num_columns) for spec in data.x.specs)
        base = data.x_start if nothing_else else data.x.with_part(self.part, data.x_start.part(self.part))
        rows = Rows.with_part_of(data.x, receiver, sender, self.part, buffers_travel(data.x, self.buffers))
        loss = env.engine.loss(Rows.own(base, nodes), self.split)
        before = loss.new_full((data.num_nodes,), torch.nan).index_copy(0, nodes, loss)[receiver]
        after = env.plane.evaluate_at(rows, lambda rows: env.engine.loss(rows, self.split))
        known = ROUNDING * torch.finfo(before.dtype).eps * torch.maximum(before.abs(), after.abs()).double()
        own = data.x_start.part(self.part)
        if self.norm == "l2":
            distance = env.plane.distances(own, data.x.part(self.part), edge_index, parts_apart(data))
        else:
            halo = env.plane.halo_exchange(data.x.part(self.part), edge_index)
            distance = halo.put(_manhattan(own, halo.rows, halo.edge_index), edge_index.shape[1])
        length = torch.linalg.vector_norm(own, 2 if self.norm == "l2" else 1, dim=1, dtype=torch.float64)
        length = env.plane.from_local(length.cpu())[receiver]
        apart = distance > ROUNDING * torch.finfo(own.dtype).eps * length
        fall = before.double() - after.double()
        gain = fall / distance
        gain = torch.where(gain.isfinite() & apart & (fall.abs() > known), gain, 0.0)
        return gain.masked_fill(~env.plane.is_local(receiver), torch.nan)


def gain_weights(gain: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return positive gains, normalized per receiver, [E]; 1 on the self-loop of a node that hears no other node."""
    sender, receiver = edge_index
    positive = gain.nan_to_num(0.0).clamp(min=0)
    most = scatter(positive, receiver, dim_size=num_nodes, reduce="max")[receiver]
    share = torch.where(most > 0, positive / most, 0.0)  # the sum of large gains could overflow
    weight = share / scatter(share, receiver, dim_size=num_nodes)[receiver].clamp(min=1)
    hears = receives((sender != receiver) & ~gain.isnan(), receiver, num_nodes)
    return torch.where((sender == receiver) & ~hears[receiver], 1.0, weight)


def _manhattan(a: Tensor, b: Tensor, edge_index: Tensor) -> Tensor:
    """Return ‖a_i − b_j‖₁ of edges j → i, [E], float64, a block of edges at a time."""
    blocks = beside(edge_index, a).split(max(BLOCK_NUMBERS // max(a.shape[1], 1), 1), 1)
    apart = [(a[receiver] - b[sender]).abs().sum(1, dtype=torch.float64) for sender, receiver in blocks]
    return torch.cat(apart).cpu()
