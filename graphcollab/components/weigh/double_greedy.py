"""`DoubleGreedy`: a set of neighbors whose average performs well on the receiver's own validation data (DPFL)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.device import beside
from graphcollab._base.keyed import keyed_uniform
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Buffers, Count
from graphcollab.comm.transport import Halo
from graphcollab.components.env import Env
from graphcollab.components.exchange.exchange import buffers_travel
from graphcollab.components.weigh.peer_weights import AllPeers
from graphcollab.engine import Rows
from graphcollab.nn.functional import mix
from graphcollab.nn.functional.by_receiver import by_receiver, shares, turns

_ORDER_STREAM, _ADD_STREAM = 140, 141


@dataclass(frozen=True)
class DoubleGreedy(AllPeers):
    r"""Choose the nodes to average with by a randomized double greedy search that minimizes the node's own loss.

    With :math:`L_i` the validation loss of node i and
    :math:`\bar\theta_S = \sum_{j \in S} n_j \theta_j / \sum_{j \in S} n_j`, it searches for a set S of at most B nodes,
    including i, with a small :math:`L_i(\bar\theta_S)`: starting from X = {i} and Y = all candidates and i, for every
    candidate z in random order,

    .. math::
        a = L_i(\bar\theta_X) - L_i(\bar\theta_{X \cup z}), \quad
        b = L_i(\bar\theta_Y) - L_i(\bar\theta_{Y \setminus z}), \quad
        p = \frac{\max(a, 0)}{\max(a, 0) + \max(b, 0)} \quad \text{(1 where both are 0)}

    and z joins X with probability p, or else leaves Y; the search ends when X has B members. With n candidates this
    takes 2 n + 2 passes over the validation samples. X may end up worse than the node alone: if adding a candidate and
    removing it from Y are both harmful, it is added. The first set of a node becomes its candidates from then on. See
    `dpfl`.

    Args:
        budget: B. It counts the node itself; with 1 no other node is listened to.
        every: Rounds between two choices; in all other rounds nodes listen to no other node.
        part: Part of the models that is merged; the exchange's.
        buffers: Whether running statistics are merged, too; the exchange's.

    Shapes:
        Keeps ``edge_pool`` [E], the candidates, and ``pooled`` [K], the nodes that have chosen once. The mixtures of
        one step exist at a time, one per node.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_pool", "per_edge", "who may be chosen", known_to="receiver"),
        Field("pooled", "per_node", "who has chosen once", known_to="owner"),
    )
    travels: ClassVar[str] = "the part that is mixed, from every candidate"
    told: ClassVar[Readers] = {"listeners": "the part of its model that is mixed"}
    judges: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("part", "buffers")
    needs: ClassVar[tuple[str, ...]] = ("val",)

    budget: Count = 10
    every: Count = 2
    part: str = "all"
    buffers: Buffers = "keep"

    def init(self, data: Data, env: Env) -> Data:
        return updated(data, edge_pool=data.edge_index[0] != data.edge_index[1], pooled=torch.zeros_like(data.isolated))

    def rests(self, data: Data) -> bool:
        return self.budget > 1 and (data.round - data.phase_start + 1) % self.every > 0

    def looks_at(self, data: Data) -> Tensor | None:
        if self.budget == 1 or self.rests(data):
            return None
        return data.edge_chosen & data.edge_pool & data.serves[data.edge_index[0]]

    def __call__(self, data: Data, env: Env) -> Data:
        candidates = self.looks_at(data)
        if candidates is None:
            return updated(data, edge_chosen=torch.zeros_like(data.edge_chosen))
        sender, receiver = data.edge_index
        keys = data.node_id[receiver], data.node_id[sender], data.round
        order, uniform = (keyed_uniform(env.seed, stream, *keys) for stream in (_ORDER_STREAM, _ADD_STREAM))
        parts = [self.part, *(["buffers"] if buffers_travel(data.x, self.buffers) else [])]
        heard = data.serves[sender] | (sender == receiver)  # known to all processes
        sent = {part: env.plane.halo_exchange(data.x.part(part), data.edge_index[:, heard]) for part in parts}
        some = candidates.nonzero().flatten()
        some = some[by_receiver(receiver[some], order[some])]
        turn = torch.zeros_like(receiver).index_copy_(0, some, turns(receiver[some], data.num_nodes))
        losses = partial(self._losses, data, env, sent, heard)
        chosen = double_greedy(losses, data.edge_index, candidates, turn, uniform, self.budget)
        data.edge_chosen = chosen & (sender != receiver)
        new = data.trains & ~data.pooled
        data.edge_pool = torch.where(new[receiver], data.edge_chosen, data.edge_pool)
        data.pooled = data.pooled | new
        return data

    def _losses(self, data: Data, env: Env, sent: Mapping[str, Halo], heard: Tensor, members: Tensor) -> Tensor:
        """Return the validation losses of the average over every receiver's members, [K]; infinite if not finite.

        Members are edges, a mask [E], on any device, among those along which models were sent, ``heard`` [E]. Losses
        are on the models' device.
        """
        sender, receiver = data.edge_index
        count = env.engine.tasks.sizes("train")[sender].to(data.x.dtype)
        weight = shares(beside(count, members).masked_fill(~members, 0), beside(receiver, members), data.num_nodes)
        models = data.x
        for part, halo in sent.items():
            share = weight[beside(halo.take(heard.nonzero().flatten()), weight)]
            models = models.with_part(part, mix(halo.rows, share, halo.edge_index, data.x.num_nodes))
        nodes = env.plane.local(data.trains.nonzero().flatten())
        loss = env.engine.loss_beside(Rows.own(models, nodes), "val").double()
        found = torch.full((data.num_nodes,), torch.inf, dtype=torch.float64, device=loss.device)
        found[beside(nodes, loss)] = loss.nan_to_num(nan=torch.inf, posinf=torch.inf)
        return found


