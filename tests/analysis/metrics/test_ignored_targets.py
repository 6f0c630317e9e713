"""Metrics of classes leave out what the loss leaves out."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks, run
from graphcollab.analysis.metrics import METRICS
from graphcollab.analysis.metrics.bootstrap import bootstrap
from graphcollab.analysis.metrics.classification import accuracy
from graphcollab.analysis.metrics.probabilities import log_loss
from graphcollab.methods import local
from tests.raising import raises

OF_CLASSES = [metric for metric in METRICS.values() if metric.of_classes]
OUTPUTS = torch.randn(1, 12, 2, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[0, 1, -100, 1, 0, -100, 1, 1, 0, -100, 0, 1]])
KEPT = LABELS[0] >= 0


def test_by_hand() -> None:
    outputs = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]]])
    assert accuracy(outputs, torch.tensor([[0, 0, -100, -100]])).tolist() == [0.5]  # right, wrong
    assert accuracy(outputs[..., 1:] - 1, torch.tensor([[0, 0, -100, -100]])).tolist() == [0.5]
    sequences = torch.tensor([[[0, 1], [1, -100], [-100, -100]]])  # class 0 is predicted everywhere
    logits = torch.zeros(1, 3, 2, 2) + torch.tensor([1.0, 0.0])[:, None]
    assert accuracy(logits, sequences).tolist() == pytest.approx([1 / 3])
    weight = torch.tensor([[1.0, 3.0, 5.0]])
    assert accuracy(logits, sequences, weight=weight).tolist() == pytest.approx([1 / (1 + 1 + 3)])
    by_torch = F.cross_entropy(logits[0].double(), sequences[0])
    assert float(log_loss(logits, sequences)) == pytest.approx(float(by_torch))
    assert bool(accuracy(outputs, torch.full((1, 4), -100)).isnan().all())


@pytest.mark.parametrize("metric", OF_CLASSES, ids=lambda metric: metric.name)
def test_as_if_they_were_not_there(metric) -> None:
    weight = torch.rand(1, 12, generator=torch.Generator().manual_seed(1))
    kept = OUTPUTS[:, KEPT], LABELS[:, KEPT]
    for outputs in (OUTPUTS, OUTPUTS[..., 1:] - OUTPUTS[..., :1]):
        for own in (None, weight):
            expected = metric(outputs[:, KEPT], kept[1], weight=None if own is None else own[:, KEPT])
            torch.testing.assert_close(metric(outputs, LABELS, weight=own), expected)
            other = LABELS.masked_fill(LABELS < 0, 255)
            torch.testing.assert_close(metric.leaving_out(255)(outputs, other, weight=own), expected)
    with raises("range", "targets", metric.name, 255):
        metric(OUTPUTS, other)


@pytest.mark.parametrize(
    ("loss", "ignored"),
    [
        (nn.CrossEntropyLoss(), -100),
        (F.cross_entropy, -100),
        (nn.CrossEntropyLoss(ignore_index=255), 255),
        (partial(F.cross_entropy, ignore_index=-1), -1),
    ],
)
def test_scores_of_a_run(loss, ignored) -> None:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    y[::3] = ignored
    tasks = Tasks.from_samples([(x, y)] * 2, test=[(x, y)] * 2, loss=loss)
    result = run(local(lr=1.0, epochs=5), tasks, nn.Linear(4, 2), rounds=2)
    right = (result.outputs(0, x).argmax(1) == y)[y != ignored].double().mean()
    assert result.summary()["nodes"] == 2
    assert float(result.history.final("test_metric")[0]) == pytest.approx(float(right))
    scores = result.scores(OF_CLASSES)
    for metric in OF_CLASSES:
        kept = result.outputs(0, x)[None, y != ignored], y[None, y != ignored]
        torch.testing.assert_close(scores[metric.name][:1], metric(*kept))
    assert bootstrap(accuracy.leaving_out(ignored), result.outputs(0, x), y, 50).mean() > 0.7
