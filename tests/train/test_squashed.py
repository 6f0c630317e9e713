"""Models that end in probabilities are warned of, and others are not."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.methods import local
from graphcollab.persistence import History

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


class Own(nn.Module):
    """Ends in a function of PyTorch, and not in a layer."""

    def __init__(self, function, outputs):
        super().__init__()
        self.layer, self.function = nn.Linear(3, outputs), function

    def forward(self, x):
        return self.function(self.layer(x))


def warnings_of_run(model, loss, x=X):
    """Return the texts of the warnings of a run."""
    y = Y.float() if loss == "bce" or isinstance(loss, nn.BCEWithLogitsLoss) else Y
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tasks = Tasks.from_samples([(x, y)] * 2, loss=loss)
        result = run(local(lr=0.01), tasks, model, rounds=1)
    assert isinstance(result.history, History)
    return [str(one.message) for one in found]


@pytest.mark.parametrize("loss", ["cross_entropy", nn.CrossEntropyLoss()])
@pytest.mark.parametrize(
    ("model", "which"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), "the Softmax at its end"),
        (Own(lambda z: z.softmax(1), 2), "the softmax that makes them"),
    ],
)
def test_softmax(model, which, loss):
    (text,) = warnings_of_run(model, loss)
    name = "cross_entropy" if isinstance(loss, str) else "CrossEntropyLoss"
    assert text == (
        f"outputs of {type(model).__name__} are probabilities already, and the loss {name} takes them for logits, of "
        f"which it makes probabilities itself: leave out {which}, or it learns badly and metrics are wrong"
    )


@pytest.mark.parametrize("loss", ["bce", nn.BCEWithLogitsLoss()])
@pytest.mark.parametrize(
    ("model", "which"),
    [
        (nn.Sequential(nn.Linear(3, 1), nn.Sigmoid(), nn.Flatten(0)), "the sigmoid that makes them"),
        (Own(lambda z: z.sigmoid().flatten(), 1), "the sigmoid that makes them"),
        (nn.Sequential(nn.Linear(3, 1), nn.Flatten(0), nn.Sigmoid()), "the Sigmoid at its end"),
    ],
)
def test_sigmoid(model, which, loss):
    (text,) = warnings_of_run(model, loss)
    assert f"leave out {which}, or" in text


def test_logits_are_what_losses_take():
    near = nn.Linear(3, 1)
    with torch.no_grad():  # logits of all samples are from 0 to 1
        near.weight.fill_(0.01)
        near.bias.fill_(0.5)
    constant = nn.Linear(3, 1)
    nn.init.zeros_(constant.weight)
    nn.init.constant_(constant.bias, 0.5)
    for model in (near, constant, nn.Linear(3, 1)):
        assert warnings_of_run(nn.Sequential(model, nn.Flatten(0)), "bce") == []
    zero = nn.Linear(3, 2)
    nn.init.zeros_(zero.weight)
    nn.init.zeros_(zero.bias)
    for model in (zero, nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2), nn.LogSoftmax(1))):
        assert warnings_of_run(model, "cross_entropy") == []