def double_greedy(
    losses: Callable[[Tensor], Tensor],
    edge_index: Tensor,
    candidates: Tensor,
    turn: Tensor,
    uniform: Tensor,
    budget: int,
) -> Tensor:
    """Return which senders, itself included, are in every receiver's set, [E]; see `DoubleGreedy`.

    All receivers search at once. ``losses`` gives every receiver's loss, [K], for sets given as masks [E]; ``turn`` [E]
    is the position of a candidate in the search, from 0; it is added if ``uniform`` [E], a random number, is below p.
    On a device, where a check requires synchronization, full sets are only detected after each quarter of the turns.
    """
    longest = int(turn[candidates].max()) + 1 if bool(candidates.any()) else 0
    loops = edge_index[0] == edge_index[1]
    loss, bound = losses(loops), losses(loops | candidates)
    receiver, candidates, turn, uniform, loops = (
        beside(values, loss) for values in (edge_index[1], candidates, turn, uniform, loops)
    )
    inside, complement = loops, loops | candidates
    looks = range(longest) if loss.device.type == "cpu" else {longest * quarter // 4 for quarter in (1, 2, 3)}

    def count(edges: Tensor) -> Tensor:
        return scatter(edges.long(), receiver, dim_size=len(loss))

    for now in range(longest):
        full = count(inside) >= budget
        visited = candidates & (turn == now) & ~full[receiver]  # one edge of a receiver at most
        if now in looks and not bool(visited.any()):
            break
        joined, left = losses(inside | visited), losses(complement & ~visited)
        gain, relief = (
            (old - new).nan_to_num(nan=0.0, posinf=1e300).clamp(min=0) for old, new in ((loss, joined), (bound, left))
        )
        share = torch.where(gain + relief > 0, gain / (gain + relief), 1.0)
        added = visited & (uniform < share[receiver])
        inside, complement = inside | added, complement & ~(visited & ~added)
        adds, drops = (count(edges) > 0 for edges in (added, visited & ~added))
        loss, bound = torch.where(adds, joined, loss), torch.where(drops, left, bound)
    return inside.cpu()
