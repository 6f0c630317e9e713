from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks, build_model
from graphcollab.engine import SGD, Engine, LocalSteps, Rows, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.models.classifiers import ResNet9
from tests.raising import raises


def by_hand(channels: int, classes: int, width: int) -> int:
    """Weights of eight 3 x 3 convolutions, scale and shift of their outputs, and a linear layer."""
    w = width
    inputs = (channels, w, 2 * w, 2 * w, 2 * w, 4 * w, 8 * w, 8 * w)
    outputs = (w, 2 * w, 2 * w, 2 * w, 4 * w, 8 * w, 8 * w, 8 * w)
    return sum(9 * i * o + 2 * o for i, o in zip(inputs, outputs, strict=True)) + 8 * w * classes + classes


@pytest.mark.parametrize(
    ("shape", "classes", "width", "count"),
    [
        ((3, 32, 32), 100, 64, 6_619_300),  # CoBo's 6.62 M
        ((3, 32, 32), 10, 64, 6_573_130),
        ((1, 28, 28), 10, 64, 6_571_978),
        ((1, 28, 28), 10, 8, 103_810),
    ],
)
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_parameter_count(shape: tuple[int, ...], classes: int, width: int, count: int, norm: str) -> None:
    model = build_model("resnet9", shape, classes, width=width, norm=norm)
    assert sum(p.numel() for p in model.parameters()) == count == by_hand(shape[0], classes, width)


@pytest.mark.parametrize(("shape", "last"), [((3, 32, 32), 4), ((1, 28, 28), 3), ((1, 8, 8), 1), ((3, 8, 41), (1, 5))])
def test_shapes(shape: tuple[int, ...], last: Any) -> None:
    model = build_model("resnet9", shape, 7, width=2)
    assert [name for name, _ in model.named_children()] == ["backbone", "head"]
    seen = []
    model.backbone[-2].register_forward_hook(lambda _, inputs, __: seen.append(tuple(inputs[0].shape)))
    assert model(torch.randn(5, *shape)).shape == (5, 7)
    assert seen == [(5, 16, *(last if isinstance(last, tuple) else (last, last)))]
    assert model.backbone(torch.randn(5, *shape)).shape == (5, 16)


def test_values_and_gradients_are_those_of_the_usual_form() -> None:
    model, inputs = ResNet9((3, 32, 32), 5, width=2, norm="batch"), torch.randn(4, 3, 32, 32)
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]

    def block(x, n, pool=False):
        x = F.conv2d(x, convolutions[n].weight, padding=1)
        x = F.relu(F.batch_norm(x, None, None, norms[n].weight, norms[n].bias, training=True))
        return F.max_pool2d(x, 2) if pool else x

    out = block(block(inputs, 0), 1, pool=True)
    out = out + block(block(out, 2), 3)
    out = block(block(out, 4, pool=True), 5, pool=True)
    out = out + block(block(out, 6), 7)
    out = model.head(F.max_pool2d(out, 4).flatten(1))
    assert torch.allclose(model(inputs), out, atol=1e-5)
    expected = torch.autograd.grad(out.square().sum(), list(model.parameters()))
    got = torch.autograd.grad(model(inputs).square().sum(), list(model.parameters()))
    for one, other in zip(got, expected, strict=True):
        assert one.abs().max() > 0
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-4)


def test_normalizes_by_groups_and_has_no_buffers() -> None:
    model = ResNet9((3, 32, 32), 10, width=16)
    norms = [m for m in model.modules() if isinstance(m, nn.GroupNorm)]
    assert [(m.num_channels, m.num_groups) for m in norms] == [
        (16, 1), (32, 2), (32, 2), (32, 2), (64, 4), (128, 8), (128, 8), (128, 8),
    ]  # fmt: skip
    assert list(model.buffers()) == []
    inputs = torch.randn(4, 3, 32, 32)
    assert torch.allclose(model(inputs)[:1], model(inputs[:1]), atol=1e-5)


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_backends_agree(norm: Any) -> None:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(n, 1, 8, 8, generator=draw), torch.randint(3, (n,), generator=draw)) for n in (6, 4, 8)]
    tasks = Tasks.from_samples(samples, samples)
    pools = {name: type(pool)(pool.inputs.double(), pool.targets) for name, pool in tasks.pools.items()}
    tasks = Tasks(pools, tasks.splits)
    module = ResNet9((1, 8, 8), 3, width=2, norm=norm).double()
    spec = ParamSpec.from_module(module)
    models = Stacks.single(spec, spec.flatten(module).repeat(3, 1))
    fitted = []
    for backend in ("vmap", "loop"):
        engine = Engine(tasks, [module], [spec], backend=backend)
        fit = engine.fit(Rows.own(models), LocalSteps(2, None, 4, SGD(lr=0.1)), seed=0, round_=1)
        fitted.append(fit.models.tensors[0])
    assert not torch.equal(fitted[0], models.tensors[0])
    torch.testing.assert_close(*fitted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"input_shape": (0, 32, 32)}, ("value", "input_shape", "at least 1")),
        ({"num_classes": 0}, ("value", "num_classes", "at least 1")),
        ({"width": 0}, ("value", "width", "at least 1")),
        ({"input_shape": (3, 7, 7)}, ("shape", "input_shape", "(7, 7)", "8 x 8")),
        ({"input_shape": (3, 32, 7)}, ("shape", "input_shape", "(32, 7)")),
        ({"norm": "layer"}, ("value", "norm", "'layer'")),
    ],
)
def test_refuses(arguments: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        ResNet9(**{"input_shape": (3, 32, 32), "num_classes": 10, **arguments})
