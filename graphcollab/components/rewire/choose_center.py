"""IFCA's rewiring: every node chooses the center that fits it best, and thus the nodes with which it shares a model.

Centers are models that servers keep for clusters of nodes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.device import beside, pick
from graphcollab._base.errors import ConflictError, DuplicateError, NotFiniteError, RangeError, ShapeError, TooManyError
from graphcollab._base.keyed import keyed_bits, keyed_order
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Buffers, Count, Incomplete, Natural, Share
from graphcollab.components.allowed import server_groups
from graphcollab.components.env import Env
from graphcollab.components.exchange.exchange import buffers_travel
from graphcollab.components.exchange.servers import connect_servers, places
from graphcollab.components.slots import Rewiring
from graphcollab.data.samples import Split
from graphcollab.engine import Engine, Rows
from graphcollab.engine.stack import Stacks

_DRAW_STREAM, _SAMPLE_STREAM = 124, 125

Centers = dict[str, Tensor]


@dataclass(frozen=True)
class ChooseCenter(Rewiring):
    """Every node chooses, among C centers, the one with the smallest loss on its training data.

    All nodes choose before the first round and after every exchange, including those at rest: between rounds every node
    holds, and is evaluated with, the center that fits it best. A later phase continues with the centers of an earlier
    one; otherwise it draws its own from the run's initial model. A center that fits no node best is never trained: when
    a center was not chosen for ``patience`` rounds in a row, a warning reports, once, how many are in use.

    If edges were given, every connected component has its own C centers, all from the same start, and its nodes must
    all be allowed to hear each other. A node without neighbors has no centers: it keeps its locally trained model. See
    `ifca`.

    Args:
        clusters: C.
        part: Part of the model that centers consist of; the rest is the node's own.
        buffers: ``"average"``: centers have their own buffers; ``"keep"``: they stay with the node.
        centers: Initial centers, [C, P_part], all different. Default: drawn by ``draw_centers``.
        samples: Training samples on which a node chooses, drawn anew every round. Default: all.
        redraws: Maximum number of further draws of centers if a center gets too few nodes at the start; the draw with
            the most nodes at its rarest center is used. The authors' code also redraws, without limit. Not with
            ``centers``.
        least_share: Minimum share of the nodes for every center in that case. Default: half of an equal share.
        patience: Rounds after which an unused center is reported.
        also: A further rewiring, for example `SampleNodes`.
        incomplete: ``"refuse"``, or ``"average"``: nodes of a connected component share centers even if not all of them
            are allowed to hear each other.

    Raises:
        ValueError: If there are more centers than nodes, ``least_share`` is above an equal one, the given centers do
            not fit, are not finite or not all different, or connected nodes may not hear each other.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("centers", "replicated", "centers, by part [C, P_part]", "run"),
        Field("center_count", "scalar", "centers of every component"),
        Field("server", "relation", "every node's link to its center"),
        Field("unused", "scalar", "for how many rounds in a row nobody chose a center, [C], and whether that was said"),
    )
    travels: ClassVar[str] = "every center, down to every node that chooses"
    told: ClassVar[Readers] = {"everybody": "which center it has chosen"}
    beyond_edges: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ("part", "buffers")

    clusters: Count = 2
    part: str = "all"
    buffers: Buffers = "average"
    centers: Tensor | None = field(default=None, repr=False, compare=False)
    samples: Count | None = None
    redraws: Natural = 0
    least_share: Share | None = None
    patience: Count = 5
    also: Rewiring = field(default_factory=Rewiring)
    incomplete: Incomplete = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least_share is not None and self.least_share > 1 / self.clusters:
            raise RangeError(
                "least_share",
                f"least_share must be at most an equal share, which is 1/clusters, with clusters={self.clusters}, got "
                f"{self.least_share}",
            )
        if self.centers is not None:
            _check_centers(self.centers, self.clusters)
            if self.redraws:
                raise ConflictError(
                    "redraws", f"redraws={self.redraws} draws centers, and centers=... gives them: leave one out"
                )

    def init(self, data: Data, env: Env) -> Data:
        width = data.x.part(self.part).shape[1]
        if self.clusters > data.num_nodes:
            raise TooManyError(
                "clusters", f"clusters={self.clusters} for {data.num_nodes} nodes: ask for at most as many as nodes"
            )
        if self.centers is not None and self.centers.shape[1] != width:
            raise ShapeError(
                "centers", f"centers has {self.centers.shape[1]} columns, the part {self.part!r} has {width}"
            )
        data = self.also.init(copy.copy(data), env)
        group = server_groups(data, env, incomplete=self.incomplete)
        many = self.clusters * max(int(group.max()) + 1, 1)
        parts = [self.part, *(["buffers"] if buffers_travel(data.x, self.buffers) else [])]
        wanted = {name: (many, data.x.part(name).shape[1]) for name in parts}
        known = {name: tuple(rows.shape) for name, rows in data.get("centers", {}).items()}
        centers = data.centers if self.centers is None and known == wanted else self._begin(data, env, group)
        data = updated(
            data, center_count=self.clusters, unused={"rounds": torch.zeros(many, dtype=torch.int64), "said": False}
        )
        return self._choose(data, env, centers, group, data.round)

    def __call__(self, data: Data, env: Env) -> Data:
        group = places(data.server).div(self.clusters, rounding_mode="floor")
        data = self._choose(data, env, data.centers, group, data.round + 1)
        return self.also(self._report(data), env)

    def near_newcomers(self, data: Data, new: Data, env: Env, both: Env, edge_index: Tensor) -> Tensor:
        """A newcomer chooses, by its training loss, among the centers of the nodes that it may hear."""
        sender, receiver = edge_index
        place = places(data.server)[sender]
        open_to = torch.zeros(new.num_nodes, data.server.size[1], dtype=torch.bool)
        open_to[receiver[place >= 0], place[place >= 0]] = True
        losses = center_losses(new, env, data.centers, data.round, self.samples)
        return place == losses.masked_fill(~open_to, torch.inf).argmin(1)[receiver]

    def _begin(self, data: Data, env: Env, group: Tensor) -> Centers:
        """Return the initial centers; if centers are redrawn, every group of nodes gets the draw that suits it."""
        groups = max(int(group.max()) + 1, 1)
        best = {part: rows.repeat(groups, 1) for part, rows in self._drawn(data, env, 0).items()}
        if not self.redraws:
            return best
        most = torch.full((groups,), -1.0, dtype=torch.float64)
        done = most > 0
        for attempt in range(self.redraws + 1):
            centers = self._drawn(data, env, attempt)
            chosen = self._best(data, env, centers, data.round)
            users = self._users(data, _placed(chosen, group, self.clusters), groups)
            share = users.amin(1).double() / users.sum(1).clamp(min=1)
            better = ~done & (share > most)
            for part, rows in centers.items():
                before = best[part].view(groups, *rows.shape)  # [G, C, P]
                best[part] = torch.where(beside(better[:, None, None], rows), rows, before).flatten(0, 1)
            most, done = torch.where(better, share, most), done | (share >= (self.least_share or 0.5 / self.clusters))
            if bool(done.all()):
                break
        return best

    def _drawn(self, data: Data, env: Env, attempt: int) -> Centers:
        """Return centers by part, [C, P_part] each; buffers are the initial model's."""
        start, first = data.x_init, data.x_init.specs[0]
        if self.centers is None:
            row = env.engine.initial[first.columns(self.part)]
            centers = {self.part: draw_centers(start, self.part, self.clusters, env.seed, attempt, row)}
        else:
            centers = {self.part: self.centers.to(start.tensors[0])}
        if buffers_travel(start, self.buffers):
            centers["buffers"] = env.engine.initial[first.columns("buffers")].expand(self.clusters, -1)
        return centers

    def _choose(self, data: Data, env: Env, centers: Centers, group: Tensor, round_: int) -> Data:
        """Connect every node to the center with the smallest loss and give it that one; isolated nodes keep theirs."""
        many = len(centers[self.part])
        first = None if many == self.clusters else group.clamp(min=0) * self.clusters
        chosen = self._best(data, env, centers, round_, first, self.clusters)
        place = _placed(chosen, group, self.clusters)
        data = connect_servers(data, env, place, many)
        data.centers = centers
        data.x = take_centers(data.x, centers, place).where(data.isolated | (place < 0), data.x)
        return data

    def _best(
        self, data: Data, env: Env, centers: Centers, round_: int, first: Tensor | None = None, count: int | None = None
    ) -> Tensor:
        """Return every node's best center, [K], in its own group; choices are published, losses are not."""
        losses = center_losses(data, env, centers, round_, self.samples, first, count)
        (told,) = env.plane.all_gather(losses.argmin(1))  # -1 for absent nodes, and whatever others send
        return told.clamp(0, losses.shape[1] - 1)

    def _users(self, data: Data, place: Tensor, groups: int) -> Tensor:
        """Return the number of nodes of the collaboration that have chosen every center, [G, C]."""
        there = data.present & ~data.isolated & (place >= 0)
        return torch.bincount(place[there], minlength=groups * self.clusters).view(groups, -1)

    def _report(self, data: Data) -> Data:
        users = self._users(data, places(data.server), data.server.size[1] // self.clusters)  # [G, C]
        rounds = torch.where(users == 0, data.unused["rounds"].view_as(users) + 1, 0)
        said = data.unused["said"]
        idle_in = (rounds >= self.patience).sum(1)
        if len(users) > 1:  # groups with fewer nodes than centers cannot use them all
            idle_in = idle_in.masked_fill(users.sum(1) < self.clusters, 0)
        worst = int(idle_in.argmax())
        users, idle = users[worst], int(idle_in[worst])
        if idle and (used := int((users > 0).sum())) and not said:
            said = True
            issue(
                "quality",
                "clusters",
                f"round {data.round}: the clusters have collapsed: {idle} of {self.clusters} centers were chosen by no "
                f"node for {self.patience} rounds in a row, and {int(users.max())} of {int(users.sum())} nodes share "
                "one center. A center that nobody chooses is never trained: start from others (another seed, "
                f"redraws=20, or centers=...), or ask for clusters={used}",
            )
        return updated(data, unused={"rounds": rounds.flatten(), "said": said})


def _check_centers(centers: Tensor, clusters: int) -> None:
    if centers.dim() != 2 or len(centers) != clusters:
        raise ShapeError(
            "centers", f"centers must have shape [C, P] with C = clusters = {clusters}, got {tuple(centers.shape)}"
        )
    bad = (~torch.isfinite(centers).all(1)).nonzero().flatten()
    if len(bad):
        raise NotFiniteError("centers", f"centers must be finite: center {int(bad[0])} has numbers that are not")
    if (many := len(centers.unique(dim=0))) < clusters:
        raise DuplicateError("centers", f"the {clusters} centers must be different, got only {many} different ones")


def _placed(chosen: Tensor, group: Tensor, clusters: int) -> Tensor:
    """Return the position of every node's choice among the centers of all groups, [K]; -1 if it is in none."""
    return torch.where(group < 0, -1, group * clusters + chosen)


def draw_centers(
    models: Stacks, part: str, count: int, seed: int, attempt: int = 0, row: Tensor | None = None
) -> Tensor:
    """Draw centers that look independently initialized, [C, P_part].

    A center is the first model (``row`` [P_part], by default that of the models) with the entries of every parameter
    tensor randomly permuted: as good as a new draw if entries are drawn independently, and of exactly the same scale.
    Zero biases stay. The first center of the first attempt is the model itself. A ValueError rejects entries that are
    all equal.
    """
    spec = models.specs[0]
    row = models.tensors[0][0, spec.columns(part)] if row is None else row
    pieces = row.split([shape.numel() for shape in map(torch.Size, spec.part_layout(part))])

    def shuffled(center: int) -> Tensor:
        keys = seed, _DRAW_STREAM, attempt, center
        orders = [keyed_order(*keys, t, torch.arange(len(piece))) for t, piece in enumerate(pieces)]
        return torch.cat([piece[beside(order, piece)] for order, piece in zip(orders, pieces, strict=True)])

    centers = torch.stack([row if c == attempt == 0 else shuffled(c) for c in range(count)])
    if count > 1 and bool((centers == centers[0]).all()):
        raise ConflictError(
            "centers",
            f"all entries of the initial part {part!r} are alike, so its permutations are the same: give centers=...",
        )
    return centers


def take_centers(models: Stacks, centers: Mapping[str, Tensor], place: Tensor) -> Stacks:
    """Return models with the parts of every node's center, [K], or all of one; centers are [C, P_part] by part."""
    for part, rows in centers.items():
        rows = pick(rows, place[models.nodes]) if place.dim() else rows[int(place)].expand(models.num_nodes, -1)
        models = models.with_part(part, rows)
    return models


def center_losses(
    data: Data,
    env: Env,
    centers: Mapping[str, Tensor],
    round_: int,
    samples: int | None = None,
    first: Tensor | None = None,
    count: int | None = None,
) -> Tensor:
    """Return centers' training losses on own nodes' data, in evaluation mode, [k, C]; inf if a loss is undefined.

    Everything outside the centers, [C, P_part] by part, is the node's own. One center is evaluated at a time, so no
    more than [K, P] parameters exist at once. The training ``samples`` used, by default all, depend on the round, the
    seed and the node's identity. ``first`` [K] is the index of every node's first center, followed by ``count`` of
    them; by default every node has all centers.
    """
    engine = env.engine if samples is None else _on_samples(env.engine, samples, env.seed, round_)
    count = len(next(iter(centers.values()))) if count is None else count
    losses = []
    for center in torch.arange(count):
        place = center if first is None else first + center
        losses.append(engine.loss(Rows.own(take_centers(data.x, centers, place)), "train"))
    return torch.stack(losses, 1).nan_to_num(nan=torch.inf)


def _on_samples(engine: Engine, count: int, seed: int, round_: int) -> Engine:
    """Return the engine with a few of every node's training samples, drawn without replacement."""
    tasks, split = engine.tasks, engine.tasks.splits["train"]
    place = torch.arange(int(split.sizes.max()))
    bits = keyed_bits(seed, _SAMPLE_STREAM, tasks.ids[:, None], round_, place)  # [K, n]
    bits = bits.masked_fill(place >= split.sizes[:, None], torch.iinfo(torch.int64).max)
    weight = tasks.pools[split.pool].weight
    if weight is not None:  # samples of weight 0 come last, so the drawn ones are not all of weight 0
        here = (~split.elsewhere).nonzero().flatten()
        own = beside(split.gather(here, place.expand(len(here), -1)), weight)
        bits[here] = bits[here].masked_fill((weight[own] == 0).cpu(), torch.iinfo(torch.int64).max)
    position = bits.argsort(dim=1, stable=True)[:, :count]
    taken = split.sizes.clamp(max=count)
    index = split.gather(torch.arange(len(taken)), position)
    index = index[torch.arange(position.shape[1]) < taken[:, None]]
    few = Split(split.pool, index, torch.cat([taken.new_zeros(1), taken.cumsum(0)]))
    return engine.on(replace(tasks, splits={**tasks.splits, "train": few}))
