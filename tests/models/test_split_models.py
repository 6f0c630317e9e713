from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import SplitModel, small_backbones, split_models
from tests.raising import raises

SHAPE = (1, 4, 4)


def linear(features: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, features))


def state(model: nn.Module, backbone: bool) -> dict[str, Tensor]:
    return {n: v for n, v in model.state_dict().items() if n.startswith("backbone") == backbone}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_all_begin_with_the_firsts_common_parts() -> None:
    torch.manual_seed(0)
    models = split_models({"a": linear(3), "b": nn.Flatten(), "c": linear(3)}, SHAPE, 5, latent=6, projection=4)
    assert all(same(state(model, backbone=False), state(models[0], backbone=False)) for model in models)
    assert not same(state(models[0], backbone=True), state(models[2], backbone=True))
    torch.manual_seed(0)
    first = linear(3)
    nn.Flatten(), linear(3)
    assert same(SplitModel(first, SHAPE, 5, latent=6, projection=4).state_dict(), models[0].state_dict())
    models[0].head.weight.data.zero_()  # equal, not shared
    assert models[1].head.weight.abs().max() > 0


def test_or_with_their_own() -> None:
    models = split_models([linear(3), linear(3)], SHAPE, 5, common=False)
    assert not torch.equal(models[0].head.weight, models[1].head.weight)
    assert not torch.equal(models[0].prototypes, models[1].prototypes)


def test_order_and_backbones_are_kept() -> None:
    backbones = small_backbones(SHAPE, width=2)
    models = split_models(backbones, SHAPE, 5, latent=6, norm="layer", hidden=7)
    assert [model.backbone.features for model in models] == list(backbones.values())
    assert all(isinstance(model.projection[1], nn.LayerNorm) for model in models)
    assert [model.projection[0].out_features for model in models] == [7, 7, 7, 7]


def test_parts_are_shared_over_architectures() -> None:
    models = split_models(small_backbones(SHAPE, width=2), SHAPE, 5, latent=6)
    specs = tuple(map(ParamSpec.from_module, models))
    stacks = Stacks(
        specs,
        tuple(spec.flatten(model)[None] for spec, model in zip(specs, models, strict=True)),
        tuple(torch.tensor([k]) for k in range(4)),
    )
    for part, size in {"head": 35, "prototypes": 30, "projection": 42 + 12 + 42, "prototypes+projection": 126}.items():
        assert stacks.part(part).shape == (4, size)
        assert torch.equal(stacks.part(part)[0], stacks.part(part)[3])
    with raises("mismatch", "part 'backbone'"):
        stacks.part("backbone")


def test_ready_models_are_copied() -> None:
    ready = SplitModel(linear(6), SHAPE, 5)
    before = {name: value.clone() for name, value in ready.state_dict().items()}
    models = split_models([linear(6), ready], SHAPE, 5)
    assert same(state(models[0], backbone=False), state(models[1], backbone=False))
    assert same(state(models[1], backbone=True), state(ready, backbone=True))
    assert same(ready.state_dict(), before)
    assert models[1] is not ready


@pytest.mark.parametrize(
    ("backbones", "options", "wanted"),
    [
        ({"a": linear(6), "b": linear(7)}, {}, ("mismatch", "latent", "'a'", "'b'")),
        ([linear(6), linear(7)], {}, ("mismatch", "latent")),
        ({"a": SplitModel(linear(6), SHAPE, 4)}, {}, ("mismatch", "num_classes", "'a'")),
        ({"a": SplitModel(linear(6), SHAPE, 5)}, {"latent": 7}, ("mismatch", "latent", "'a'")),
        ([linear(6), SplitModel(linear(6), SHAPE, 5, projection=3)], {}, ("mismatch", "projection")),
        ([linear(6), SplitModel(linear(6), SHAPE, 5)], {"hidden": 8}, ("mismatch", "hidden")),
        ([linear(6), SplitModel(linear(6), SHAPE, 5, norm="layer")], {}, ("mismatch", "norm")),
        ([], {}, ("empty", "backbones")),
        ([nn.Linear(3, 3)], {}, ("contract", "backbone")),
    ],
)
def test_refuses(backbones: Any, options: dict[str, int], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        split_models(backbones, SHAPE, 5, **options)
