"""Models that servers keep for clusters of nodes: how they are drawn, and how well they fit every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.device import beside, pick
from graphcollab.engine import Engine, Rows
from graphcollab.env import Env
from graphcollab.errors import ConflictError
from graphcollab.keyed import keyed_bits, keyed_order
from graphcollab.stack import Stacks
from graphcollab.tasks import Split

_DRAW_STREAM, _SAMPLE_STREAM = 124, 125


def draw_centers(
    models: Stacks, part: str, count: int, seed: int, attempt: int = 0, row: Tensor | None = None
) -> Tensor:
    """Draw centers that look as if they had been initialized independently of each other, [C, P_part].

    A center is the first model (``row`` [P_part], by default that of the models) with the entries of every parameter
    tensor in a random order: as good as a new draw where entries are drawn independently, and of exactly the same
    scale. Biases of zero stay. The first center of the first attempt is the model itself. A ValueError refuses entries
    that are all alike.
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
            f"the entries of every parameter of the initial model's part {part!r} are alike, so {count} centres drawn "
            "from them are the same: give centers=..., a tensor [C, P]",
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
    """Return centers' training losses on own nodes' data, in evaluation mode, [k, C]; inf where one has no value.

    What is not part of the centers, [C, P_part] by part, is the node's own. One center is computed at a time, so no
    more than [K, P] parameters exist at once. Which of the training ``samples`` are looked at, by default all, the
    round, the seed and the node's identity say. ``first`` [K] is where every node's ``count`` centers begin; by default
    all nodes have all of them.
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
    if weight is not None:  # samples of weight 0 come last, so that not all that are taken are such
        here = (~split.elsewhere).nonzero().flatten()
        own = beside(split.gather(here, place.expand(len(here), -1)), weight)
        bits[here] = bits[here].masked_fill((weight[own] == 0).cpu(), torch.iinfo(torch.int64).max)
    position = bits.argsort(dim=1, stable=True)[:, :count]
    taken = split.sizes.clamp(max=count)
    index = split.gather(torch.arange(len(taken)), position)
    index = index[torch.arange(position.shape[1]) < taken[:, None]]
    few = Split(split.pool, index, torch.cat([taken.new_zeros(1), taken.cumsum(0)]))
    return engine.on(replace(tasks, splits={**tasks.splits, "train": few}))
