from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from graphcollab import GraphcollabError
from graphcollab.data.datasets import from_arrays, from_npz
from tests.raising import raises

LABELS = np.array([0, 2])


def from_inputs(inputs: Any) -> torch.Tensor:
    return from_arrays(inputs, LABELS, inputs, LABELS).train_inputs


def test_floats_are_kept() -> None:
    inputs = np.array([[-3.5, 1e6], [0.25, 7.0]])
    data = from_arrays(inputs, LABELS, inputs[:1], LABELS[1:])
    assert data.train_inputs.dtype == torch.float32
    assert data.train_inputs.tolist() == inputs.tolist()
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
    assert data.train_targets.tolist() == data.test_targets.tolist() == [0, 2]
    assert data.test_targets.dtype == torch.int64


def test_an_empty_test_part_is_fine() -> None:
    data = from_arrays(np.zeros((2, 1)), LABELS, np.zeros((0, 1)), LABELS[:0], class_names=["a", "b", "c"])
    assert (len(data.test_inputs), data.class_names) == (0, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("inputs", "labels", "error", "wanted"),
    [
        (np.zeros((2, 3), dtype=np.int64), LABELS, TypeError, ("type", "train_inputs")),
        (np.zeros((2, 3)), LABELS.astype(float), TypeError, ("type", "train_targets")),
        (np.zeros((2, 3)), LABELS == 0, TypeError, ("type", "train_targets")),
        (np.array([["a"], ["b"]]), LABELS, TypeError, ("type", "train_inputs")),
        (np.zeros((2, 8, 8, 8), dtype=np.uint8), LABELS, ValueError, ("shape", "train_inputs")),
        (np.array([[0.0], [np.nan]]), LABELS, ValueError, ("not-finite", "train_inputs")),
        (np.array([[0.0], [1e300]]), LABELS, ValueError, ("not-finite", "train_inputs")),
        (np.zeros((3, 1)), LABELS, ValueError, ("mismatch", "train_targets")),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_refuses(inputs: np.ndarray, labels: np.ndarray, error: type[Exception], wanted: tuple[str, ...]) -> None:
    with raises(*wanted, kind=error):
        from_arrays(inputs, labels, inputs, labels, name="mine")


def test_npz_round_trip(tmp_path: Path) -> None:
    images = np.full((2, 4, 4), 255, dtype=np.uint8)
    np.savez_compressed(tmp_path / "mine.npz", x_train=images, y_train=LABELS, x_test=images[:1], y_test=LABELS[:1])
    data = from_npz(tmp_path / "mine.npz", class_names=["x", "y", "z"])
    assert (data.name, data.input_shape, data.class_names) == ("mine", (1, 4, 4), ("x", "y", "z"))
    assert data.train_inputs.unique().tolist() == [1.0]


def test_npz_absent(tmp_path: Path) -> None:
    with raises("missing-file", f"file {tmp_path / 'none.npz'}", kind=FileNotFoundError):
        from_npz(tmp_path / "none.npz")


def test_npz_lists_what_is_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=LABELS, labels=LABELS)
    with raises("missing", f"file {tmp_path / 'a.npz'}", "y_train, x_test, y_test", "found x_train, labels"):
        from_npz(tmp_path / "a.npz")


def test_npz_never_unpickles(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}, None], dtype=object)
    np.savez(tmp_path / "a.npz", x_train=objects, y_train=LABELS, x_test=objects, y_test=LABELS)
    with raises("untrusted", f"file {tmp_path / 'a.npz'}", "x_train"):
        from_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 cut short"])
def test_npz_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with raises("damaged", f"file {tmp_path / 'a.npz'}"):
        from_npz(tmp_path / "a.npz")


def test_npz_cut_in_the_middle(tmp_path: Path) -> None:
    inputs = np.zeros((2, 500))
    np.savez(tmp_path / "a.npz", x_train=inputs, y_train=LABELS, x_test=inputs, y_test=LABELS)
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[: len(whole) // 2])
    with raises("damaged", f"file {tmp_path / 'a.npz'}"):
        from_npz(tmp_path / "a.npz")


def flip_a_byte_of_the_data(path: Path) -> None:
    """Damage compressed bytes of a member, so that they cannot be decompressed, and mend its checksum."""
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
    content = bytearray(path.read_bytes())
    start = (
        first.header_offset
        + 30
        + len(first.filename)
        + int.from_bytes(content[first.header_offset + 28 :][:2], "little")
    )
    content[start : start + 20] = b"\xff" * 20
    path.write_bytes(content)


def test_npz_that_cannot_be_decompressed(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(2, 500))
    np.savez_compressed(tmp_path / "a.npz", x_train=inputs, y_train=LABELS, x_test=inputs, y_test=LABELS)
    flip_a_byte_of_the_data(tmp_path / "a.npz")
    with raises("damaged", f"file {tmp_path / 'a.npz'}", "x_train"):
        from_npz(tmp_path / "a.npz")


def test_npz_with_a_flipped_bit(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(2, 500))
    np.savez(tmp_path / "a.npz", x_train=inputs, y_train=LABELS, x_test=inputs, y_test=LABELS)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[2000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with raises("damaged", f"file {tmp_path / 'a.npz'}", "x_train"):
        from_npz(tmp_path / "a.npz")


def test_npz_that_is_encrypted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=LABELS[:, None], y_train=LABELS, x_test=LABELS[:, None], y_test=LABELS)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag that says so, in both of a member's headers
        start = content.find(mark)
        content[start + place] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    with raises("format", f"file {tmp_path / 'a.npz'}", "x_train"):
        from_npz(tmp_path / "a.npz")


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("shape", "code"), [("(100,)", "damaged"), ("(-5,)", "damaged"), ("(100000000, 100000000)", "too-many")]
)
def test_npz_that_claims_to_hold_more_than_it_does(tmp_path: Path, shape: str, code: str) -> None:
    np.savez(tmp_path / "a.npz", y_train=LABELS, x_test=LABELS[:, None], y_test=LABELS)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("x_train.npy", header(shape) + b"1234")
    with raises(code, f"file {tmp_path / 'a.npz'}", "x_train"):
        from_npz(tmp_path / "a.npz")


def test_npz_with_changed_bytes(tmp_path: Path) -> None:
    """Whatever is changed, it is read, or an error of the package says why not."""
    draw = np.random.default_rng(0)
    path, file = tmp_path / "a.npz", io.BytesIO()
    np.savez_compressed(file, x_train=np.ones((2, 3)), y_train=LABELS, x_test=np.ones((2, 3)), y_test=LABELS)
    for _ in range(600):
        content = bytearray(file.getvalue())
        for place in draw.integers(len(content), size=draw.integers(1, 5)).tolist():
            content[place] = int(draw.integers(256))
        path.write_bytes(content)
        with contextlib.suppress(GraphcollabError):
            from_npz(path)


def test_npz_that_is_a_single_array(tmp_path: Path) -> None:
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, LABELS)
    with raises("format", f"file {tmp_path / 'a.npz'}"):
        from_npz(tmp_path / "a.npz")
