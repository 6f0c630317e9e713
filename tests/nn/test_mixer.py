from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.models import MLP, fedavg_cnn
from graphcollab.nn import Mixer
from graphcollab.nn.filters import layers_of
from graphcollab.stack import ParamSpec

SPEC = ParamSpec.from_module(nn.Sequential(nn.Conv2d(2, 3, 2), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(3, 4)))


def test_a_filter_is_a_row_of_the_weight_with_its_bias():
    widths = {
        layer: (channels, sum(w for _, w in pieces)) for layer, (channels, pieces) in layers_of(SPEC, "all").items()
    }
    assert widths == {"0": (3, 9), "1": (3, 2), "3": (4, 4)}


@pytest.mark.parametrize("bias", [False, True])
def test_encoding_equals_the_networks_applied_filter_by_filter(bias):
    mixer = Mixer.create(SPEC, hidden=10, out=5, bias=bias, seed=3)
    changes = torch.randn(6, SPEC.num_parameters, generator=torch.Generator().manual_seed(0))
    codes = mixer.encode(changes, SPEC)
    assert codes.shape == (6, 5 * (3 + 3 + 4))
    expected = []
    for change in changes:
        views = dict(zip(SPEC.names, SPEC.views(change), strict=True))
        for layer in ("0", "1", "3"):
            first, second = nn.Linear(mixer.widths[layer], 10, bias), nn.Linear(10, 5, bias)
            for n, linear in (("1", first), ("2", second)):
                for name, parameter in linear.named_parameters():
                    parameter.data = mixer.tensors[f"{layer}/{name}{n}"]
            rows = zip(views[f"{layer}.weight"], views[f"{layer}.bias"], strict=True)
            expected += [second(torch.relu(first(torch.cat([w.flatten(), b[None]])))) for w, b in rows]
    torch.testing.assert_close(codes, torch.cat(expected).view(6, -1))


def test_encoders_are_shared_by_filters():
    """Putting a layer's filters in another order puts their codes in that order."""
    spec = ParamSpec.from_module(nn.Linear(3, 4))
    mixer = Mixer.create(spec)
    order = torch.tensor([2, 0, 3, 1])
    weight, bias = torch.randn(1, 4, 3), torch.randn(1, 4)
    one = mixer.encode(torch.cat([weight.flatten(1), bias], 1), spec)
    two = mixer.encode(torch.cat([weight[:, order].flatten(1), bias[:, order]], 1), spec)
    torch.testing.assert_close(one.view(4, 5)[order], two.view(4, 5))


def test_initial_parameters_depend_on_the_seed_only():
    before = torch.get_rng_state()
    one, two, other = (Mixer.create(SPEC, seed=seed).tensors for seed in (1, 1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["0/weight1"], other["0/weight1"])
    assert torch.equal(before, torch.get_rng_state())
    assert float(one["0/weight1"].abs().max()) <= 1 / 3  # fan-in 9


def test_another_number_of_filters_is_fine():
    mixer = Mixer.create(ParamSpec.from_module(MLP(8, 16, 10)), part="head")
    mixer.check(ParamSpec.from_module(MLP(8, 16, 3)), "head")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (fedavg_cnn((1, 16, 16), 10), "no encoder for layer"),
        (MLP(8, 15, 10), r"layer 'head' has filters of 16 numbers, the mixer was trained on filters of 17"),
        (MLP(8, (), 10), "layer 'head' has filters of 9 numbers"),
    ],
)
def test_other_architectures_are_refused_by_layer(module, message):
    mixer = Mixer.create(ParamSpec.from_module(MLP(8, 16, 10)))
    with pytest.raises(ValueError, match=message):
        mixer.check(ParamSpec.from_module(module))


def test_layers_that_are_not_there_are_named():
    mixer = Mixer.create(ParamSpec.from_module(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))))
    with pytest.raises(ValueError, match=r"encoders for layers \['1'\]"):
        mixer.check(ParamSpec.from_module(nn.Sequential(nn.Linear(2, 2))))


@pytest.mark.parametrize("bias", [False, True])
def test_save_and_load(tmp_path, bias):
    mixer = Mixer.create(SPEC, bias=bias, seed=5)
    again = Mixer.load(mixer.save(tmp_path / "deep" / "mixer.safetensors"))
    assert again.widths == mixer.widths
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in mixer.tensors.items())
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["mixer.safetensors"]
    assert again.num_parameters == sum(10 * w + 50 + 15 * bias for w in (9, 2, 4))


def test_the_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "other").write_text("")
    saved = Mixer.create(SPEC).save(tmp_path / "mixer.safetensors")
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


def _other(name, tensor):
    return lambda tensors: {**tensors, name: tensor}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {n: v for n, v in t.items() if n != "0/weight2"}, "0/weight2 is missing"),
        (lambda t: {n: v for n, v in t.items() if n != "0/bias2"}, "0/bias2 is missing"),
        (_other("0/weight2", torch.zeros(5, 3)), r"0/weight2 must be \[5, 10\], got \[5, 3\]"),
        (_other("0/weight1", torch.zeros(9)), r"0/weight1 must be a matrix, got \[9\]"),
        (_other("0/bias1", torch.zeros(4)), r"0/bias1 must be \[10\], got \[4\]"),
        (_other("0/weight2", torch.zeros(2, 10)), r"0/bias2 must be \[2\], got \[5\]"),
        (_other("0/weight2", torch.zeros(5, 10).long()), r"0/weight2 must hold real numbers, got torch.int64"),
        (_other("strange/weight1", torch.zeros(1)), "strange/weight1 belongs to no encoder"),
    ],
)
def test_load_names_the_tensor_that_does_not_fit(tmp_path, change, message):
    mixer = Mixer.create(SPEC)
    path = mixer.with_tensors(change(mixer.tensors)).save(tmp_path / "mixer.safetensors")
    with pytest.raises(ValueError, match=f"is damaged: {message}"):
        Mixer.load(path)


def test_load_refuses_deep_json(tmp_path):
    from safetensors.torch import save_file

    mixer = Mixer.create(SPEC)
    deep = "[" * 100_000 + "]" * 100_000
    save_file(dict(mixer.tensors), tmp_path / "a", {"format": "graphcollab-mixer-1", "widths": deep})
    with pytest.raises(ValueError, match="is damaged"):
        Mixer.load(tmp_path / "a")


def test_load_refuses(tmp_path):
    from safetensors.torch import save_file

    with pytest.raises(FileNotFoundError, match="there is no mixer at"):
        Mixer.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="is not a safetensors file"):
        Mixer.load(tmp_path / "text")
    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(ValueError, match="is not a mixer"):
        Mixer.load(tmp_path / "other")


def test_without_biases_a_model_that_has_not_changed_is_encoded_as_zero():
    assert not Mixer.create(SPEC, bias=False).encode(torch.zeros(2, SPEC.num_parameters), SPEC).any()
