"""How alike the classifiers of nodes are: a cosine for every edge, of whole heads or class by class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphcollab.control.allowed import parts_apart
from graphcollab.typing import Env

__all__ = ["check_head", "head_cosines"]


def check_head(data: Data, part: str) -> int:
    """Check that a part is one linear layer that nodes have in common; return its number of floats, with the bias.

    Raises:
        ValueError: If it is something else, or has different shapes in different architectures.
    """
    width = data.x.part(part).shape[1]
    layout = data.x.specs[0].part_layout(part)
    classes = layout[0][0] if layout and len(layout[0]) == 2 else 0
    if not classes or layout[1:] not in ((), ((classes,),)):
        raise ValueError(
            f"classifiers are compared class by class, so the part {part!r} must be one linear layer (a weight [C, d] "
            f"and perhaps a bias [C]), it has tensors of shapes {layout}: name the part that is the last layer"
        )
    return width


@torch.no_grad()
def head_cosines(data: Data, env: Env, part: str, per_class: bool = False) -> Tensor:
    """Return the cosine of the classifiers at the two ends of every edge, [E], float64.

    Args:
        data: The graph.
        env: What pieces may use.
        part: The classifier, one linear layer.
        per_class: Mean over the classes of the cosines of their weight vectors, without the bias, instead of the cosine
            of the whole part. A class whose weights are zero counts as 0.

    Returns:
        0 where a classifier is zero or not finite.
    """
    rows, edge_index = data.x.part(part), data.edge_index
    if not per_class:
        return env.plane.cosines(rows, rows, edge_index, parts_apart(data)).nan_to_num(0.0)
    classes, width = data.x.specs[0].part_layout(part)[0]
    unit = F.normalize(rows[:, : classes * width].double().unflatten(1, (classes, width)), dim=2).flatten(1)
    return (env.plane.products(unit, unit, edge_index) / classes).nan_to_num(0.0)
