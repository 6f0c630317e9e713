from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from graphcollab.models.layers import replace_batch_norm
from tests.raising import raises


def test_converts_in_place_and_keeps_what_can_be_kept() -> None:
    norm = nn.BatchNorm2d(64, eps=1e-3)
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.Sequential(norm, nn.ReLU()), nn.BatchNorm2d(8, affine=False)).eval()
    nn.init.normal_(norm.weight)
    norm.bias.requires_grad_(False)
    result = replace_batch_norm(model)
    assert result is model
    new = model[1][0]
    assert isinstance(new, nn.GroupNorm)
    assert new.weight is norm.weight
    assert new.bias is norm.bias
    assert (new.num_channels, new.eps, new.training, new.affine) == (64, 1e-3, False, True)
    assert model[2].weight is None
    assert not model[2].affine
    assert list(model.buffers()) == []
    assert list(dict(model.named_parameters())) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]


def test_computes_group_norm() -> None:
    norm = replace_batch_norm(nn.BatchNorm2d(4), groups=2, min_channels=1)
    inputs = torch.randn(3, 4, 5, 5)
    groups = inputs.view(3, 2, 2 * 25)
    expected = (groups - groups.mean(2, keepdim=True)) / (groups.var(2, keepdim=True, correction=0) + 1e-5).sqrt()
    assert torch.allclose(norm(inputs), expected.view_as(inputs), atol=1e-5)


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm1d(6), (2, 6)),
        (nn.BatchNorm1d(6), (2, 6, 5)),
        (nn.BatchNorm3d(6), (2, 6, 2, 2, 2)),
        (nn.SyncBatchNorm(6), (2, 6, 3, 3)),
    ],
)
def test_every_kind(norm: nn.Module, shape: tuple[int, ...]) -> None:
    model = replace_batch_norm(nn.Sequential(norm))
    assert isinstance(model[0], nn.GroupNorm)  # type: ignore[index]
    assert model(torch.randn(shape)).shape == shape


def test_leaves_other_normalizations_alone() -> None:
    layers = [nn.InstanceNorm2d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4)]
    assert list(replace_batch_norm(nn.Sequential(*layers)).children()) == layers


def test_a_shared_layer_stays_shared() -> None:
    norm = nn.BatchNorm1d(4)
    model = replace_batch_norm(nn.Sequential(norm, nn.ReLU(), norm, nn.Sequential(norm)))
    assert model[0] is model[2] is model[3][0]  # type: ignore[index]


@pytest.mark.parametrize(("channels", "groups"), [(3, 1), (16, 1), (32, 2), (48, 3), (64, 4), (512, 32), (2048, 32)])
def test_default_number_of_groups(channels: int, groups: int) -> None:
    assert replace_batch_norm(nn.BatchNorm2d(channels)).num_groups == groups


@given(st.integers(1, 200), st.integers(1, 40), st.integers(1, 40))
def test_number_of_groups(channels: int, groups: int, min_channels: int) -> None:
    got = replace_batch_norm(nn.BatchNorm1d(channels), groups, min_channels).num_groups
    fitting = [n for n in range(1, groups + 1) if channels % n == 0 and channels // n >= min_channels]
    assert got == max(fitting, default=1)


@pytest.mark.parametrize("arguments", [{"groups": 0}, {"min_channels": 0}])
def test_refuses_numbers(arguments: dict[str, int]) -> None:
    with raises("value", *arguments):
        replace_batch_norm(nn.BatchNorm1d(4), **arguments)


def test_names_a_lazy_layer() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.LazyBatchNorm1d()))
    with raises("unsupported", "layer '1.0'"):
        replace_batch_norm(model)
