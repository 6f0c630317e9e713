"""Rows that belong together, such as the visits of one patient: they are never divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab.errors import MissingError, ShapeError
from graphcollab.tasks._sites import Sites
from graphcollab.tasks._values import factorised

__all__ = ["to_groups"]


def to_groups(sites: Sites, group: Any) -> Tensor:
    """Number the groups of rows that a column names, [N]; groups of different sites are different ones."""
    given = group.cpu().numpy() if isinstance(group, Tensor) else group
    column = given if isinstance(given, np.ndarray) else np.array(list(given), object)
    rows = len(sites.owner)
    if column.shape != (rows,):
        named = column.shape == (1,) and isinstance(column[0], str)
        raise ShapeError(
            "group",
            f"group must have a name for each of the {rows} rows, got {list(column.shape)}"
            + (f"; a column is named by group={column[0]!r}" if named else ""),
        )
    if column.dtype.kind not in "iuf":
        texts = [None if one is None or one != one else str(one) for one in column.tolist()]
        column = np.array(texts, object)
    named = factorised(column)[1]
    if (named < 0).any():
        raise MissingError("group", f"{sites.at(int((named < 0).argmax()))} has no group: name it or drop the row")
    pairs = torch.stack([sites.owner, torch.from_numpy(named).long()], 1)
    return pairs.unique(dim=0, return_inverse=True)[1]
