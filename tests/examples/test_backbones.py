from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.engine import SGD, Engine, LocalSteps, Rows, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import mapl
from graphcollab.models import split_models
from graphcollab.models.layers import replace_batch_norm
from tests.raising import raises

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "benchmark"))
torchvision_backbone, torchvision_backbones = (
    getattr(importlib.import_module("_backbones"), name) for name in ("torchvision_backbone", "torchvision_backbones")
)
sys.path.pop(0)
NAMES = ["googlenet", "shufflenet", "resnet18", "alexnet"]


def conv(fan_in: int, fan_out: int, kernel: int, groups: int = 1) -> int:
    """Weights of a convolution, scale and shift of its outputs' normalization."""
    return fan_in // groups * fan_out * kernel**2 + 2 * fan_out


def inception(fan_in: int, a: int, b: int, c: int, d: int, e: int, f: int) -> int:
    """Four branches: 1 x 1 to a; 1 x 1 to b, 3 x 3 to c; 1 x 1 to d, 3 x 3 to e; pooling, 1 x 1 to f."""
    return sum([conv(fan_in, n, 1) for n in (a, b, d, f)]) + conv(b, c, 3) + conv(d, e, 3)


def googlenet(channels: int) -> int:
    """Table 1 of the paper, with 3 x 3 in place of 5 x 5 as torchvision has it."""
    return (
        conv(channels, 64, 3)
        + conv(64, 64, 1)
        + conv(64, 192, 3)
        + inception(192, 64, 96, 128, 16, 32, 32)
        + inception(256, 128, 128, 192, 32, 96, 64)
        + inception(480, 192, 96, 208, 16, 48, 64)
        + inception(512, 160, 112, 224, 24, 64, 64)
        + inception(512, 128, 128, 256, 24, 64, 64)
        + inception(512, 112, 144, 288, 32, 64, 64)
        + inception(528, 256, 160, 320, 32, 128, 128)
        + inception(832, 256, 160, 320, 32, 128, 128)
        + inception(832, 384, 192, 384, 48, 128, 128)
    )


def shufflenet(channels: int) -> int:
    """Stages of 4, 8 and 4 units to 116, 232 and 464 channels; the first unit of each has stride 2."""
    count, before = conv(channels, 24, 3) + conv(464, 1024, 1), 24
    for after, units in ((116, 4), (232, 8), (464, 4)):
        half = after // 2
        count += conv(before, before, 3, before) + conv(before, half, 1)  # shortcut
        count += conv(before, half, 1) + conv(half, half, 3, half) + conv(half, half, 1)
        count += (units - 1) * (2 * conv(half, half, 1) + conv(half, half, 3, half))
        before = after
    return count


def resnet18(channels: int) -> int:
    """Four stages of two blocks of two convolutions; all but the first begin by doubling the channels."""
    count = conv(channels, 64, 3) + 4 * conv(64, 64, 3)
    for n in (64, 128, 256):
        count += conv(n, 2 * n, 3) + 3 * conv(2 * n, 2 * n, 3) + conv(n, 2 * n, 1)
    return count


def alexnet(channels: int) -> int:
    return sum(
        i * o * k**2 + o for i, o, k in ((channels, 64, 3), (64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3))
    )


@pytest.mark.parametrize(
    ("name", "by_hand", "gray", "color"),
    [
        ("googlenet", googlenet, 5_591_072, 5_592_224),
        ("shufflenet", shufflenet, 1_253_172, 1_253_604),
        ("resnet18", resnet18, 11_167_680, 11_168_832),
        ("alexnet", alexnet, 2_447_040, 2_448_192),
    ],
)
def test_parameter_counts(name: str, by_hand: Any, gray: int, color: int) -> None:
    for channels, count in ((1, gray), (3, color)):
        backbone = torchvision_backbone(name, channels)
        assert sum(p.numel() for p in backbone.parameters()) == count == by_hand(channels)


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (3, 15)])
def test_small_images_pass_forward_and_backward(channels: int, side: int) -> None:
    features = {"googlenet": 1024, "shufflenet": 1024, "resnet18": 512, "alexnet": {28: 1024, 32: 2304, 15: 256}[side]}
    backbones = torchvision_backbones(channels)
    assert list(backbones) == NAMES
    for name, backbone in backbones.items():
        out = backbone(torch.randn(2, channels, side, side))
        assert out.shape == (2, features[name])
        assert out.isfinite().all()
        out.square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())


