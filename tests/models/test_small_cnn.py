from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import build_model
from graphcollab.models import CNN
from tests.raising import raises

CIFAR: dict[str, Any] = {"channels": (6, 16), "kernel": 5, "hidden": (120, 84)}


@pytest.mark.parametrize(
    ("shape", "classes", "options", "count"),
    [
        ((1, 28, 28), 10, {}, 56_714),  # listing 3
        ((1, 28, 28), 20, {}, 56_714 + 10 * 65),
        ((3, 32, 32), 10, CIFAR, 62_006),  # listing 1
        ((3, 32, 32), 10, {**CIFAR, "dropout": (0.1, 0.5)}, 62_006),
    ],
)
def test_parameter_count(shape: tuple[int, ...], classes: int, options: dict[str, Any], count: int) -> None:
    assert sum(p.numel() for p in build_model("small_cnn", shape, classes, **options).parameters()) == count


def test_values_and_gradients_are_those_of_the_listing() -> None:
    model, inputs = CNN((3, 32, 32), 10, **CIFAR), torch.randn(2, 3, 32, 32)
    conv1, conv2 = (m for m in model.backbone if isinstance(m, nn.Conv2d))
    fc1, fc2 = (m for m in model.backbone if isinstance(m, nn.Linear))
    assert (fc1.in_features, fc2.out_features) == (400, 84)
    out = F.max_pool2d(F.relu(conv1(inputs)), 2)
    out = F.max_pool2d(F.relu(conv2(out)), 2).flatten(1)
    out = model.head(F.relu(fc2(F.relu(fc1(out)))))
    assert torch.allclose(model(inputs), out, atol=1e-6)
    expected = torch.autograd.grad(out.square().sum(), list(model.parameters()))
    got = torch.autograd.grad(model(inputs).square().sum(), list(model.parameters()))
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_dropout_is_there_only_if_asked_for() -> None:
    kinds = lambda model: [type(m).__name__ for m in model.modules() if "Dropout" in type(m).__name__]  # noqa: E731
    assert kinds(CNN((1, 28, 28), 10)) == []
    model = CNN((3, 32, 32), 10, **CIFAR, dropout=(0.1, 0.5))
    assert [type(m).__name__ for m in model.backbone[6:]] == [
        "Dropout2d", "Flatten", "Linear", "ReLU", "Dropout", "Linear", "ReLU",
    ]  # fmt: skip
    assert (model.backbone[6].p, model.backbone[10].p) == (0.1, 0.5)
    assert kinds(CNN((1, 28, 28), 10, dropout=(0.0, 0.5))) == ["Dropout"]


def test_images_need_not_be_square() -> None:
    model = CNN((1, 10, 26), 3, hidden=20)
    assert model.backbone(torch.zeros(2, 1, 10, 26)).shape == (2, 20)
    assert CNN((1, 28, 28), 3, hidden=()).head.in_features == 800


def test_smallest_image() -> None:
    assert CNN((1, 10, 10), 2)(torch.zeros(1, 1, 10, 10)).shape == (1, 2)
    with raises("shape", "input_shape", "10"):
        CNN((1, 9, 9), 2)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"input_shape": (0, 28, 28)}, ("value", "input_shape", "at least 1")),
        ({"channels": ()}, ("value", "channels")),
        ({"hidden": (64, 0)}, ("value", "hidden", "at least 1")),
        ({"dropout": (0.1, 1.0)}, ("value", "dropout")),
        ({"dropout": (0.1,)}, ("value", "dropout")),
    ],
)
def test_refuses(arguments: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        CNN(**{"input_shape": (1, 28, 28), "num_classes": 10, **arguments})
