from __future__ import annotations

import pytest
import torch

from graphcollab.metrics import mae, mse


def test_by_hand() -> None:
    outputs = torch.tensor([[1.0, -2.0, 4.0], [0.5, 7.0, 7.0]])
    targets = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert mse(outputs, targets, mask).tolist() == pytest.approx([14 / 3, 0.25])
    assert mae(outputs, targets, mask).tolist() == pytest.approx([2.0, 0.5])


def test_several_output_dimensions() -> None:
    outputs = torch.tensor([[[1.0, 3.0], [0.0, 0.0]]])
    assert mse(outputs, torch.zeros(1, 2, 2)).tolist() == [2.5]
    assert mae(outputs, torch.zeros(1, 2, 2), torch.tensor([[True, False]])).tolist() == [2.0]


def test_one_output_per_sample_is_not_broadcast() -> None:
    outputs = torch.tensor([[[1.0], [2.0]]])
    assert mse(outputs, torch.tensor([[1.0, 2.0]])).tolist() == [0.0]
    with pytest.raises(ValueError, match=r"mse: outputs and targets must have the same shape, got \[1, 2, 3\]"):
        mse(torch.zeros(1, 2, 3), torch.zeros(1, 2))


def test_large_targets_keep_their_precision() -> None:
    assert mse(torch.tensor([[16777216.0]]), torch.tensor([[16777217]])).tolist() == [1.0]


def test_smaller_is_better() -> None:
    assert (mse.name, mse.higher_is_better) == ("mse", False)
    assert (mae.name, mae.higher_is_better) == ("mae", False)
