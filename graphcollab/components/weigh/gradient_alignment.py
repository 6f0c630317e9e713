"""CoBo's weigher: weights by the alignment of two nodes' gradients at the midpoint of their models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.errors import ConflictError
from graphcollab._base.keyed import keyed_seed, keyed_uniform
from graphcollab._base.piece import Field, Origin, Readers, updated
from graphcollab._base.settings import Count, Fraction, Natural, Positive
from graphcollab.components.allowed import require_both_ways
from graphcollab.components.at_work import crossing_edges, has_neighbors
from graphcollab.components.env import Env
from graphcollab.components.slots import Weigher
from graphcollab.engine import Rows
from graphcollab.nn.functional.by_receiver import receives
from graphcollab.nn.functional.projections import project_simplex

_PAIR_STREAM, _BATCH_STREAM = 118, 119


@dataclass(frozen=True)
class GradientAlignment(Weigher):
    """Increase the weights of nodes whose gradients agree with the own one halfway between the two models.

    On the box [0, 1] the weights of a pair are equal in both directions, start at 1, and are not normalized; those of
    pairs that were not drawn stay unchanged, bit for bit. On the simplex a receiver's weights sum to 1 and start equal:
    the row of a receiver with a drawn pair is projected as a whole, so weights are not symmetric.

    A pair is compared if both nodes participate. Weights of absent senders stay unchanged, on the simplex with their
    share of the row's sum. A pair whose product is not finite keeps its weight. A later phase continues with the
    weights of an earlier one. For a pair, the traffic is the two models (not counted again if the exchange sends them),
    the gradient of the node with the smaller ``node_id``, and one number back. See `cobo`.

    Args:
        gamma: γ. The paper gives no value; the authors use 0.01 on the box and 0.05 on the simplex.
        domain: ``"box"`` or ``"simplex"``.
        sampling: Pairs compared in round t, from 1, each with the same probability (section 4.1), of K nodes with
            neighbors: ``"constant"``: min(1, 2 / K), on average K - 1 pairs among all (the paper states 1/n for an
            ordered pair; a pair and its reverse are the same comparison); ``"time"``: 1 / t^decay; ``"mixed"``:
            ``"constant"`` in the first rounds, then ``"time"``; ``"all"``: 1, which the paper calls no sampling.
        batch_size: Samples in a batch.
        start: Initial weights, on the box only. Default: 1.
        own: On the simplex, whether self-loops take part in the projection, with p = 0, as in the authors' code;
            otherwise, and on the box, they have weight 0.
        part: Part of the model in which nodes meet at the midpoint, and whose gradients are compared; the rest is each
            node's own.
        switch: Rounds of ``"mixed"`` with the constant probability. The paper's is 0.2 % of all, 80 of its 40,000 (the
            authors' code: 800); the default is that.
        decay: a of ``"time"`` and ``"mixed"``. Default: ½.

    Raises:
        ValueError: If ``start``, ``switch``, ``decay`` or ``own`` is given although it does not apply.

    Shapes:
        Reads ``x_start``; keeps ``edge_alignment`` [E], the weights, and ``pairs_compared``, the number of pairs so far
        (two gradients each); writes ``edge_weight`` [E]. Only a chunk's gradients exist at a time. Every allowed edge
        must have an allowed reverse edge.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_alignment", "per_edge", "weights that have been learned", "run", "ends"),
        Field("pairs_compared", "scalar", "pairs whose gradients were compared so far", "run"),
    )
    origin: ClassVar[Origin] = "learned"
    settling: ClassVar[int] = 200  # a round is one step, and compares few pairs
    travels: ClassVar[str] = "for a pair: models that are not sent anyway, the gradient of one node, and a number back"
    told: ClassVar[Readers] = {
        "listeners": "its model, and for a pair one site's gradient at the midpoint and its product with the other's",
    }
    shared: ClassVar[tuple[str, ...]] = ("part",)

    gamma: Positive = 0.01
    domain: Literal["box", "simplex"] = "box"
    sampling: Literal["constant", "time", "mixed", "all"] = "constant"
    batch_size: Count = 128
    start: Fraction | None = None
    part: str = "all"
    own: bool = False
    switch: Natural | None = None
    decay: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.own and self.domain != "simplex":
            raise ConflictError(
                "own", "own=True gives a node's own model a share of the simplex: use domain='simplex' with it"
            )
        for name, of, where in (
            ("start", "domain", ("box",)),
            ("switch", "sampling", ("mixed",)),
            ("decay", "sampling", ("time", "mixed")),
        ):
            if getattr(self, name) is not None and getattr(self, of) not in where:
                raise ConflictError(
                    name,
                    f"{name}={getattr(self, name):g} means nothing with {of}={getattr(self, of)!r}: use "
                    f"{of}={' or '.join(map(repr, where))}",
                )

    def init(self, data: Data, env: Env) -> Data:
        """Give every sender the same weight, unless an earlier phase has found weights."""
        data.x.part(self.part)
        require_both_ways(data, env, "two nodes whose gradients are compared need each other's models")
        weight = self._first_weights(data) if "edge_alignment" not in data else data.edge_alignment
        free, receiver = self._free(data), data.edge_index[1]
        weight = weight.masked_fill(~free, 0).clamp(0, 1)
        if self.domain == "simplex":
            rows = (free & env.plane.is_local(receiver)).nonzero().flatten()
            weight = weight.index_copy(0, rows, project_simplex(weight[rows], receiver[rows], data.num_nodes))
        compared = data.get("pairs_compared", 0)
        return updated(data, edge_weight=weight, edge_alignment=weight, pairs_compared=compared)

    def __call__(self, data: Data, env: Env) -> Data:
        sender, receiver = data.edge_index
        there = data.trains & data.serves
        edges = (self.drawn(data, env) & (sender != receiver)).nonzero().flatten()
        edges = edges[there[data.edge_index[:, edges]].all(0)]
        if not len(edges):
            return updated(data, edge_weight=data.edge_alignment)
        low, high = data.edge_index[:, edges].sort(0).values
        pairs, pair = (low * data.num_nodes + high).unique(return_inverse=True)
        pairs = torch.stack([pairs // data.num_nodes, pairs % data.num_nodes])
        low, high = data.node_id[pairs]
        pairs = torch.where(low > high, pairs.flip(0), pairs)  # the smaller node_id sends its gradient
        product = env.plane.broadcast(self._products(data, env, pairs), pairs[1], pairs[0])
        weight = self._step(data, env, edges, product[pair].to(data.x.dtype))
        compared = data.pairs_compared + pairs.shape[1]
        data = updated(data, edge_weight=weight, edge_alignment=weight, pairs_compared=compared)
        return self._charge(data, env, pairs, edges, pair)

    def probability(self, round_: int, num_nodes: int) -> float:
        """Return the probability of a pair of ``num_nodes`` nodes with neighbors in a round, counted from 1."""
        if self.sampling == "all":
            return 1.0
        switch = 80 if self.switch is None else self.switch
        if self.sampling == "constant" or (self.sampling == "mixed" and round_ <= switch):
            return min(1.0, 2 / max(num_nodes, 1))
        return float(round_) ** -(self.decay or 0.5)

    def drawn(self, data: Data, env: Env) -> Tensor:
        """Return which edges connect pairs drawn for the round, [E]; an edge and its reverse always agree."""
        one, other = (data.node_id.index_select(0, ends) for ends in data.edge_index)
        low, high = torch.minimum(one, other), torch.maximum(one, other)
        probability = self.probability(data.round - data.phase_start + 1, int(has_neighbors(data).sum()))
        if probability >= 1:
            return torch.ones_like(low, dtype=torch.bool)
        return keyed_uniform(env.seed, _PAIR_STREAM, low, high, data.round) < probability

    def _products(self, data: Data, env: Env, pairs: Tensor) -> Tensor:
        """Return the inner products of pairs [2, M], float64 [M], at the second ends; 0 for those not finite."""
        chunk = max(min(plan.chunk for plan in env.engine.plans) // 2, 1)
        seed = keyed_seed(env.seed, _BATCH_STREAM)

        def gradients(rows: Rows) -> Tensor:
            return env.engine.batch_gradient(
                rows, seed=seed, round_=data.round, batch_size=self.batch_size, part=self.part
            )[1]

        products = []
        for some in pairs.split(chunk, 1):
            both = torch.cat([some, some.flip(0)], 1)  # [2, 2 m]: on i's data, then on j's
            half = torch.full_like(both.T, 0.5, dtype=data.x.dtype)
            rows = Rows(data.x_start, both[0], both.T, half, self.part)
            one, other = env.plane.evaluate_at(rows, gradients).chunk(2)
            one = env.plane.broadcast(one, some[0], some[1])
            products.append((one * other).sum(1, dtype=torch.float64))
        product = torch.cat(products).cpu().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        return product.masked_fill(~env.plane.is_local(pairs[1]), torch.nan)

    def _step(self, data: Data, env: Env, edges: Tensor, product: Tensor) -> Tensor:
        """Return the weights after the step on some edges, [E], known at both ends, on the simplex at receivers."""
        weight, (sender, receiver) = data.edge_alignment, data.edge_index
        moved = weight[edges] + self.gamma * product
        if self.domain == "box":
            return weight.index_copy(0, edges, moved.clamp(0, 1))
        there = (data.trains & data.serves)[sender] | (sender == receiver)
        known = env.plane.is_local(receiver)
        row = receives(edges, receiver, data.num_nodes)[receiver] & self._free(data) & known
        moving = (row & there).nonzero().flatten()
        fixed = scatter(weight.double().masked_fill(~(row & ~there), 0), receiver, dim_size=data.num_nodes)
        target = weight.index_copy(0, edges, moved)[moving]
        rest = (1 - fixed).clamp(min=0)
        moved = project_simplex(target, receiver[moving], data.num_nodes, rest)
        return weight.index_copy(0, moving, moved).masked_fill(~known, torch.nan)

    def _first_weights(self, data: Data) -> Tensor:
        sender, receiver = data.edge_index
        weight = torch.full(sender.shape, 1.0 if self.start is None else self.start, dtype=data.x.dtype)
        if self.domain == "box":
            return weight
        others = torch.bincount(receiver[sender != receiver], minlength=data.num_nodes).clamp(min=1).to(weight.dtype)
        return torch.where(sender != receiver, 1 / others[receiver], 0.0)

    def _free(self, data: Data) -> Tensor:
        different = data.edge_index[0] != data.edge_index[1]
        return torch.ones_like(different) if self.own else different

    def _charge(self, data: Data, env: Env, pairs: Tensor, edges: Tensor, pair: Tensor) -> Data:
        """Count models that the exchange does not send, gradients and numbers back; edges come with their pairs."""
        width = data.x.part(self.part).shape[1]
        sent = (crossing_edges(data) & (data.edge_weight != 0))[edges]
        back = data.edge_index[0, edges] != pairs[0, pair]
        both = torch.cat([pairs, pairs.flip(0)], 1)
        beyond = torch.ones(both.shape[1], dtype=torch.bool)
        beyond[(pair + pairs.shape[1] * back)[sent]] = False
        data = env.plane.charge(data, both[0, beyond], width, at=both[1, beyond])
        return env.plane.charge(env.plane.charge(data, pairs[0], width), pairs[1], 1)
