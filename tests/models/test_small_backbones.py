from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks
from graphcollab.engine import SGD, Engine, LocalSteps, Objective, Rows, Stacks, SupervisedContrast
from graphcollab.engine.contrastive import PrototypeContrast
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import SplitModel, small_backbones, split_models
from graphcollab.models.backbones import small_backbone
from tests.raising import raises

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


def by_hand(shape: tuple[int, int, int], w: int) -> dict[str, int]:
    """Weights and biases layer by layer; a normalized convolution has no bias but scale and shift of its outputs."""
    c, height, width = shape
    return {
        "mlp": (c * height * width + 1) * 8 * w + (8 * w + 1) * 8 * w,
        "cnn": (25 * c + 1) * w + (9 * w + 1) * 2 * w,
        "resnet": 9 * c * w + 2 * w + 2 * (9 * w * w + 2 * w) + 9 * w * 2 * w + 4 * w,
        "shufflenet": (9 * c * w + 2 * w)  # first convolution
        + (9 * w + 2 * w + w * w + 2 * w)  # shortcut: depthwise, pointwise
        + 2 * (w * w + 2 * w) + 9 * w + 2 * w  # branch with stride 2: pointwise, depthwise, pointwise
        + 2 * (w * w + 2 * w) + 9 * w + 2 * w,  # unit with stride 1, on half of 2 w channels
    }  # fmt: skip


def relu_norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, relu: bool = True) -> torch.Tensor:
    mean, variance = x.mean((1, 2, 3), keepdim=True), x.var((1, 2, 3), unbiased=False, keepdim=True)
    x = (x - mean) / (variance + 1e-5).sqrt() * scale[:, None, None] + shift[:, None, None]
    return x.relu() if relu else x


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        ((1, 8, 8), (24_832, 5_056, 9_520, 2_144)),
        ((1, 28, 28), (116_992, 5_056, 9_520, 2_144)),
        ((3, 32, 32), (409_856, 5_856, 9_808, 2_432)),
    ],
)
def test_parameter_counts(shape: tuple[int, int, int], counts: tuple[int, ...]) -> None:
    made = {name: sum(p.numel() for p in m.parameters()) for name, m in small_backbones(shape).items()}
    assert made == dict(zip(("mlp", "cnn", "resnet", "shufflenet"), counts, strict=True)) == by_hand(shape, 16)
    made = {name: sum(p.numel() for p in m.parameters()) for name, m in small_backbones(shape, width=3).items()}
    assert made == by_hand(shape, 3)


@pytest.mark.parametrize(
    ("shape", "features"),
    [((1, 8, 8), 128), ((1, 28, 28), 1568), ((3, 32, 32), 2048), ((3, 4, 4), 32), ((1, 7, 13), 192)],
)
def test_shapes(shape: tuple[int, int, int], features: int) -> None:
    inputs = torch.randn(3, *shape)
    sizes = {name: m(inputs).shape for name, m in small_backbones(shape).items()}
    if shape == (1, 7, 13):  # convolutions round up, pooling rounds down: 2 x 4 places and 2 x 3
        assert sizes.pop("resnet") == sizes.pop("shufflenet") == (3, 256)
    assert sizes.pop("mlp") == (3, 128)
    assert set(sizes.values()) == {(3, features)}


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_do_not_depend_on_each_other(shape: tuple[int, int, int]) -> None:
    inputs = torch.randn(4, *shape)
    for backbone in small_backbones(shape).values():
        assert list(backbone.buffers()) == []
        out = backbone(inputs)
        assert torch.allclose(backbone(inputs[:1]), out[:1], atol=1e-5)
        assert out.min() == 0  # all end with ReLU
        out.square().sum().backward()
        assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in backbone.parameters())


def test_residual_network_by_hand() -> None:
    backbone, x = small_backbone("resnet", (2, 6, 6), width=3), torch.randn(4, 2, 6, 6)
    for p in backbone.parameters():
        nn.init.normal_(p)
    w = list(backbone.parameters())
    a = relu_norm(F.conv2d(x, w[0], stride=2, padding=1), w[1], w[2])
    b = relu_norm(F.conv2d(a, w[3], padding=1), w[4], w[5])
    a = (a + relu_norm(F.conv2d(b, w[6], padding=1), w[7], w[8], relu=False)).relu()
    out = relu_norm(F.conv2d(a, w[9], stride=2, padding=1), w[10], w[11]).flatten(1)
    torch.testing.assert_close(backbone(x), out, rtol=1e-4, atol=1e-4)


