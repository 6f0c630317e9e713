from __future__ import annotations

import pytest
import torch
from sklearn.metrics import r2_score, root_mean_squared_error

from graphcollab.analysis.metrics.errors import mae, mse, r2, rmse
from tests.raising import raises


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
    with raises("shape", "outputs"):
        mse(torch.zeros(1, 2, 3), torch.zeros(1, 2))


def test_large_targets_keep_their_precision() -> None:
    assert mse(torch.tensor([[16777216.0]]), torch.tensor([[16777217]])).tolist() == [1.0]


def test_smaller_is_better() -> None:
    assert (mse.name, mse.higher_is_better) == ("mse", False)
    assert (mae.name, mae.higher_is_better) == ("mae", False)


def test_rmse_by_hand() -> None:
    outputs = torch.tensor([[1.0, -1.0, 5.0]])
    assert rmse(outputs, torch.zeros(1, 3), torch.tensor([[True, True, False]])).tolist() == [1.0]
    assert rmse(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).tolist() == pytest.approx([12.5**0.5])
    assert (rmse.higher_is_better, r2.higher_is_better) == (False, True)


def test_r2_by_hand() -> None:
    targets = torch.tensor([[1.0, 3.0, 9.0], [2.0, 2.0, 2.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    # variance around the mean 2 sums up to 2, the errors to 0.5
    found = r2(torch.tensor([[1.5, 2.5, 0.0], [2.0, 2.0, 2.0]]), targets, mask)
    assert found[0] == pytest.approx(0.75)
    assert found.isnan().tolist() == [False, True]


def test_r2_of_targets_that_are_nearly_the_same() -> None:
    assert r2(torch.full((1, 3), 0.1), torch.full((1, 3), 1e8 / 3)).isnan().all()
    close = torch.tensor([[1e8, 1e8 + 1]], dtype=torch.float64)
    assert r2(close, close).tolist() == [1.0]


def test_errors_against_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(5)
    outputs, targets = torch.randn(2, 2, 30, 3, generator=generator, dtype=torch.float64)
    for row in range(2):
        one, other = outputs[row].numpy(), targets[row].numpy()
        assert float(r2(outputs, targets)[row]) == pytest.approx(r2_score(other, one))
        wanted = root_mean_squared_error(other[:, 0], one[:, 0])
        assert float(rmse(outputs[..., 0], targets[..., 0])[row]) == pytest.approx(wanted)
