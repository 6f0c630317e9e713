"""A dataset whose inputs are sample numbers, so that every sample can be told."""

from __future__ import annotations

import pytest
import torch

from graphcollab.data.datasets import from_arrays


@pytest.fixture
def numbered():
    def make(classes, per_class, tests=4):
        train, test = torch.arange(classes * per_class), torch.arange(classes * tests)
        return from_arrays(train[:, None].float(), train % classes, test[:, None].float(), test % classes)

    return make


@pytest.fixture
def images():
    """Random images [N, 2, side, side], channel 1 brighter by 5."""

    def make(count, tests=3, side=5, width=None):
        draw = torch.Generator().manual_seed(0)
        offset = torch.tensor([0.0, 5.0]).view(2, 1, 1)
        train, test = (torch.rand(n, 2, side, width or side, generator=draw) + offset for n in (count, tests))
        return from_arrays(train, torch.arange(count) % 2, test, torch.arange(tests) % 2)

    return make
