"""Similarity metrics: one number per edge for the similarity of sender and receiver.

Unless stated otherwise they are from *With a Little Help from My Friends: A Comparative Study of Decentralized Deep
Learning Strategies* (Hagander & Ihre-Thomason 2024), section 2.4.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.device import beside
from graphcollab._base.errors import RangeError
from graphcollab._base.piece import Piece, Readers
from graphcollab._base.settings import Buffers, Fraction, Positive, checked, look_up
from graphcollab.components.allowed import parts_apart
from graphcollab.components.env import Env
from graphcollab.engine import Rows
from graphcollab.nn.functional.by_receiver import by_receiver

LEAST = 1e-12  # lower bound of distances and losses, so that their inverses are finite


@dataclass(frozen=True)
class Similarity(Piece):
    """Score edges by the similarity of their ends; a subclass defines it, and the data that must travel for it.

    Shapes:
        Reads the models ``x`` (after the local update), ``x_start`` (before it) and ``x_init``.

    Example:
        >>> class Signs(Similarity):
        ...     def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        ...         sign = data.x.part("all")[:, :1].sign()
        ...         return env.plane.products(sign, sign, edge_index).double()
    """

    travels: ClassVar[str] = "the part that is compared, along every edge"
    told: ClassVar[Readers] = {"listeners": "the part of its model that is compared"}
    purpose: ClassVar[str] = "to compare models by"

    @property
    def unbounded(self) -> bool:
        """Whether similarities may be above 1; otherwise 1 is the similarity of equal models."""
        return False

    @property
    def part(self) -> str:
        """Part of the models that is compared; nodes of different architectures must share it."""
        return "all"

    def init(self, data: Data, env: Env) -> Data:
        data.x.part(self.part)
        return data

    @abstractmethod
    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the similarity of sender j to receiver i for every given edge j → i, [2, E'], without self-loops.

        Larger is more similar: finite numbers [E'], float64. A model that is not finite has similarity 0.
        """

    def payload(self, data: Data) -> int:
        """Return the number of floats that must travel along an edge to score it, besides the sender's model."""
        return 0

    def statistics(self, data: Data, stack: int) -> int:
        """Return the number of running statistics that travel with a model of an architecture to score it."""
        return 0


@dataclass(frozen=True)
class CosineWeights(Similarity):
    r"""Cosine of the models, eq. 2.18.

    .. math::
        s_i(j) = s_j(i) = \frac{\langle w_i, w_j \rangle}{\lVert w_i \rVert \lVert w_j \rVert}

    It is 0 for zero models. Models with the same start have cosines near 1; the digits that distinguish them are
    preserved, see `edge_cosines`.
    """

    part: str = "all"

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        rows = data.x.part(self.part)
        return env.plane.cosines(rows, rows, edge_index, parts_apart(data)).nan_to_num(0.0)


@dataclass(frozen=True)
class CosineUpdates(Similarity):
    r"""Cosine of the last local updates, of the changes since the start of the run, or a mix of both, eq. 2.15 to 2.17.

    .. math::
        s_i(j) = s_j(i) = \alpha \cos(w_i^t - w_i^{t-1}, w_j^t - w_j^{t-1})
        + (1 - \alpha) \cos(w_i^t - w_i^0, w_j^t - w_j^0)

    with w^{t-1} the models before the last local update; a change that is zero or not finite has cosine 0. The text
    calls it the cosine similarity of gradients. Its experiments use α = 1 ("Cos grad"); the authors' code has only the
    second term, whatever α is, so its results are those of ``alpha=0``.

    A node that `EarlyStopping` has stopped has no last update; the update that led to its best model is used instead.

    Args:
        alpha: α, from 0 (only the change since the start) to 1 (only the last update).
        part: Part of the model that is compared; nodes of different architectures must share it.
    """

    travels: ClassVar[str] = "the part that is compared, along every edge; with α > 0 its last update, too"
    told: ClassVar[Readers] = {"listeners": "the part of its model that is compared, and its last change"}

    alpha: Fraction = 1.0
    part: str = "all"

    def payload(self, data: Data) -> int:
        """A model reveals its change since the common start, but not the last one."""
        return data.x.specs[0].width(self.part) if self.alpha > 0 else 0

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        total = torch.zeros_like(edge_index[0], dtype=torch.float64)
        if self.alpha:
            change = env.plane.change(data.x.part(self.part), data.x_start.part(self.part))
            if "stopped" in data:  # a node at rest has learned nothing in this round
                last = data.best_x.part(self.part) - data.best_start.part(self.part)
                change = torch.where(beside(env.plane.local_values(data.stopped)[:, None], change), last, change)
            cosine = env.plane.cosines(change, change, edge_index, parts_apart(data))
            total = total + self.alpha * cosine.nan_to_num(0.0)
        if self.alpha < 1:
            rows, start = data.x.part(self.part), data.x_init.part(self.part)
            if env.plane.alone or len(data.x.specs) > 1:
                change = env.plane.change(rows, start)
                cosine = env.plane.cosines(change, change, edge_index, parts_apart(data))
            else:  # all nodes of a run start from one row, so the models that travel reveal their changes
                cosine = env.plane.cosines(rows, rows, edge_index, parts_apart(data), start[:1])
            total = total + (1 - self.alpha) * cosine.nan_to_num(0.0)
        return total