def test_shuffled_network_by_hand() -> None:
    backbone, x = small_backbone("shufflenet", (2, 6, 6), width=3), torch.randn(4, 2, 6, 6)
    for p in backbone.parameters():
        nn.init.normal_(p)
    w = list(backbone.parameters())

    def layer(x: torch.Tensor, n: int, stride: int = 1, depthwise: bool = False) -> torch.Tensor:
        groups = x.shape[1] if depthwise else 1
        x = F.conv2d(x, w[3 * n], stride=stride, padding=1 if w[3 * n].shape[-1] == 3 else 0, groups=groups)
        return relu_norm(x, w[3 * n + 1], w[3 * n + 2], relu=not depthwise)

    def shuffle(x: torch.Tensor) -> torch.Tensor:  # torchvision's, for two groups
        return x.view(len(x), 2, x.shape[1] // 2, *x.shape[2:]).transpose(1, 2).reshape(x.shape)

    a = layer(x, 0, stride=2)
    left = layer(layer(a, 1, stride=2, depthwise=True), 2)
    right = layer(layer(layer(a, 3), 4, stride=2, depthwise=True), 5)
    a = shuffle(torch.cat((left, right), 1))
    left, right = a[:, :3], a[:, 3:]
    out = shuffle(torch.cat((left, layer(layer(layer(right, 6), 7, depthwise=True), 8)), 1)).flatten(1)
    torch.testing.assert_close(backbone(x), out, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize(
    ("objective", "trained"),
    [
        (None, {"backbone", "head"}),
        (SupervisedContrast() + PrototypeContrast(), {"backbone", "prototypes", "projection"}),
    ],
)
def test_backends_agree_on_four_architectures_at_once(
    objective: Objective | None, trained: set[str], norm: Any
) -> None:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(6, 1, 8, 8, generator=draw), torch.randint(3, (6,), generator=draw)) for _ in range(8)]
    tasks = Tasks.from_samples(samples, samples)
    pools = {name: type(pool)(pool.inputs.double(), pool.targets) for name, pool in tasks.pools.items()}
    tasks = Tasks(pools, tasks.splits)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)  # of two channels, all may be dead by chance
        backbones = {name: m.double() for name, m in small_backbones((1, 8, 8), width=2).items()}
        modules = split_models(backbones, (1, 8, 8), 3, latent=4, norm=norm)
    specs = tuple(ParamSpec.from_module(module) for module in modules)
    rows = tuple(spec.flatten(module).repeat(2, 1) for spec, module in zip(specs, modules, strict=True))
    models = Stacks(specs, rows, tuple(torch.tensor([a, a + 4]) for a in range(4)))
    assert models.part("head").shape == (8, 15)
    fitted = []
    for backend in ("vmap", "loop"):
        engine = Engine(tasks, modules, specs, backend=backend)
        steps = LocalSteps(2, None, 3, SGD(lr=0.1))
        fitted.append(engine.fit(Rows.own(models), steps, seed=0, round_=1, objective=objective).models)
    for a in range(4):
        change = fitted[0].tensors[a] - models.tensors[a]
        assert {part for part in SplitModel.parts if change[:, specs[a].columns(part)].any()} == trained
        torch.testing.assert_close(fitted[0].tensors[a], fitted[1].tensors[a], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"name": "resnet18"}, ("unknown", "backbone", "'resnet18'", "'resnet'")),
        ({"name": "CNN"}, ("unknown", "backbone", "'cnn'")),
        ({"width": 0}, ("value", "width")),
        ({"input_shape": (0, 8, 8)}, ("value", "input_shape")),
        ({"input_shape": (1, 3, 8)}, ("shape", "input_shape")),
        ({"input_shape": (64,)}, ("shape", "input_shape", "64")),
    ],
)
def test_refuses(arguments: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        small_backbone(**{"name": "cnn", "input_shape": (1, 8, 8), **arguments})
