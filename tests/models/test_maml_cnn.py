from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from graphcollab.models.classifiers import maml_cnn
from tests.raising import raises


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"num_classes": 5}, 32_901),  # 3*32*9+32 + 3*(32*32*9+32) + 4*64 + 800*5+5
        ({"num_classes": 100}, 108_996),
        ({"num_classes": 10, "input_shape": (3, 32, 32)}, 30_186),  # 128 features
        ({"num_classes": 5, "channels": 64}, 121_093),
    ],
)
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_parameter_count(arguments: dict[str, Any], count: int, norm: Any) -> None:
    assert (
        sum(p.numel() for p in maml_cnn(**{"input_shape": (3, 84, 84), "norm": norm, **arguments}).parameters())
        == count
    )


def test_normalizes_by_groups_and_has_no_buffers() -> None:
    model = maml_cnn((3, 32, 32), 10)
    norms = [module for module in model.modules() if isinstance(module, nn.GroupNorm)]
    assert [norm.num_groups for norm in norms] == [2, 2, 2, 2]
    assert list(model.buffers()) == []


def test_one_sample_does_not_change_another() -> None:
    model, inputs = maml_cnn((1, 16, 16), 3), torch.randn(4, 1, 16, 16)
    assert torch.allclose(model(inputs)[:1], model(inputs[:1]), atol=1e-6)


def test_the_original_has_batch_norm() -> None:
    model = maml_cnn((3, 32, 32), 10, norm="batch")
    assert sum(isinstance(module, nn.BatchNorm2d) for module in model.modules()) == 4


def test_children_are_named_and_images_need_not_be_square() -> None:
    model = maml_cnn((3, 84, 33), 10, channels=8)
    assert [name for name, _ in model.named_children()] == ["backbone", "head"]
    assert model.backbone(torch.zeros(2, 3, 84, 33)).shape == (2, 8 * 5 * 2)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"input_shape": (0, 84, 84)}, ("value", "input_shape", "at least 1")),
        ({"input_shape": (15, 15)}, ("shape", "input_shape", "(15, 15)")),
        ({"num_classes": 0}, ("value", "num_classes", "at least 1")),
        ({"channels": 0}, ("value", "channels", "at least 1")),
        ({"input_shape": (3, 15, 15)}, ("shape", "input_shape", "(15, 15)", "16 x 16")),
        ({"norm": "layer"}, ("value", "norm", "'layer'")),
    ],
)
def test_refuses(arguments: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        maml_cnn(**{"input_shape": (3, 84, 84), "num_classes": 10, **arguments})
