"""Similarity by a kernel of the distance between two models: 1 for equal ones, fading to 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import parts_apart
from graphcollab.settings import Positive
from graphcollab.typing import Env
from graphcollab.weigh.similarity import Similarity

__all__ = ["DistanceKernel"]


@dataclass(frozen=True)
class DistanceKernel(Similarity):
    r"""Gaussian kernel of the distance between the models.

    .. math::
        s_i(j) = e^{-\lVert x_i - x_j \rVert^2 / \sigma}

    Args:
        sigma: σ, in the units of squared distances; or ``"median"``: for every receiver the median of its squared
            distances in the round (of an even number the lower one), so that half of its peers have a similarity of 1/e
            or more, whatever the size of the models.
        part: Part of the model that is compared; nodes of different architectures must share it.

    Example:
        >>> DistanceKernel(sigma=2.0)
        DistanceKernel(sigma=2.0, part='all')
    """

    travels: ClassVar[str] = "the part that is compared, along every edge"

    sigma: Positive | Literal["median"] = "median"
    part: str = "all"

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the kernels, [E'], float64; 0 for models that are not finite."""
        rows = data.x.part(self.part)
        distance = env.plane.distances(rows, rows, edge_index, parts_apart(data))
        square = distance.square().nan_to_num(torch.inf)
        if self.sigma == "median":
            middle = _median(square, edge_index[1], data.num_nodes)[edge_index[1]]
            return torch.exp(-torch.where(square > 0, square / middle, 0.0)).nan_to_num(0.0)
        return torch.exp(-square / self.sigma)


def _median(values: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Return the lower median of every receiver's values, [K]; 1 where it has none."""
    order = values.argsort()
    order = order[receiver[order].argsort(stable=True)]
    many = torch.bincount(receiver, minlength=count)
    middle = many.cumsum(0) - many + (many - 1).div(2, rounding_mode="floor")
    out, some = values.new_ones(count), many > 0
    out[some] = values[order[middle[some]]]
    return out
