from __future__ import annotations

import pytest
import torch

from graphcollab.models import MLP
from tests.raising import raises


def test_computes_the_formula() -> None:
    model = MLP(2, 3, 2)
    first, last = model.backbone[1], model.head
    inputs = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    hidden = (inputs @ first.weight.T + first.bias).clamp(min=0)
    assert torch.allclose(model(inputs), hidden @ last.weight.T + last.bias)


@pytest.mark.parametrize(
    ("hidden", "count"),
    [
        (100, 784 * 100 + 100 + 100 * 10 + 10),
        ((200, 50), 784 * 200 + 200 + 200 * 50 + 50 + 50 * 10 + 10),
        ((), 784 * 10 + 10),
    ],
)
def test_parameter_count(hidden: int | tuple[int, ...], count: int) -> None:
    assert sum(p.numel() for p in MLP(784, hidden, 10).parameters()) == count


def test_children_are_named() -> None:
    model = MLP(4, (5, 6), 3)
    assert [name for name, _ in model.named_children()] == ["backbone", "head"]
    assert model.backbone(torch.zeros(2, 2, 2)).shape == (2, 6)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [((0, 5, 2), "in_features"), ((4, 0, 2), "hidden"), ((4, (5, 0), 2), "hidden"), ((4, 5, 0), "num_classes")],
)
def test_refuses_sizes(sizes: tuple[int, int, int], name: str) -> None:
    with raises("value", name):
        MLP(*sizes)
