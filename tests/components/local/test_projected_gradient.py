from __future__ import annotations

import pytest
import torch

from graphcollab.components import ProjectedGradient
from tests.raising import raises

OWN, OTHERS = torch.tensor([[0.5, 0.0, 1.0]]), torch.tensor([[[-0.5, 0.25, 2.0]]])


def test_whole_vector_and_layer_by_layer():
    """Over all three columns nothing conflicts (⟨g, m⟩ = 1.75); over the first two alone u = .8."""
    direction, coefficient = ProjectedGradient()(OWN, OTHERS, [2, 1])
    assert torch.equal(direction, OWN)
    assert coefficient.tolist() == [[1.0, 0.0]]
    direction, coefficient = ProjectedGradient(per_layer=True)(OWN, OTHERS, [2, 1])
    assert direction[0].tolist() == pytest.approx([0.1, 0.2, 1.0])
    assert coefficient[0].tolist() == pytest.approx([1.0, 0.8 * 2 / 3])  # the mean over layers, weighted by their size


def test_margin():
    """Nothing conflicts, and half of the neighbor's gradient is added all the same."""
    direction, coefficient = ProjectedGradient(margin=0.5)(OWN, OTHERS, [3])
    assert direction[0].tolist() == pytest.approx([0.25, 0.125, 2.0])
    assert coefficient.tolist() == [[1.0, 0.5]]


def test_refusals():
    for margin in (-0.1, float("nan"), float("inf")):
        with raises("value", "margin"):
            ProjectedGradient(margin=margin)
