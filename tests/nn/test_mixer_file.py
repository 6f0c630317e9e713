"""Files of mixers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from graphcollab.engine.stack import ParamSpec
from graphcollab.nn import MixingEncoder
from tests.methods import plain_attention
from tests.raising import raises
from tests.train.forged import saying

SPEC = ParamSpec.from_module(nn.Sequential(nn.Conv2d(2, 3, 2), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(3, 4)))
WIDTHS = '{"0": 9, "1": 2, "3": 4}'


def in_file():
    """What a file holds of a mixer as it is drawn."""
    return {**MixingEncoder.create(SPEC).tensors, "gate": torch.zeros(())}


FORM = {"score": "cosine", "normalize": True, "own": "gate"}


def written(form, tensors, path):
    """Write a file without the library's code."""
    describe(path, tensors, WIDTHS, json.dumps(FORM | form))


def describe(path, tensors, widths, form, name="graphcollab-mixer", version=4):
    """Write a file with a description as text, and the checksum of whatever it is."""
    content = ", ".join(f'"{key}": {one}' for key, one in {"widths": widths, "form": form}.items() if one is not None)
    path.write_bytes(saying(f'{{"format": "{name}", "version": {version}, "content": {{{content}}}}}', tensors))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("score", ["cosine", "scaled", "product"])
@pytest.mark.parametrize("own", ["gate", "largest", "softmax"])
@pytest.mark.parametrize("normalize", [False, True])
def test_save_and_load(tmp_path, bias, score, own, normalize):
    mixer = MixingEncoder.create(SPEC, bias=bias, seed=5, score=score, own=own, normalize=normalize)
    learned = {"temperature": torch.tensor(0.25)}
    mixer = mixer.with_tensors({name: learned.get(name, tensor) for name, tensor in mixer.tensors.items()})
    if own == "gate":
        mixer = replace(mixer, gate=torch.tensor([-1.7], dtype=torch.float64))
    again = MixingEncoder.load(mixer.save(tmp_path / "deep" / "mixer.safetensors"))
    assert (again.widths, again.score, again.normalize, again.own) == (mixer.widths, score, normalize, own)
    assert again.tensors.keys() == mixer.tensors.keys()
    assert again.gate is mixer.gate is None if own != "gate" else torch.equal(again.gate, mixer.gate)
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in mixer.tensors.items())
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["mixer.safetensors"]
    more = (score == "cosine") + (own == "gate")
    assert again.num_parameters == sum(10 * w + 50 + 15 * bias for w in (9, 2, 4)) + more


def test_a_file_by_hand(tmp_path):
    tensors = in_file() | {"temperature": torch.tensor(0.25), "gate": torch.tensor(1.5)}
    written({}, tensors, tmp_path / "a")
    mixer = MixingEncoder.load(tmp_path / "a")
    assert (mixer.widths, mixer.group) == ({"0": 9, "1": 2, "3": 4}, None)
    assert mixer.form == {"score": "cosine", "normalize": True, "own": "gate"}
    assert (float(mixer.tensors["temperature"]), mixer.gate.tolist(), mixer.gate.dtype) == (0.25, [1.5], torch.float64)
    assert torch.equal(mixer.tensors["0/weight1"], tensors["0/weight1"])


def test_the_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    saved = MixingEncoder.create(SPEC).save(tmp_path / "mixer.safetensors")
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


def _other(name, tensor):
    return lambda tensors: {**tensors, name: tensor}


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda t: {n: v for n, v in t.items() if n != "0/weight2"}, ["0/weight2"]),
        (lambda t: {n: v for n, v in t.items() if n != "0/bias2"}, ["0/bias2"]),
        (_other("0/weight2", torch.zeros(5, 3)), ["0/weight2", [5, 10], [5, 3]]),
        (_other("0/weight1", torch.zeros(9)), ["0/weight1", [9]]),
        (_other("0/bias1", torch.zeros(4)), ["0/bias1", [10], [4]]),
        (_other("0/weight2", torch.zeros(2, 10)), ["0/bias2", [2], [5]]),
        (_other("0/weight2", torch.zeros(5, 10).long()), ["0/weight2", torch.int64]),
        (_other("strange/weight1", torch.zeros(1)), ["strange/weight1"]),
        (lambda t: {n: v for n, v in t.items() if n != "temperature"}, ["temperature"]),
        (lambda t: {n: v for n, v in t.items() if n != "gate"}, ["gate"]),
        (_other("temperature", torch.zeros(1)), ["temperature", [], [1]]),
        (_other("gate", torch.zeros(2, 2)), ["gate", [], [2, 2]]),
        (_other("gate", torch.zeros((), dtype=torch.int64)), ["gate", torch.int64]),
    ],
)
def test_load_names_the_tensor_that_does_not_fit(tmp_path, change, facts):
    written({}, change(in_file()), tmp_path / "a")
    with raises("damaged", f"file {tmp_path / 'a'}", *facts):
        MixingEncoder.load(tmp_path / "a")


