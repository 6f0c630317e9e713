from __future__ import annotations

import pytest
import torch
from sklearn.metrics import accuracy_score

from graphcollab.analysis.metrics.classification import accuracy
from tests.raising import raises


def test_three_rows_by_hand() -> None:
    logits = torch.tensor(
        [
            [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 9.0]],
            [[9.0, 9.0], [9.0, 9.0], [9.0, 9.0], [9.0, 9.0]],
        ]
    )
    targets = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    values = accuracy(logits, targets, mask)
    assert values.dtype == torch.float64
    assert values[:2].tolist() == [0.75, 0.5]
    assert bool(values[2].isnan())


def test_against_scikit_learn_on_unequal_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(5, 9, 4, generator=generator)
    targets = torch.randint(0, 4, (5, 9), generator=generator)
    sizes = [9, 1, 4, 7, 3]
    mask = torch.arange(9) < torch.tensor(sizes).view(-1, 1)
    expected = [accuracy_score(targets[r, :n], outputs[r, :n].argmax(-1)) for r, n in enumerate(sizes)]
    assert accuracy(outputs, targets, mask).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(1, 4), (1, 4, 1)])
def test_a_single_output_is_a_binary_logit(shape: tuple[int, ...]) -> None:
    outputs = torch.tensor([-1.0, 2.0, 3.0, -4.0]).view(shape)
    assert accuracy(outputs, torch.tensor([[0, 1, 0, 0]])).tolist() == [0.75]
    assert accuracy(outputs.view(1, 4, 1), torch.tensor([[[0.0], [1], [0], [0]]])).tolist() == [0.75]


def test_classes_stand_after_the_samples_as_in_cross_entropy() -> None:
    outputs = torch.zeros(1, 2, 3, 5)
    outputs[:, :, 2] = 1.0
    targets = torch.full((1, 2, 5), 2)
    targets[0, 0, 0] = 1
    assert accuracy(outputs, targets).tolist() == [0.9]


def test_shapes_that_do_not_belong_together() -> None:
    with raises("shape", "outputs"):
        accuracy(torch.zeros(2, 3, 4), torch.zeros(2, 5))
    with raises("shape", "outputs"):
        accuracy(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))
