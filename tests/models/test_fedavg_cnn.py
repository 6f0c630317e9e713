from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from graphcollab.models.classifiers import fedavg_cnn
from tests.raising import raises


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"input_shape": (1, 28, 28), "num_classes": 10, "padding": "same"}, 1_663_370),
        ({"input_shape": (3, 32, 32), "num_classes": 10}, 878_538),
        ({"input_shape": (3, 32, 32), "num_classes": 100}, 924_708),
        ({"input_shape": (1, 28, 28), "num_classes": 10}, 582_026),
    ],
)
def test_parameter_count(arguments: dict[str, Any], count: int) -> None:
    assert sum(p.numel() for p in fedavg_cnn(**arguments).parameters()) == count


def test_values_and_gradients_are_those_with_relu_before_pooling() -> None:
    model, inputs = fedavg_cnn((1, 8, 8), 3, padding="same"), torch.randn(2, 1, 8, 8)
    conv1, conv2, linear = (model.backbone[i] for i in (0, 3, 7))
    out = F.max_pool2d(F.relu(F.conv2d(inputs, conv1.weight, conv1.bias, padding="same")), 2)
    out = F.max_pool2d(F.relu(F.conv2d(out, conv2.weight, conv2.bias, padding="same")), 2)
    out = model.head(F.relu(linear(out.flatten(1))))
    assert torch.allclose(model(inputs), out, atol=1e-6)
    expected = torch.autograd.grad(out.square().sum(), list(model.parameters()))
    got = torch.autograd.grad(model(inputs).square().sum(), list(model.parameters()))
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_children_are_named_and_images_need_not_be_square() -> None:
    model = fedavg_cnn((3, 16, 40), 10)
    assert [name for name, _ in model.named_children()] == ["backbone", "head"]
    assert model.backbone(torch.zeros(2, 3, 16, 40)).shape == (2, 512)


@pytest.mark.parametrize(("padding", "smallest"), [("valid", 16), ("same", 4)])
def test_smallest_image(padding: Any, smallest: int) -> None:
    assert fedavg_cnn((1, smallest, smallest), 2, padding)(torch.zeros(1, 1, smallest, smallest)).shape == (1, 2)
    less = smallest - 1
    with raises("shape", "input_shape", f"({less}, {less})", f"{smallest} x"):
        fedavg_cnn((1, less, less), 2, padding)


@pytest.mark.parametrize(
    ("arguments", "name", "fact"),
    [
        (((0, 32, 32), 10), "input_shape", "at least 1"),
        (((3, 32, 32), 0), "num_classes", "at least 1"),
        (((3, 32, 32), 10, "half"), "padding", "'half'"),
    ],
)
def test_refuses(arguments: Any, name: str, fact: str) -> None:
    with raises("value", name, fact):
        fedavg_cnn(*arguments)
