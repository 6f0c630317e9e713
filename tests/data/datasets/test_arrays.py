from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from graphcollab.data.datasets import from_arrays
from tests.raising import raises

LABELS = np.array([0, 2])


def from_inputs(inputs: Any) -> torch.Tensor:
    return from_arrays(inputs, LABELS, inputs, LABELS).train.inputs


def test_floats_are_kept() -> None:
    inputs = np.array([[-3.5, 1e6], [0.25, 7.0]])
    data = from_arrays(inputs, LABELS, inputs[:1], LABELS[1:])
    assert data.train.inputs.dtype == torch.float32
    assert data.train.inputs.tolist() == inputs.tolist()
    assert data.class_names == ("0", "1", "2")


def test_channels_last_becomes_channels_first() -> None:
    images = np.arange(2 * 5 * 4 * 3, dtype=np.uint8).reshape(2, 5, 4, 3)
    inputs = from_inputs(images)
    assert inputs.shape == (2, 3, 5, 4)
    assert inputs[1, 2, 3, 1].item() == pytest.approx(images[1, 3, 1, 2] / 255)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 6, 5), (2, 1, 6, 5)),
        ((2, 6, 5, 1), (2, 1, 6, 5)),
        ((2, 3, 6, 5), (2, 3, 6, 5)),
        ((2, 3, 5, 3), (2, 3, 3, 5)),  # both could be channels: the last axis is
        ((2, 7), (2, 7)),
    ],
)
def test_shapes_of_bytes(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    inputs = from_inputs(np.full(shape, 51, dtype=np.uint8))
    assert inputs.shape == expected
    assert inputs.is_contiguous()
    assert torch.allclose(inputs, torch.tensor(0.2))


def test_tensors_and_arrays_agree_and_nothing_is_shared() -> None:
    array = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    tensor = torch.tensor(array)
    of_array, of_tensor = from_inputs(array), from_inputs(tensor)
    array[:], tensor[:] = 0, 0
    assert of_array.tolist() == of_tensor.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@given(
    hnp.arrays(
        st.sampled_from(["<f4", ">f4", "<f8", "<f2"]),
        st.tuples(st.just(2), st.integers(1, 4)),
        elements=st.integers(-100, 100).map(float),
    )
)
def test_any_byte_order_width_and_stride(inputs: np.ndarray) -> None:
    view = inputs[::-1, ::-1]
    assert from_inputs(view).tolist() == view.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8", ">i4", "uint16", "int64"])
def test_labels_of_any_integer_type(dtype: str) -> None:
    data = from_arrays(np.zeros((2, 1)), LABELS.astype(dtype), np.zeros((2, 1)), LABELS.astype(dtype)[:, None])
    assert data.train.targets.tolist() == data.test.targets.tolist() == [0, 2]
    assert data.test.targets.dtype == torch.int64


def test_an_empty_test_part_is_fine() -> None:
    data = from_arrays(np.zeros((2, 1)), LABELS, np.zeros((0, 1)), LABELS[:0], class_names=["a", "b", "c"])
    assert (len(data.test.inputs), data.class_names) == (0, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("inputs", "labels", "error", "wanted"),
    [
        (np.zeros((2, 3), dtype=np.int64), LABELS, TypeError, ("type", "train_inputs")),
        (np.zeros((2, 3)), LABELS.astype(float), TypeError, ("type", "train_targets")),
        (np.zeros((2, 3)), LABELS == 0, TypeError, ("type", "train_targets")),
        (np.array([["a"], ["b"]]), LABELS, TypeError, ("type", "train_inputs")),
        (np.zeros((2, 8, 8, 8), dtype=np.uint8), LABELS, ValueError, ("shape", "train_inputs")),
        (np.array([[0.0], [np.nan]]), LABELS, ValueError, ("not-finite", "inputs")),
        (np.array([[0.0], [1e300]]), LABELS, ValueError, ("not-finite", "inputs")),
        (np.zeros((3, 1)), LABELS, ValueError, ("mismatch", "inputs")),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_refuses(inputs: np.ndarray, labels: np.ndarray, error: type[Exception], wanted: tuple[str, ...]) -> None:
    with raises(*wanted, kind=error):
        from_arrays(inputs, labels, inputs, labels, name="mine")
