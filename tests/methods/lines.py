"""Two nodes with a line each, of few numbers: rounds can be done by hand."""

from __future__ import annotations

import torch
from torch import nn

from graphcollab import Tasks
from graphcollab.testing import Scene


def two_lines() -> Scene:
    """One sample (1, 2), and three (2, 4); both nodes begin with slope and intercept 0."""
    nodes = [(torch.full((n, 1), float(n == 3) + 1), torch.full((n, 1), 2.0 * float(n == 3) + 2)) for n in (1, 3)]
    line = nn.Linear(1, 1)
    nn.init.zeros_(line.weight)
    nn.init.zeros_(line.bias)
    return Scene(Tasks.from_samples(nodes, val=nodes, loss="mse", metric="mae"), [line])
