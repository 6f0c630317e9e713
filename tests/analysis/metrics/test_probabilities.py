from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss as cross_entropy

from graphcollab.analysis.metrics.probabilities import brier, ece, log_loss
from tests.raising import raises


def logits(*rows: list[float]) -> torch.Tensor:
    """Return logits [1, n, C] of probabilities."""
    return torch.tensor([rows], dtype=torch.float64).log()


def test_by_hand_with_three_classes() -> None:
    outputs, targets = logits([0.5, 0.25, 0.25], [0.1, 0.1, 0.8]), torch.tensor([[0, 1]])
    # (0.25 + 0.0625 + 0.0625 + 0.01 + 0.81 + 0.64) / 2
    assert brier(outputs, targets).tolist() == pytest.approx([0.9175])
    assert log_loss(outputs, targets).tolist() == pytest.approx([(math.log(2) + math.log(10)) / 2])
    # one sample in the bin of 0.5, predicted rightly; one in the bin of 0.8, predicted wrongly
    assert ece(outputs, targets).tolist() == pytest.approx([(0.5 + 0.8) / 2])


def test_one_logit_and_two_are_the_same_binary_task() -> None:
    p = torch.tensor([[0.25, 0.75, 0.5]], dtype=torch.float64)
    one, targets = torch.logit(p), torch.tensor([[0.0, 1.0, 1.0]])
    for outputs in (one, one.unsqueeze(2), logits(*[[1 - q, q] for q in p[0].tolist()])):
        assert brier(outputs, targets).tolist() == pytest.approx([(0.0625 + 0.0625 + 0.25) / 3])
        assert log_loss(outputs, targets).tolist() == pytest.approx([(2 * math.log(4 / 3) + math.log(2)) / 3])
    assert brier(one.unsqueeze(2), targets.unsqueeze(2)).tolist() == pytest.approx([0.125])


def test_samples_of_one_bin_are_compared_together() -> None:
    # confidences 0.62, 0.64 lie in (9/15, 10/15]: mean 0.63, half of them right; 0.9 lies in (13/15, 14/15], right
    outputs = logits([0.62, 0.38], [0.64, 0.36], [0.1, 0.9])
    assert ece(outputs, torch.tensor([[0, 1, 1]])).tolist() == pytest.approx([(2 * 0.13 + 0.1) / 3])


def test_calibration_error_is_zero_where_models_are_sure_and_right() -> None:
    outputs = torch.tensor([[[100.0, 0.0], [0.0, 100.0]]])
    assert ece(outputs, torch.tensor([[0, 1]])).tolist() == [0.0]
    assert ece(outputs, torch.tensor([[1, 0]])).tolist() == [1.0]


def test_classes_at_every_pixel() -> None:
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(2, 4, 3, 5, generator=generator)  # [R, n, C, pixels]
    targets = torch.randint(0, 3, (2, 4, 5), generator=generator)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    flat = outputs.transpose(2, 3).flatten(1, 2), targets.flatten(1), mask.repeat_interleave(5, 1)
    for metric in (brier, ece, log_loss):
        assert metric(outputs, targets, mask).tolist() == pytest.approx(metric(*flat).tolist())


@pytest.mark.parametrize("classes", [2, 4])
def test_against_scikit_learn(classes: int) -> None:
    generator = torch.Generator().manual_seed(classes)
    outputs = torch.randn(3, 50, classes, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, classes, (3, 50), generator=generator)
    labels = list(range(classes))
    for row, chances in enumerate(outputs.softmax(2)):
        known, judged = targets[row].numpy(), (chances[:, 1] if classes == 2 else chances).numpy()
        wanted = (
            brier_score_loss(known, judged)
            if classes == 2
            else float((chances - torch.eye(classes)[targets[row]]).square().sum(1).mean())
        )
        assert float(brier(outputs, targets)[row]) == pytest.approx(wanted)
        assert float(log_loss(outputs, targets)[row]) == pytest.approx(
            cross_entropy(known, chances.numpy(), labels=labels)
        )


def test_calibration_error_against_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = 2 * torch.randn(1, 200, 3, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (1, 200), generator=generator)
    confidence, predicted = outputs[0].softmax(1).max(1)
    wanted = 0.0
    for b in range(15):
        inside = (confidence > b / 15) & (confidence <= (b + 1) / 15)
        if bool(inside.any()):
            right = (predicted == targets[0])[inside].double().mean()
            wanted += float(inside.double().mean() * (right - confidence[inside].mean()).abs())
    assert ece(outputs, targets).tolist() == pytest.approx([wanted])


def test_what_is_no_class_is_refused() -> None:
    with raises("range", "targets"):
        brier(torch.zeros(1, 2), torch.tensor([[0, 2]]))
    with raises("shape", "outputs"):
        ece(torch.zeros(1, 2, 3, 5), torch.zeros(1, 2))
    with raises("range", "targets"):
        log_loss(torch.zeros(1, 1, 3), torch.tensor([[0.5]]))
