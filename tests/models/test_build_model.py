from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from graphcollab import build_model
from graphcollab.models import MODELS
from tests.raising import raises

IMAGE = (3, 16, 16)


def test_names() -> None:
    assert list(MODELS) == ["mlp", "fedavg_cnn", "maml_cnn", "small_cnn", "resnet9", "split_model"]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_a_head_on_a_backbone(name: str) -> None:
    model, inputs = build_model(name, IMAGE, 7), torch.randn(5, *IMAGE)
    children = [child for child, _ in model.named_children()]
    assert (children[0], children[-1]) == ("backbone", "head")
    assert isinstance(model.head, nn.Linear)
    assert model(inputs).shape == (5, 7)
    assert torch.equal(model(inputs), model.head(model.backbone(inputs)))  # type: ignore[operator]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_stacked(name: str) -> None:
    models = [build_model(name, IMAGE, 7) for _ in range(3)]
    inputs = torch.randn(3, 4, *IMAGE)
    stacked = {
        key: torch.stack([dict(m.named_parameters())[key] for m in models]) for key, _ in models[0].named_parameters()
    }
    together = vmap(lambda parameters, batch: functional_call(models[0], parameters, (batch,)))(stacked, inputs)
    separate = torch.stack([model(batch) for model, batch in zip(models, inputs, strict=True)])
    assert torch.allclose(together, separate, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("mlp", {"hidden": (20, 30)}, 768 * 20 + 20 + 20 * 30 + 30 + 30 * 7 + 7),
        ("maml_cnn", {"channels": 8}, 224 + 3 * 584 + 4 * 16 + 63),
        ("fedavg_cnn", {"padding": "same"}, 2432 + 51264 + 64 * 16 * 512 + 512 + 513 * 7),
        # linear layer to the latent, prototypes, projection with normalization, head
        (
            "split_model",
            {"backbone": "mlp", "width": 2, "latent": 5, "projection": 4, "hidden": 3},
            769 * 16 + 17 * 16 + 17 * 5 + 7 * 4 + 6 * 3 + 6 + 4 * 4 + 6 * 7,
        ),
    ],
)
def test_options_are_passed_on(name: str, options: dict[str, Any], count: int) -> None:
    assert sum(p.numel() for p in build_model(name, IMAGE, 7, **options).parameters()) == count


@pytest.mark.parametrize(
    ("name", "nearest"), [("MLP", "mlp"), ("FedAvgCNN", "fedavg_cnn"), ("maml-cnn", "maml_cnn"), ("cnn", "maml_cnn")]
)
def test_unknown_names_get_the_nearest(name: str, nearest: str) -> None:
    with raises("unknown", "model", repr(name), f"did you mean {nearest!r}"):
        build_model(name, IMAGE, 7)


def test_unknown_option() -> None:
    with raises("type", "depth", "'maml_cnn'", kind=TypeError):
        build_model("maml_cnn", IMAGE, 7, depth=3)


@pytest.mark.parametrize("name", ["fedavg_cnn", "maml_cnn", "small_cnn", "resnet9", "split_model"])
def test_a_cnn_refuses_what_is_not_an_image(name: str) -> None:
    with raises("shape", "input_shape", "64"):
        build_model(name, (64,), 10)


def test_small_images_are_told_what_to_do() -> None:
    with raises("shape", "input_shape", "16", "'valid'", "'same'"):
        build_model("fedavg_cnn", (1, 8, 8), 10)
    assert build_model("fedavg_cnn", (1, 8, 8), 10, padding="same")(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
