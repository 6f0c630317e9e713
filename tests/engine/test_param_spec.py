"""Slopes and intercept, names that models have whose last layer has a bias. Parts of one's own: test_stack.py."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import build_model
from graphcollab.engine import ParamSpec
from graphcollab.models import MLP, MODELS
from tests.engine.test_stack import FourParts, TiedParts, two_architectures
from tests.raising import raises


def columns_of(module, *parts):
    spec = ParamSpec.from_module(module)
    return [(one.start, one.stop) for one in map(spec.columns, parts)]


def test_slopes_and_intercept_are_the_output_layers_bias_and_the_rest():
    """A linear layer 3 to 2 has 6 + 2 numbers; MLP(3, (4,), 2) has 12 + 4 + 8 + 2; buffers follow."""
    names = "slopes", "intercept", "slopes+intercept", "all"
    assert columns_of(nn.Linear(3, 2), *names) == [(0, 6), (6, 8), (0, 8), (0, 8)]
    assert columns_of(MLP(3, (4,), 2), *names) == [(0, 24), (24, 26), (0, 26), (0, 26)]
    assert columns_of(MLP(3, (), 2), *names) == columns_of(nn.Linear(3, 2), *names)
    normalized = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    assert columns_of(normalized, *names, "intercept+buffers")[1:] == [(12, 14), (0, 14), (0, 14), (12, 21)]
    spec = ParamSpec.from_module(MLP(3, (4,), 2))
    assert (spec.names_in("intercept"), spec.part_layout("intercept")) == (("head.bias",), ((2,),))
    assert spec.names_in("slopes") == spec.names[:3]
    assert spec.parts.keys() == {"backbone", "head", "all"}  # still a partition
    tied = TiedParts()
    assert columns_of(tied, "slopes", "intercept") == [(0, 27), (27, 32)]  # shared parameters lie in the slopes
    for overlap in ("head+intercept", "slopes+all"):
        with raises("conflict", f"part {overlap!r}"):
            spec.columns(overlap)
    with raises("unknown", "part 'tail'", "'all', 'backbone', 'head', 'intercept', 'slopes'", kind=KeyError):
        spec.columns("tail")


def test_every_model_that_is_built_by_name_has_an_intercept():
    for name in MODELS:
        module = build_model(name, (3, 48, 48), 5)
        assert ParamSpec.from_module(module).names_in("intercept") == ("head.bias",), name


def lacking_intercept():
    tied, frozen, bias = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 1), nn.Linear(2, 1)
    tied[1].bias = tied[0].bias
    frozen.bias.requires_grad_(False)
    bias.weight.requires_grad_(False)
    return {
        "no bias": nn.Linear(2, 1, bias=False),
        "no linear layer": nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
        "frozen": frozen,
        "nothing else": bias,
        "tied": tied,
        "the output layer has other columns": FourParts(),
    }


@pytest.mark.parametrize("why", lacking_intercept())
def test_a_module_without_an_intercept_of_its_own(why):
    spec = ParamSpec.from_module(lacking_intercept()[why])
    for part in ("slopes", "intercept"):
        with raises("unknown", f"part {part!r}", str(sorted(spec.parts)), kind=KeyError):
            spec.columns(part)


def test_a_modules_own_slopes_come_first():
    module = nn.Linear(3, 2)
    module.parts = {"intercept": ["weight"]}
    assert columns_of(module, "intercept", "slopes") == [(0, 6), (0, 6)]


def test_architectures_share_an_intercept():
    stacks, _ = two_architectures()
    assert stacks.part("intercept").shape == (5, 2)
    new = stacks.with_part("intercept", torch.zeros(5, 2))
    assert torch.equal(new.part("head")[:, :-2], stacks.part("head")[:, :-2])
    assert new.part("head")[:, -2:].abs().max() == 0
    with raises("mismatch", "part 'slopes'", "['head', 'intercept']"):
        stacks.part("slopes")
