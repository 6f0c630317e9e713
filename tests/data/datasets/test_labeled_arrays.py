from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from graphcollab.data.datasets import LabeledArrays
from tests.raising import raises


def make(**changes: Any) -> LabeledArrays:
    fields = {
        "name": "toy",
        "train_inputs": torch.arange(8.0).view(4, 2),
        "train_targets": torch.tensor([0, 1, 2, 1]),
        "test_inputs": torch.tensor([[9.0, 9.0], [8.0, 8.0]]),
        "test_targets": torch.tensor([1, 0]),
        "class_names": ("a", "b", "c"),
    }
    return LabeledArrays(**{**fields, **changes})


def test_properties() -> None:
    data = make()
    assert (data.num_classes, data.input_shape) == (3, (2,))
    assert repr(data) == "LabeledArrays('toy', train=4, test=2, input_shape=(2,), num_classes=3)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"train_targets": torch.tensor([0, 1, 2])}, ("mismatch", "train_targets")),
        ({"test_targets": torch.tensor([0])}, ("mismatch", "test_targets")),
        ({"train_targets": torch.tensor([0, 1, 3, 3])}, ("range", "train_targets")),
        ({"test_targets": torch.tensor([0, -1])}, ("range", "test_targets")),
        ({"test_inputs": torch.zeros(2, 3)}, ("mismatch", "test_inputs")),
        ({"train_inputs": torch.zeros(4)}, ("shape", "train_inputs")),
        ({"train_targets": torch.zeros(4, 1, dtype=torch.int64)}, ("shape", "train_inputs")),
        ({"class_names": ()}, ("empty", "class_names")),
        ({"train_inputs": torch.zeros(0, 2), "train_targets": torch.zeros(0).long()}, ("empty", "train_inputs")),
    ],
)
def test_refuses_values(changes: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        make(**changes)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_names_the_first_sample_that_is_not_finite(bad: float) -> None:
    inputs = torch.zeros(4, 2)
    inputs[2, 1] = inputs[3, 0] = bad
    with raises("not-finite", "train_inputs"):
        make(train_inputs=inputs)


def test_accepts_finite_inputs_whose_sum_overflows() -> None:
    assert make(train_inputs=torch.full((4, 2), 3e38)).input_shape == (2,)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"train_inputs": torch.zeros(4, 2, dtype=torch.float64)},
            ("type", "train_inputs"),
        ),
        ({"test_targets": torch.tensor([0.0, 1.0])}, ("type", "test_targets")),
        ({"train_inputs": [[0.0, 1.0]]}, ("type", "train_inputs")),
    ],
)
def test_refuses_types(changes: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted, kind=TypeError):
        make(**changes)


def test_grayscale_averages_channels_cuts_the_center_and_standardizes():
    images = torch.arange(2 * 2 * 4 * 4, dtype=torch.float32).view(2, 2, 4, 4)
    data = LabeledArrays("a", images, torch.tensor([0, 1]), images, torch.tensor([0, 1]), ("x", "y")).grayscale(2)
    # channel means of sample 0 at the center: (5 + 21) / 2 = 13, 14, 17, 18; sample 1: 32 more
    expected = torch.tensor([13.0, 14, 17, 18, 45, 46, 49, 50])
    expected = (expected - expected.mean()) / expected.std()
    assert data.input_shape == (1, 2, 2)
    torch.testing.assert_close(data.train_inputs.flatten(), expected)
    with raises("range", "side"):
        data.grayscale(3)
