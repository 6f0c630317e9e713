"""How a value is spread over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab.settings import checked

__all__ = ["summarize"]


@checked
def summarize(values: Tensor | np.ndarray | Sequence[Any], higher_is_better: bool = True) -> dict[str, float]:
    """Summarize one value per node: its mean, its mean over the worst nodes, and its spread.

    These are the columns of Table 3 of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_.
    ``worst10`` and ``worst20`` are means over the worst 10 % and 20 % of the nodes, rounded up to whole nodes. ``std``
    is the population's standard deviation (divided by K, not K - 1): the nodes are all there are, not a sample.

    Args:
        values: One value per node. Values that are NaN (a metric that is not defined for a node) are left out.
        higher_is_better: Whether the smallest (True) or the largest values are the worst.

    Shapes:
        values: [K].

    Returns:
        ``mean``, ``worst10``, ``worst20``, ``std``, ``nodes`` (how many count) and ``ignored`` (how many were NaN).
        With no value at all the first four are NaN.

    Raises:
        ValueError: If ``values`` has another number of dimensions than one.

    Example:
        >>> summarize([1.0, 3.0, float("nan")])
        {'mean': 2.0, 'worst10': 1.0, 'worst20': 1.0, 'std': 1.0, 'nodes': 2, 'ignored': 1}
    """
    values = torch.as_tensor(values, dtype=torch.float64)
    if values.dim() != 1:
        raise ValueError(f"summarize expects one value per node, shape [K], got {list(values.shape)}")
    counted = values[~values.isnan()].sort(descending=not higher_is_better).values
    nodes = counted.numel()

    def worst(percent: int) -> float:
        return float(counted[: -(-nodes * percent // 100)].mean())

    return {
        "mean": float(counted.mean()),
        "worst10": worst(10),
        "worst20": worst(20),
        "std": float(counted.std(correction=0)) if nodes else float("nan"),
        "nodes": nodes,
        "ignored": values.numel() - nodes,
    }
