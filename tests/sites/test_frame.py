from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab._base.packed import BLANK, END, START, pack
from graphcollab.sites.frame import KIND, Frame, FrameError, OtherVersionError
from tests.raising import raises
from tests.train.forged import sealed

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
TYPES += [torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_what_is_packed_is_what_comes_out(dtype, shape):
    value = (torch.arange(max(1, int(torch.tensor(shape).prod()))) % 2).to(dtype)
    value = value[: int(torch.tensor(shape).prod())].view(shape) if shape else value[0]
    (found,) = Frame.unpack(Frame({"verb": "x"}, (value,)).pack()).tensors
    assert found.dtype == dtype
    assert found.shape == value.shape
    assert torch.equal(found, value)


def test_numbers_that_are_no_numbers_survive():
    value = torch.tensor([float("nan"), float("inf"), -0.0])
    (found,) = Frame.unpack(Frame({"value": float("nan")}, (value,)).pack()).tensors
    assert torch.equal(found.view(torch.int32), value.view(torch.int32))


def test_views_and_gradients_are_sent_as_plain_numbers():
    value = torch.arange(6.0, requires_grad=True).view(2, 3).T
    assert torch.equal(Frame.unpack(Frame({}, (value,)).pack()).tensors[0], value.detach())


@given(st.integers(min_value=0), st.binary(min_size=1, max_size=3))
def test_any_change_of_a_byte_is_noticed(place, other):
    content = Frame({"verb": "x", "step": 3}, (torch.arange(5.0),)).pack()
    at = place % len(content)
    changed = content[:at] + other + content[at + len(other) :]
    if changed == content:
        return
    with pytest.raises(FrameError):
        Frame.unpack(changed)


@given(st.integers(min_value=0))
def test_a_cut_message_is_noticed(length):
    content = Frame({"verb": "x"}, (torch.arange(5.0),)).pack()
    with pytest.raises(FrameError):
        Frame.unpack(content[: length % len(content)])


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(content):
    whole = Frame({}).pack()
    for what in (content, whole[:8] + content, whole[:START] + content, sealed(whole[:END] + content)):
        with pytest.raises(FrameError):
            Frame.unpack(what)


def forged(content: str, rest: bytes = b"", **tensors: list[Any]) -> bytes:
    """Return a frame whose checksum is right, whatever it says."""
    told = f'{{"sha256": "{BLANK.decode()}", "format": "{KIND}", "version": 1, "content": {content}}}'
    kinds = {name: dict(zip(("dtype", "shape", "data_offsets"), one, strict=True)) for name, one in tensors.items()}
    header = json.dumps({"__metadata__": {"graphcollab": told}, **kinds}, separators=(",", ":")).encode()
    return sealed(len(header).to_bytes(8, "little") + header + rest)


def test_forged_frames_are_frames_if_right():
    assert Frame.unpack(forged('{"a": 1}', b"1234", **{"0": ["F32", [1], [0, 4]]})).about == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "rest"),
    [
        (["F32", [-1], [0, 0]], b""),
        (["F32", [2**62, 2**62], [0, 0]], b""),
        (["F32", [0, 2**70], [0, 0]], b""),
        (["F32", [1] * 1000, [0, 4]], b"1234"),
        (["F32", [10**4000, 10**4000], [0, 0]], b""),
        (["F32", {"a": 1}, [0, 4]], b"1234"),
        (["F32", None, [0, 4]], b"1234"),
        ([["F32"], [1], [0, 4]], b"1234"),
        (["F32", [1.0], [0, 4]], b"1234"),
        (["F32", [True], [0, 4]], b"1234"),
        (["OBJECT", [1], [0, 4]], b"1234"),
        (["F32", "1", [0, 4]], b"1234"),
        (["F32", [2], [0, 4]], b"1234"),
        (["F32", [1], [0, 4]], b"12345678"),
        (["F32", [1], [4, 8]], b"12345678"),
    ],
)
def test_forged_tensors_are_refused(kind, rest):
    with pytest.raises(FrameError):
        Frame.unpack(forged("{}", rest, **{"0": kind}))


def test_booleans_are_zeros_and_ones():
    (found,) = Frame.unpack(forged("{}", b"\x00\x07", **{"0": ["BOOL", [2], [0, 2]]})).tensors
    assert found.view(torch.uint8).tolist() == [0, 1]


@pytest.mark.parametrize("content", ["[]", "3", "null", "nothing", '{"a": '])
def test_a_forged_description_is_refused(content):
    with pytest.raises(FrameError):
        Frame.unpack(forged(content))


def test_tensors_of_other_names_are_refused():
    with pytest.raises(FrameError):
        Frame.unpack(forged("{}", b"1234", **{"1": ["F32", [1], [0, 4]]}))


def test_messages_of_another_version_are_refused_by_name():
    with raises("version", "message", kind=OtherVersionError):
        Frame.unpack(pack(KIND, 2, {}, {}))


def test_a_description_that_is_nested_without_end_is_refused():
    with pytest.raises(FrameError):
        Frame.unpack(forged("[" * 100_000))
    for many, fits in ((99, True), (100, False), (500, False)):
        text = '{"value": ' + "[" * many + "]" * many + "}"
        if fits:
            assert Frame.unpack(Frame.unpack(forged(text)).pack()).about["value"]
            continue
        with raises("damaged", "message", kind=FrameError):
            Frame.unpack(forged(text))


def test_nothing_but_bytes_is_a_frame():
    with raises("damaged", "message", kind=FrameError):
        Frame.unpack("text")


def test_what_is_due_is_checked():
    frame = Frame({}, (torch.zeros(2, 3), torch.zeros(4, dtype=torch.int64)))
    assert frame.require((torch.float32, (2, 3)), (torch.int64, (None,))) is frame
    for wanted in (
        [(torch.float32, (2, 3))],
        [(torch.float64, (2, 3)), (torch.int64, (4,))],
        [(torch.float32, (3, 2)), (torch.int64, (4,))],
        [(torch.float32, (2, 3)), (torch.int64, (4, 1))],
    ):
        with raises("damaged", "message", kind=FrameError):
            frame.require(*wanted)
