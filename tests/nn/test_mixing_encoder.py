from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from graphcollab.models.classifiers import fedavg_cnn
from graphcollab.nn import MixingEncoder
from tests.methods import plain_attention
from tests.raising import raises

SPEC = ParamSpec.from_module(nn.Sequential(nn.Conv2d(2, 3, 2), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(3, 4)))


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_mixer(**form):
    """A mixer in double precision whose temperature has learned something: exp(0.4)."""
    mixer = MixingEncoder.create(SPEC, seed=3, **form).to(torch.float64)
    known = {"temperature": torch.tensor(0.04).double()} if "temperature" in mixer.tensors else {}
    return mixer.with_tensors({**mixer.tensors, **known})


@pytest.mark.parametrize("bias", [False, True])
def test_encoding_equals_the_networks_applied_filter_by_filter(bias):
    mixer = MixingEncoder.create(SPEC, hidden=10, out=5, bias=bias, seed=3, score="product", normalize=False)
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


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("score", ["cosine", "scaled", "product"])
def test_inner_products_are_the_logits_of_plain_loops(score, normalize, bias):
    mixer = make_mixer(score=score, normalize=normalize, bias=bias)
    changes = normal(3, SPEC.num_parameters, seed=0) * torch.tensor([[1.0], [5.0], [0.2]], dtype=torch.float64)
    codes = mixer.encode(changes, SPEC)
    plain = [plain_attention.codes(mixer, change, SPEC) for change in changes]
    expected = [[plain_attention.logit(mixer, one, other) for other in plain] for one in plain]
    torch.testing.assert_close(codes @ codes.T, torch.tensor(expected))


def test_encoders_are_shared_by_filters():
    """Putting a layer's filters in another order puts their codes in that order."""
    spec = ParamSpec.from_module(nn.Linear(3, 4))
    mixer = MixingEncoder.create(spec)
    order = torch.tensor([2, 0, 3, 1])
    weight, bias = torch.randn(1, 4, 3), torch.randn(1, 4)
    one = mixer.encode(torch.cat([weight.flatten(1), bias], 1), spec)
    two = mixer.encode(torch.cat([weight[:, order].flatten(1), bias[:, order]], 1), spec)
    torch.testing.assert_close(one.view(4, 5)[order], two.view(4, 5))


def test_initial_parameters_depend_on_the_seed_only():
    before = torch.get_rng_state()
    one, two, other = (MixingEncoder.create(SPEC, seed=seed).tensors for seed in (1, 1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["0/weight1"], other["0/weight1"])
    assert torch.equal(before, torch.get_rng_state())
    assert float(one["0/weight1"].abs().max()) <= 1 / 3  # fan-in 9


def test_another_number_of_filters_is_fine():
    mixer = MixingEncoder.create(ParamSpec.from_module(MLP(8, 16, 10)), part="head")
    mixer.check(ParamSpec.from_module(MLP(8, 16, 3)), "head")


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        (fedavg_cnn((1, 16, 16), 10), ("unknown", "layer 'backbone.0'")),
        (MLP(8, 15, 10), ("shape", "layer 'head'", "16", "17")),
        (MLP(8, (), 10), ("shape", "layer 'head'")),
    ],
)
def test_other_architectures_are_refused_by_layer(module, wanted):
    mixer = MixingEncoder.create(ParamSpec.from_module(MLP(8, 16, 10)))
    with raises(*wanted):
        mixer.check(ParamSpec.from_module(module))


def test_layers_that_are_not_there_are_named():
    mixer = MixingEncoder.create(ParamSpec.from_module(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))))
    with raises("mismatch", "mixer", "'1'"):
        mixer.check(ParamSpec.from_module(nn.Sequential(nn.Linear(2, 2))))


@pytest.mark.parametrize("score", ["cosine", "scaled", "product"])
def test_without_biases_a_model_that_has_not_changed_is_encoded_as_zero(score):
    mixer = MixingEncoder.create(SPEC, bias=False, score=score)
    assert mixer.encode(torch.zeros(2, SPEC.num_parameters), SPEC).tolist() == [[0.0] * 50] * 2


def test_there_is_a_temperature_with_cosines_and_a_gate_where_one_is_learned():
    for score in ("cosine", "scaled", "product"):
        for own in ("gate", "largest", "softmax"):
            mixer = MixingEncoder.create(SPEC, score=score, own=own)
            assert ("temperature" in mixer.tensors, mixer.gate is not None) == (score == "cosine", own == "gate")
    start = MixingEncoder.create(SPEC)
    assert (float(start.tensors["temperature"]), start.gate.tolist()) == (0.0, [-4.0])
    paper = MixingEncoder.create(SPEC, score="product", own="softmax")
    assert all(torch.equal(start.tensors[name], tensor) for name, tensor in paper.tensors.items()), "one draw for all"
