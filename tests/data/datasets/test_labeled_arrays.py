from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.samples import Pool
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
    name, x, y, test_x, test_y, classes = {**fields, **changes}.values()
    return LabeledArrays(name, Pool(x, y), Pool(test_x, test_y), classes)


def test_properties() -> None:
    data = make()
    assert (data.num_classes, data.input_shape) == (3, (2,))
    assert repr(data) == "LabeledArrays('toy', train=4, test=2, input_shape=(2,), num_classes=3)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"train_targets": torch.tensor([0, 1, 2])}, ("mismatch", "inputs")),
        ({"test_targets": torch.tensor([0])}, ("mismatch", "inputs")),
        ({"train_targets": torch.tensor([0, 1, 3, 3])}, ("range", "train")),
        ({"test_targets": torch.tensor([0, -1])}, ("range", "test")),
        ({"test_inputs": torch.zeros(2, 3)}, ("mismatch", "test")),
        ({"train_inputs": torch.zeros(4)}, ("shape", "train")),
        ({"train_targets": torch.zeros(4, 1, dtype=torch.int64)}, ("shape", "train")),
        ({"class_names": ()}, ("empty", "class_names")),
        ({"train_inputs": torch.zeros(0, 2), "train_targets": torch.zeros(0).long()}, ("empty", "train")),
    ],
)
def test_refuses_values(changes: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        make(**changes)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_names_the_first_sample_that_is_not_finite(bad: float) -> None:
    inputs = torch.zeros(4, 2)
    inputs[2, 1] = inputs[3, 0] = bad
    with raises("not-finite", "inputs"):
        make(train_inputs=inputs)


def test_accepts_finite_inputs_whose_sum_overflows() -> None:
    assert make(train_inputs=torch.full((4, 2), 3e38)).input_shape == (2,)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"train_inputs": torch.zeros(4, 2, dtype=torch.float64)},
            ("type", "train"),
        ),
        ({"test_targets": torch.tensor([0.0, 1.0])}, ("type", "test")),
    ],
)
def test_refuses_types(changes: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted, kind=TypeError):
        make(**changes)