@dataclass(frozen=True)
class DistanceKernel(Similarity):
    r"""A decreasing function of the distance between the models: a Gaussian kernel, or the inverse.

    .. math::
        s_i(j) = c \, e^{-\lVert w_i - w_j \rVert^2 / \sigma} \qquad \text{or} \qquad
        s_i(j) = c \, \lVert w_i - w_j \rVert_2^{-1}

    The kernel is FedAMP's; the inverse is eq. 2.19.

    Args:
        sigma: σ, in units of squared distances; ``"median"``: for every receiver the median of its squared distances in
            the round (the lower one of an even number), so that half of its peers have a similarity of at least c / e,
            whatever the size of the models; or ``"inverse"``: the inverse distance. A distance below 10⁻¹² counts
            as 10⁻¹².
        part: Part of the model that is compared; nodes of different architectures must share it.
        scale: c.
    """

    sigma: Positive | Literal["median", "inverse"] = "median"
    part: str = "all"
    scale: Positive = 1.0

    @property
    def unbounded(self) -> bool:
        return self.sigma == "inverse" or self.scale > 1

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        rows, receiver = data.x.part(self.part), edge_index[1]
        distance = env.plane.distances(rows, rows, edge_index, parts_apart(data))
        if self.sigma == "inverse":
            return self.scale * (1 / distance.clamp(min=LEAST)).nan_to_num(0.0)
        square = distance.square().nan_to_num(torch.inf)
        if self.sigma == "median":
            square = torch.where(square > 0, square / _median(square, receiver, data.num_nodes)[receiver], 0.0)
        else:
            square = square / self.sigma
        return self.scale * torch.exp(-square).nan_to_num(0.0)


@dataclass(frozen=True)
class InverseLoss(Similarity):
    r"""Inverse of the loss of the sender's model on the receiver's samples, eq. 2.14.

    .. math::
        s_i(j) = \Big( \sum_{(x, y) \in D_i} \ell(x, y; w_j) \Big)^{-1}

    It is not symmetric. The model travels to the samples, never the other way. The sum is the text's; the authors' code
    takes the mean, so temperatures tuned with that code are for ``reduction="mean"``. Losses must not be negative.

    Args:
        split: Split of the receiver's samples: ``"train"`` (the paper's) or ``"val"``.
        reduction: ``"sum"`` or ``"mean"`` over samples.
        eps: Lower bound of losses, so that a loss of 0 has a finite inverse.
        buffers: The exchange's: ``"keep"`` evaluates with the receiver's own running statistics, as the mixed model
            will have, ``"average"`` with the sender's, which travel then. With several architectures, models are always
            evaluated with their own, which travel in any case.
    """

    travels: ClassVar[str] = "whole models, along every edge"
    told: ClassVar[Readers] = {"listeners": "its whole model"}
    shared: ClassVar[tuple[str, ...]] = ("buffers",)
    unbounded: ClassVar[bool] = True

    split: Literal["train", "val"] = "train"
    reduction: Literal["sum", "mean"] = "sum"
    eps: Positive = LEAST
    buffers: Buffers = "keep"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.split,)

    def init(self, data: Data, env: Env) -> Data:
        """Accept architectures that have nothing in common: models travel to the samples as a whole."""
        return data

    def statistics(self, data: Data, stack: int) -> int:
        own = self._own_statistics(data) and "buffers" in data.x.specs[stack].parts
        return data.x.specs[stack].width("buffers") if own else 0

    def _own_statistics(self, data: Data) -> bool:
        return self.buffers == "average" or len(data.x.specs) > 1

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        sender, receiver = edge_index
        tasks = env.engine.tasks
        count = tasks.sizes(self.split)[receiver]
        if bool((count == 0).any()):
            tasks.require(self.split, "InverseLoss scores other nodes' models on")
        own = self._own_statistics(data)
        rows = Rows(data.x, receiver, sender) if own else Rows.with_part_of(data.x, receiver, sender, "all")
        loss = env.plane.evaluate_at(rows, lambda rows: env.engine.loss(rows, self.split)).double()
        if bool((loss < 0).any()):
            edge = int((loss < 0).nonzero()[0])
            raise RangeError(
                "loss",
                f"InverseLoss needs a loss of at least 0, got {float(loss[edge]):g} for the model of "
                f"{tasks.names[int(sender[edge])]} at {tasks.names[int(receiver[edge])]}: use CosineWeights()",
            )
        if self.reduction == "sum":
            loss = loss * count
        return torch.where(loss.isfinite(), 1 / loss.clamp(min=self.eps), 0.0)


SimilarityLike: TypeAlias = Literal["inverse_loss", "cosine_weights", "cosine_updates", "inverse_distance"] | Similarity
"""A similarity metric, or its name."""


@checked
def as_similarity(metric: str | Similarity, part: str = "all") -> Similarity:
    """Return a similarity metric, unchanged or by name with default settings, of a part (losses: whole models)."""
    if isinstance(metric, Similarity):
        return metric
    named: dict[str, Similarity] = {
        "inverse_loss": InverseLoss(),
        "cosine_weights": CosineWeights(part),
        "cosine_updates": CosineUpdates(part=part),
        "inverse_distance": DistanceKernel("inverse", part),
    }
    return look_up("similarity", metric, named)


def _median(values: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Return the lower median of every receiver's values, [K]; 1 if it has none."""
    order = by_receiver(receiver, values)
    many = torch.bincount(receiver, minlength=count)
    middle = many.cumsum(0) - many + (many - 1).div(2, rounding_mode="floor")
    out, some = values.new_ones(count), many > 0
    out[some] = values[order[middle[some]]]
    return out