@pytest.mark.parametrize(("name", "side"), [("googlenet", 4), ("shufflenet", 4), ("resnet18", 4), ("alexnet", 3)])
def test_last_images(name: str, side: int) -> None:
    backbone, seen = torchvision_backbone(name), []
    last = [m for m in backbone.modules() if isinstance(m, nn.Conv2d | nn.MaxPool2d)][-1]
    last.register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape[-2:])))
    backbone.eval()(torch.randn(1, 3, 32, 32))
    assert seen == [(side, side)]


def test_draws_nothing_in_training() -> None:
    for backbone in torchvision_backbones(1).values():
        assert not [m for m in backbone.modules() if isinstance(m, nn.Dropout)]
        assert not [m for m in backbone.modules() if isinstance(m, nn.Linear)]
        before = torch.get_rng_state()
        backbone(torch.randn(2, 1, 28, 28, generator=torch.Generator()))
        assert torch.equal(before, torch.get_rng_state())


def test_initial_parameters_follow_the_seed() -> None:
    for name in NAMES:
        rows = []
        for _ in range(2):
            torch.manual_seed(3)
            rows.append(torch.nn.utils.parameters_to_vector(torchvision_backbone(name, 1).parameters()))
        assert torch.equal(*rows)
        assert rows[0].isfinite().all()
    layers = [m for m in torchvision_backbone("alexnet").modules() if isinstance(m, nn.Conv2d)]
    for layer in layers:  # PyTorch's initial parameters are uniform within 1 / sqrt(fan in)
        bound = layer.weight[0].numel() ** -0.5
        assert 0.99 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert float(layer.weight.detach().abs().mean()) == pytest.approx(bound / 2, rel=0.05)
        assert 0.8 * bound < float(layer.bias.detach().abs().max()) <= bound


def test_batch_normalization_can_be_replaced() -> None:
    backbone = replace_batch_norm(torchvision_backbone("shufflenet", 1))
    assert list(backbone.buffers()) == []
    inputs = torch.randn(2, 1, 28, 28)
    assert torch.allclose(backbone(inputs)[:1], backbone(inputs[:1]), atol=1e-4)


@pytest.mark.slow
def test_backends_agree_on_four_architectures() -> None:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(2, 1, 15, 15, generator=draw), torch.randint(3, (2,), generator=draw)) for _ in range(8)]
    tasks = Tasks.from_samples(samples, samples)
    pools = {name: type(pool)(pool.inputs.double(), pool.targets) for name, pool in tasks.pools.items()}
    tasks = Tasks(pools, tasks.splits)
    backbones = {name: m.double() for name, m in torchvision_backbones(1).items()}
    modules = split_models(backbones, (1, 15, 15), 3, latent=16)
    specs = tuple(ParamSpec.from_module(module) for module in modules)
    rows = tuple(spec.flatten(module).repeat(2, 1) for spec, module in zip(specs, modules, strict=True))
    models = Stacks(specs, rows, tuple(torch.tensor([a, a + 4]) for a in range(4)))
    fitted = []
    for backend in ("vmap", "loop"):
        engine = Engine(tasks, modules, specs, backend=backend)
        fit = engine.fit(Rows.own(models), LocalSteps(1, None, 2, SGD(lr=0.001)), seed=0, round_=1)
        fitted.append(fit.models)
    for a in range(4):
        assert not torch.equal(fitted[0].tensors[a], models.tensors[a])
        torch.testing.assert_close(fitted[0].tensors[a], fitted[1].tensors[a], rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_the_architectures_of_torchvision_play_a_round() -> None:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(8, 1, 28, 28, generator=draw), torch.arange(8) % 2 + k % 2) for k in range(4)]
    tasks = Tasks.from_samples(samples, val_fraction=0.25)

    def build() -> list[Any]:
        return split_models(torchvision_backbones(1), (1, 28, 28), 3, latent=16)

    result = run(
        mapl(warmup=0, batch_size=8, augment=None),
        tasks,
        build,
        architecture=range(4),
        rounds=1,
        seed=0,
    )
    assert all(bool(tensor.isfinite().all()) for tensor in result.data.x.tensors)
    before, after = result.data.x_init.part("prototypes"), result.data.x.part("prototypes")
    assert not torch.equal(before, after)
    assert float((after[0] - after[1]).abs().max()) < float((after - before).abs().max())  # mixed over all four
    head, prototypes = result.data.x.part("head").shape[1], after.shape[1]
    assert result.data.bytes_sent.tolist() == [3 * 4 * (head + prototypes)] * 4


def test_refuses() -> None:
    with raises("unknown", "backbone", "'resnet'", "'resnet18'"):
        torchvision_backbone("resnet")
    with raises("value", "in_channels"):
        torchvision_backbones(0)
    with raises("contract", "backbone", "14"):
        split_models({"alexnet": torchvision_backbone("alexnet", 1)}, (1, 14, 14), 3)
