"""Several metrics of every node at a time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.analysis.metrics import Scores
from graphcollab.analysis.metrics.classification import accuracy, auc
from graphcollab.analysis.metrics.errors import mae
from graphcollab.analysis.metrics.scores import as_metrics
from graphcollab.engine import Engine
from graphcollab.methods import local
from tests.raising import raises, warns


def three_sites(**settings) -> Tasks:
    """Three sites whose one input is the logit itself; the middle one is larger, the last one has only one class."""
    inputs = [[2.0, -2.0], [1.0, -1.0, -3.0, 3.0], [1.0, -1.0]]
    labels = [[1, 0], [1, 1, 0, 0], [1, 1]]
    nodes = [(torch.tensor(x)[:, None], torch.tensor(y).float()) for x, y in zip(inputs, labels, strict=True)]
    given = {"loss": "bce", "metric": "accuracy", **settings}
    return Tasks.from_samples(nodes, nodes, nodes, names=["a", "b", "c"], **given)


def as_it_is() -> nn.Module:
    """Make a model that returns its input."""
    model = nn.Linear(1, 1)
    nn.init.ones_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def play_untrained(tasks: Tasks):
    return run(local(lr=0, weight_decay=0), tasks, as_it_is(), rounds=1)


def test_by_hand() -> None:
    result = play_untrained(three_sites())
    with warns("quality", "metric 'auc'"):
        scores = result.scores(["accuracy", "auc", "brier"])
    assert scores.sizes.tolist() == [2, 4, 2]
    assert scores["accuracy"].tolist() == [1.0, 0.5, 0.5]
    # at b the positives, 1 and -1, beat the negatives -3 and 3 in two of four pairs
    assert scores["auc"][:2].tolist() == [1.0, 0.5]
    assert scores["auc"].isnan().tolist() == [False, False, True]
    assert scores.undefined("auc") == ["c"]
    assert (scores.nodes("auc"), scores.nodes("brier")) == (2, 3)
    assert scores.mean("auc") == 0.75
    assert scores.mean("auc", weighted=True) == pytest.approx((2 * 1.0 + 4 * 0.5) / 6)
    assert scores.mean("accuracy") == pytest.approx(2 / 3)
    assert scores.mean("accuracy", weighted=True) == pytest.approx((2 + 2 + 1) / 8)
    wrong = 1 / (1 + math.exp(1))  # at c: probabilities of class 1 are sigmoid(1) and sigmoid(-1)
    assert float(scores["brier"][2]) == pytest.approx((wrong**2 + (1 - wrong) ** 2) / 2)


def test_they_agree_with_the_run() -> None:
    result = play_untrained(three_sites())
    scores = result.scores(split="val")
    assert scores["accuracy"].tolist() == result.history.last("val_metric").tolist()
    assert scores.loss.tolist() == result.history.last("val_loss").tolist()


def test_predictions_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked, predict = play_untrained(three_sites()), [], Engine.predict

    def count(self, rows, split, **settings):
        asked.append(split)
        return predict(self, rows, split, **settings)

    monkeypatch.setattr(Engine, "predict", count)
    result.scores(["accuracy", "brier", "log_loss", "ece"])
    assert asked == ["test"]


def test_a_diverged_model_leaves_no_mean() -> None:
    loss, values = torch.tensor([0.5, torch.inf]), torch.tensor([0.5, torch.nan])
    scores = Scores(("a", "b"), "test", torch.tensor([3, 3]), loss, {"mae": values}, (mae,))
    assert math.isnan(scores.mean("mae"))
    assert scores.undefined("mae") == []
    with raises("unknown", "metric 'auc'", kind=KeyError):
        scores["auc"]


def test_what_is_asked_for() -> None:
    assert as_metrics("auc", None) == (auc,)
    assert as_metrics(None, "auc") == (auc,)
    assert as_metrics([accuracy, "auc"], None) == (accuracy, auc)
    with raises("value", "metrics", "'auc'"):
        as_metrics(["auc", auc], None)
    with raises("empty", "split 'test'"):
        run(local(lr=0), three_sites_without_test(), as_it_is(), rounds=1).scores()


def three_sites_without_test() -> Tasks:
    whole = three_sites()
    return Tasks(whole.pools, {name: whole.splits[name] for name in ("train", "val")}, loss="bce")
