from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from graphcollab.data.datasets.vision import digits
from tests.raising import raises


def test_sizes_and_values() -> None:
    data = digits()
    assert (len(data.train.inputs), len(data.test.inputs)) == (1347, 450)
    assert (data.input_shape, data.num_classes) == ((1, 8, 8), 10)
    assert data.class_names == tuple("0123456789")
    assert (data.train.inputs.min(), data.train.inputs.max()) == (0.0, 1.0)


def test_is_every_digit_exactly_once() -> None:
    data, loaded = digits(), load_digits()
    rows = torch.cat([data.train.inputs, data.test.inputs]).flatten(1) * 16
    together = torch.cat([rows, torch.cat([data.train.targets, data.test.targets])[:, None]], dim=1)
    original = torch.tensor(loaded.data).float()
    original = torch.cat([original, torch.tensor(loaded.target)[:, None]], dim=1)
    assert sorted(together.tolist()) == sorted(original.tolist())


def test_is_stratified() -> None:
    data = digits()
    shares = data.test.targets.bincount() / (data.train.targets.bincount() + data.test.targets.bincount())
    assert float((shares - 450 / 1797).abs().max()) < 0.005


def test_the_seed_decides() -> None:
    first, again, other = digits(seed=3), digits(seed=3), digits(seed=4)
    assert torch.equal(first.test.inputs, again.test.inputs)
    assert not torch.equal(first.test.targets, other.test.targets)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 450])
def test_refuses_shares(share: float) -> None:
    with raises("value", "test_fraction"):
        digits(test_fraction=share)