@pytest.mark.parametrize(
    ("form", "name"),
    [({"score": "product"}, "temperature"), ({"own": "softmax"}, "gate"), ({"own": "largest"}, "gate")],
)
def test_numbers_that_a_form_does_not_use_are_named(tmp_path, form, name):
    written(form, in_file(), tmp_path / "a")
    with raises("damaged", f"file {tmp_path / 'a'}", name):
        MixingEncoder.load(tmp_path / "a")


def test_load_refuses_deep_json(tmp_path):
    mixer = MixingEncoder.create(SPEC)
    deep = "[" * 100_000 + "]" * 100_000
    describe(tmp_path / "a", dict(mixer.tensors), deep, json.dumps(FORM))
    with raises("damaged", f"file {tmp_path / 'a'}"):
        MixingEncoder.load(tmp_path / "a")


@pytest.mark.parametrize("widths", ['{"0": Infinity}', '{"0": NaN}', '{"0": "a"}', '{"0": 1e400}', "[1]", "3"])
def test_load_refuses_widths(tmp_path, widths):
    describe(tmp_path / "a", in_file(), widths, json.dumps(FORM))
    with raises("damaged", f"file {tmp_path / 'a'}"):
        MixingEncoder.load(tmp_path / "a")


@pytest.mark.parametrize(
    ("form", "fact"),
    [
        (None, "KeyError 'form'"),
        ("{", "JSONDecodeError"),
        ("7", "TypeError"),
        ('{"normalize": true, "own": "gate"}', "score must be one of 'cosine', 'scaled', 'product', got None"),
        ('{"score": "tanh", "normalize": true, "own": "gate"}', "'tanh'"),
        (
            '{"score": "cosine", "normalize": "yes", "own": "gate"}',
            "'yes'",
        ),
        ('{"score": "cosine", "normalize": 1, "own": "gate"}', "normalize must be one of True, False, got 1"),
        ('{"score": "cosine", "normalize": true, "own": []}', "got []"),
        ('{"score": "cosine", "normalize": true, "own": "gate", "more": 1}', "'more'"),
    ],
)
def test_load_refuses_forms(tmp_path, form, fact):
    describe(tmp_path / "a", in_file(), WIDTHS, form)
    with raises("damaged", f"file {tmp_path / 'a'}", fact):
        MixingEncoder.load(tmp_path / "a")


@pytest.mark.parametrize("bias", [False, True])
def test_the_papers_form_after_saving(tmp_path, bias):
    """Inner products of raw changes, and a softmax in which the own model is one among others."""
    made = MixingEncoder.create(SPEC, bias=bias, seed=7, score="product", own="softmax", normalize=False)
    mixer = MixingEncoder.load(made.save(tmp_path / "a")).to(torch.float64)
    assert (mixer.score, mixer.normalize, mixer.own) == ("product", False, "softmax")
    change = torch.randn(3, SPEC.num_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    code = mixer.encode(change, SPEC)
    node = torch.arange(3)
    edges = torch.cartesian_prod(node, node).flip(1).T
    found = mixer.weigh((code @ code.T)[edges[1], edges[0]], edges, edges[0] == edges[1], 3).view(3, 3)
    of = [plain_attention.codes(mixer, one, SPEC) for one in change]
    products = torch.tensor([[sum(float(a[layer] @ b[layer]) for layer in a) for b in of] for a in of])
    torch.testing.assert_close(found, products.double().softmax(1), rtol=1e-6, atol=1e-6)
    assert float((found[0] - found[1]).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [("graphcollab-mixer", 3, "version"), ("graphcollab-mixer", 5, "version"), ("graphcollab-latent", 4, "format")],
)
def test_formats_that_are_not_known_are_refused_by_name(tmp_path, name, version, code):
    describe(tmp_path / "a", dict(MixingEncoder.create(SPEC).tensors), WIDTHS, "{}", name, version)
    with raises(code, f"file {tmp_path / 'a'}", "graphcollab-mixer", name if code == "format" else str(version)):
        MixingEncoder.load(tmp_path / "a")


def test_load_refuses(tmp_path):
    with raises("missing-file", f"file {tmp_path / 'none'}", kind=FileNotFoundError):
        MixingEncoder.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with raises("format", f"file {tmp_path / 'text'}"):
        MixingEncoder.load(tmp_path / "text")
    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    with raises("format", f"file {tmp_path / 'other'}"):
        MixingEncoder.load(tmp_path / "other")
