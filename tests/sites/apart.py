"""Methods with settings under which they can be played between sites."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphcollab import Method, Phases
from tests.methods.quick import early


def codes(samples: Tensor) -> Tensor:
    """Return two sums of every sample's numbers, [n, 2]: of few samples, raw ones would be told as cluster centers."""
    flat = samples.flatten(1)
    return torch.stack([flat.sum(1), (flat * torch.arange(flat.shape[1])).sum(1)], 1)


def early_method(name: str, **settings: Any) -> Method | Phases:
    """Make a method whose phases are all played in two rounds, of one pass, with those of some settings that it has."""
    return early(name, encoder=codes, **{"epochs": 1, **settings})
