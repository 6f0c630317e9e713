"""How sites agree on the models that they begin with; runs between sites test the rest."""

from __future__ import annotations

import pytest
import torch

from graphcollab.train.beginning import _coarsely


@pytest.mark.parametrize("count", [8, 1000, 300_000])
def test_models_are_recognised_up_to_rounding_without_being_told(count):
    """Of models that differ by rounding one checksum at least is the same, of others none."""
    for seed in range(20):
        draw = torch.Generator().manual_seed(seed)
        model = torch.randn(count, generator=draw).double()
        rounded = model * (1 + 2e-7 * torch.randn(count, generator=draw))
        other = torch.randn(count, generator=draw).double()
        near = model + 0.3 * other
        marks = set(_coarsely(model))
        assert len(marks) == 2
        assert marks & set(_coarsely(rounded))
        assert not marks & set(_coarsely(other))
        assert not marks & set(_coarsely(near))
    assert _coarsely(torch.zeros(count).double()) == _coarsely(torch.zeros(count).double())
