from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from graphcollab._base.typing import Embedded
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import SplitModel
from tests.raising import raises

SHAPE = (2, 3, 3)


def linear(features: int, shape: tuple[int, ...] = SHAPE) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(int(torch.Size(shape).numel()), features))


class Says(nn.Module):
    """A backbone without parameters that returns what it was told to."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, inputs: Tensor) -> Any:
        return self.answer(inputs)


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
@pytest.mark.parametrize("latent", [None, 7])
def test_is_what_it_says(norm: Any, latent: int | None) -> None:
    model = SplitModel(linear(5), SHAPE, 4, latent=latent, projection=3, hidden=6, norm=norm)
    inputs, weights = torch.randn(8, *SHAPE), dict(model.named_parameters())
    first = "backbone.1" if latent is None else "backbone.features.1"
    z = F.linear(inputs.flatten(1), weights[f"{first}.weight"], weights[f"{first}.bias"])
    if latent is not None:
        z = F.relu(F.linear(z, weights["backbone.latent.weight"], weights["backbone.latent.bias"]))
    h = F.linear(z, weights["projection.0.weight"], weights["projection.0.bias"])
    if norm == "batch":
        h = (h - h.mean(0)) / (h.var(0, unbiased=False) + 1e-5).sqrt()
    if norm == "layer":
        h = (h - h.mean(1, keepdim=True)) / (h.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    p = F.linear(F.relu(h), weights["projection.3.weight"], weights["projection.3.bias"])
    logits = F.linear(z, weights["head.weight"], weights["head.bias"])

    out = model(inputs, embed=True)
    assert isinstance(out, Embedded)
    for got, expected in zip(out, (logits, z, p), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(model(inputs), out.logits)
    assert model.prototypes.shape == (4, 3)


def test_sizes_follow_the_latent() -> None:
    model = SplitModel(linear(5), SHAPE, 4)
    assert [tuple(p.shape) for p in model.projection.parameters()] == [(5, 5), (5,), (5,), (5,), (5, 5), (5,)]
    assert (model.prototypes.shape, model.head.weight.shape) == ((4, 5), (4, 5))


def test_columns_are_in_the_order_of_parts() -> None:
    model = SplitModel(linear(5), SHAPE, 4, latent=6, projection=3, hidden=7)
    spec = ParamSpec.from_module(model)
    backbone = 18 * 5 + 5 + 5 * 6 + 6
    prototypes = backbone + 4 * 3
    projection = prototypes + 6 * 7 + 7 + 7 + 7 + 7 * 3 + 3
    head = projection + 6 * 4 + 4
    assert spec.parts == {
        "backbone": (0, backbone),
        "prototypes": (backbone, prototypes),
        "projection": (prototypes, projection),
        "head": (projection, head),
        "all": (0, head),
        "buffers": (head, head + 7 + 7 + 1),
    }
    assert "buffers" not in ParamSpec.from_module(SplitModel(linear(5), SHAPE, 4, norm="layer")).parts
    assert torch.equal(spec.flatten(model)[spec.columns("prototypes")], model.prototypes.detach().flatten())


def test_prototypes_begin_as_a_linear_layer() -> None:
    model = SplitModel(linear(400), SHAPE, 50)
    assert isinstance(model.prototypes, nn.Parameter)
    size = model.prototypes.detach().abs()
    assert size.max() <= 0.05  # 1 / sqrt(400)
    assert size.max() > 0.0499
    assert float(size.mean()) == pytest.approx(0.025, rel=0.02)


def test_outputs_of_any_shape_are_flattened() -> None:
    inputs = torch.randn(4, *SHAPE)
    model = SplitModel(nn.Conv2d(2, 5, 2), SHAPE, 3, norm="none")
    assert model(inputs, embed=True).latent.shape == (4, 20)
    assert torch.equal(model(inputs, embed=True).latent, model.backbone(inputs).flatten(1))
    small = SplitModel(nn.Conv2d(2, 5, 2), SHAPE, 3, latent=6)(inputs, embed=True)
    assert small.latent.shape == small.projection.shape == (4, 6)
    assert small.latent.min() == 0  # ReLU


def test_number_types_follow_the_backbone() -> None:
    model = SplitModel(linear(5).double(), SHAPE, 3, latent=4)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert model(torch.zeros(2, *SHAPE, dtype=torch.float64), embed=True).projection.dtype == torch.float64


def test_a_backbone_can_read_whole_numbers_and_have_no_parameters() -> None:
    words = SplitModel(nn.Embedding(9, 4), (6,), 3, dtype=torch.int64)
    assert words(torch.zeros(5, 6, dtype=torch.int64), embed=True).latent.shape == (5, 24)
    assert SplitModel(nn.Flatten(), SHAPE, 3).head.in_features == 18


def test_looking_at_the_backbone_changes_nothing() -> None:
    backbone = nn.Sequential(nn.Conv2d(2, 4, 2), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten())
    backbone[1].eval()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    torch.manual_seed(0)
    model = SplitModel(backbone, SHAPE, 3)
    after = torch.rand(1)
    assert [child.training for child in backbone] == [True, False, True, True]
    assert backbone.training
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())
    torch.manual_seed(0)
    nn.Linear(16, 3, bias=False), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 3)
    assert torch.equal(after, torch.rand(1))  # nothing was drawn but initial parameters
    assert model.training


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_rows_are_computed_together(norm: Any) -> None:
    models = [SplitModel(linear(5), SHAPE, 4, latent=6, norm=norm).double() for _ in range(3)]
    spec = ParamSpec.from_module(models[0])
    inputs = torch.randn(3, 8, *SHAPE, dtype=torch.float64)
    rows = torch.stack([spec.flatten(model) for model in models])
    views = [view.clone().requires_grad_(n < spec.num_named_parameters) for n, view in enumerate(spec.views(rows))]

    def one(views: list[Tensor], batch: Tensor) -> Embedded:
        out: Embedded = functional_call(models[0], dict(zip(spec.names, views, strict=True)), (batch, True))
        return out

    together = vmap(one)(views, inputs)
    assert isinstance(together, Embedded)
    separate = [model(batch, embed=True) for model, batch in zip(models, inputs, strict=True)]
    for got, expected in zip(together, map(torch.stack, zip(*separate, strict=True)), strict=True):
        torch.testing.assert_close(got, expected)
    params = views[: spec.num_named_parameters]
    got = torch.autograd.grad(sum(part.square().sum() for part in together), params, materialize_grads=True)
    for m, model in enumerate(models):
        sum(part.square().sum() for part in separate[m]).backward()
        for name, gradient in zip(spec.names, got, strict=False):
            own = dict(model.named_parameters())[name].grad
            torch.testing.assert_close(gradient[m], torch.zeros_like(gradient[m]) if own is None else own)
    buffers = dict(zip(spec.names, views, strict=True))
    for name, value in models[1].named_buffers():  # running statistics have moved alike
        torch.testing.assert_close(buffers[name][1].to(value.dtype), value)


@pytest.mark.parametrize("size", ["num_classes", "latent", "projection", "hidden"])
def test_refuses_sizes(size: str) -> None:
    with raises("value", size, "got 0"):
        SplitModel(linear(5), SHAPE, **{"num_classes": 3, size: 0})


def test_refuses_what_it_does_not_know() -> None:
    with raises("value", "norm", "'batch'", "'layer'", "'none'", "'group'"):
        SplitModel(linear(5), SHAPE, 3, norm="group")  # type: ignore[arg-type]
    with raises("value", "backbone", "'resnet18'"):
        SplitModel("resnet18", SHAPE, 3)  # type: ignore[arg-type]
    with raises("value", "input_shape"):
        SplitModel(linear(5), (0, 3), 3)


def test_refuses_a_backbone_for_other_samples() -> None:
    backbone = linear(5, (1, 4, 4)).train()
    with raises("contract", "backbone"):
        SplitModel(backbone, SHAPE, 3)
    assert backbone.training


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        (lambda x: (x, x), "tuple"),
        (lambda x: x.sum(), "()"),
        (lambda x: x.flatten(1).sum(1), "(2,)"),
        (lambda x: x.transpose(0, 2), ""),
        (lambda x: x[:1], "(1, "),
        (lambda x: x[:, :0], "(2, 0"),
    ],
)
def test_refuses_outputs(answer: Any, got: str) -> None:
    with raises("contract", "backbone", got):
        SplitModel(Says(answer), SHAPE, 3)
