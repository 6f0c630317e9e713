from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.engine.stack import ParamSpec
from graphcollab.nn.filters import filter_widths, layers_of, root_mean_square

SPEC = ParamSpec.from_module(nn.Sequential(nn.Conv2d(2, 3, 2), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(3, 4)))


def test_a_filter_is_a_row_of_the_weight_with_its_bias():
    widths = {
        layer: (channels, sum(w for _, w in pieces)) for layer, (channels, pieces) in layers_of(SPEC, "all").items()
    }
    assert widths == {"0": (3, 9), "1": (3, 2), "3": (4, 4)}
    assert filter_widths(SPEC, "all") == {"0": 9, "1": 2, "3": 4}


def test_size_of_a_layers_change():
    """Of the weight (1, 7) and the bias (5, 5) together: √((1 + 49 + 25 + 25) / 4) = 5."""
    spec = ParamSpec.from_module(nn.Linear(1, 2))
    [(channels, pieces)] = layers_of(spec, "all").values()
    change = torch.tensor([[1.0, 7.0, 5.0, 5.0], [-2.0, -14.0, 10.0, 10.0], [0.0, 0.0, 0.0, 0.0]])
    found = root_mean_square(change, channels, pieces)
    assert found[:2].tolist() == pytest.approx([5.0, 10.0])
    assert 0 < float(found[2]) < 1e-30
    assert (change[2] / found[2]).tolist() == [0.0] * 4


def test_layers_are_measured_apart():
    for layer, (channels, pieces) in layers_of(SPEC, "all").items():
        change = torch.zeros(1, SPEC.num_parameters)
        views = dict(zip(SPEC.names, SPEC.views(change[0]), strict=True))
        for name in ("weight", "bias"):
            views[f"{layer}.{name}"].fill_(3.0)
        found = {name: float(root_mean_square(change, *of)) for name, of in layers_of(SPEC, "all").items()}
        assert {name for name, size in found.items() if size > 1e-30} == {layer}
        assert found[layer] == pytest.approx(3.0)
        assert float(root_mean_square(change, channels, pieces)) == pytest.approx(3.0)
