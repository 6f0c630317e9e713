"""Output layers near the ones that nodes have: against an optimizer that knows nothing of Newton's method."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks
from graphcollab.components import RandomSlopes
from graphcollab.components.random_slopes import _output_layer
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import ParamSpec
from graphcollab.methods import fedavg, partial_pooling
from graphcollab.testing import Scene
from tests.raising import raises

SIZES = (3, 9, 20)
SUMS = {
    "cross_entropy": lambda out, y: F.cross_entropy(out, y, reduction="none"),
    "mse": lambda out, y: (out - y).square().mean(1),
    "bce": lambda out, y: F.binary_cross_entropy_with_logits(out, y, reduction="none").mean(1),
    "poisson": lambda out, y: (out.exp() - y * out).mean(1),
}


def scene_of(loss, model=None, weights=None):
    """Return three nodes of 3, 9 and 20 samples, whose models have three outputs, and the samples."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(32, 4, generator=draw, dtype=torch.float64)
    y = x[:, :3] + torch.randn(32, 3, generator=draw, dtype=torch.float64)
    y = {"cross_entropy": y.argmax(1), "mse": y, "bce": (y > 0).double(), "poisson": y.abs().round()}[loss]
    split = Split.from_lists("train", [*torch.arange(32).split(SIZES)])
    metric = "accuracy" if loss in ("cross_entropy", "bce") else "mse"
    tasks = Tasks({"train": Pool(x, y, weights)}, {"train": split}, loss=loss, metric=metric)
    torch.manual_seed(1)
    return Scene(tasks, [(model or (lambda: nn.Linear(4, 3)))().double()]), [
        *zip(x.split(SIZES), y.split(SIZES), strict=True)
    ]


def nearby(layer, read, targets, lam, loss, share=None):
    """Minimize the sum of losses and the pull by L-BFGS; ``layer`` [C, d + 1], weights, then the bias."""
    n = len(read)
    share = torch.full((n,), 1 / n, dtype=read.dtype) if share is None else share
    mean = (share[:, None] * read).sum(0)
    weight, bias = layer[:, :-1], layer[:, -1]
    start = torch.cat([weight, (bias + weight @ mean)[:, None]], 1)
    found = start.clone().requires_grad_()
    steps = torch.optim.LBFGS(
        [found], max_iter=2000, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def total():
        steps.zero_grad()
        out = (read - mean) @ found[:, :-1].T + found[:, -1]
        value = n * (share * SUMS[loss](out, targets)).sum() + lam / 2 * (found - start).square().sum()
        value.backward()
        return value

    steps.step(total)
    slopes, level = found.detach()[:, :-1], found.detach()[:, -1]
    return torch.cat([slopes, (level - slopes @ mean)[:, None]], 1)


def judged(scene, lam, rounds=1):
    """Return models without and with slopes of their own, [K, P] each."""
    method = partial_pooling(lr=0.1, epochs=1, batch_size=100)
    return [
        scene.models(dataclasses.replace(method, judge=judge), rounds=rounds).tensors[0]
        for judge in (method.judge, RandomSlopes(lam))
    ]


@pytest.mark.parametrize("loss", SUMS)
@pytest.mark.parametrize("lam", [0.3, 20.0])
def test_layers_minimize_loss_and_pull(loss, lam):
    scene, samples = scene_of(loss)
    before, after = judged(scene, lam)
    for k, (x, y) in enumerate(samples):
        layer = torch.cat([before[k, :12].view(3, 4), before[k, 12:, None]], 1)
        expected = nearby(layer, x, y, lam, loss)
        found = torch.cat([after[k, :12].view(3, 4), after[k, 12:, None]], 1)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)
        assert (found - layer).abs().max() > 1e-3


def test_hidden_layers_stay_and_the_last_one_is_fitted_to_what_it_reads():
    scene, samples = scene_of("mse", model=lambda: nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3)))
    before, after = judged(scene, 2.0)
    assert torch.equal(before[:, :35], after[:, :35])
    for k, (x, y) in enumerate(samples):
        read = torch.tanh(F.linear(x, before[k, :28].view(7, 4), before[k, 28:35]))
        layer = torch.cat([before[k, 35:56].view(3, 7), before[k, 56:, None]], 1)
        expected = nearby(layer, read, y, 2.0, "mse")
        torch.testing.assert_close(after[k, 35:56].view(3, 7), expected[:, :-1], rtol=0, atol=1e-6)
        torch.testing.assert_close(after[k, 56:], expected[:, -1], rtol=0, atol=1e-6)


def test_samples_count_by_their_weights():
    """As many samples as a node has, in which a sample of twice the mean weight counts as two."""
    weights = torch.rand(32, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    scene, samples = scene_of("cross_entropy", weights=weights)
    before, after = judged(scene, 5.0)
    for k, ((x, y), weight) in enumerate(zip(samples, weights.split(SIZES), strict=True)):
        layer = torch.cat([before[k, :12].view(3, 4), before[k, 12:, None]], 1)
        expected = nearby(layer, x, y, 5.0, "cross_entropy", weight / weight.sum())
        torch.testing.assert_close(after[k, :12].view(3, 4), expected[:, :-1], rtol=0, atol=2e-6)


def test_a_node_of_one_class_answers_with_certainty_but_not_without_end():
    """Eight samples of one class at a node, whose loss alone would have no minimum."""
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    tasks = Tasks.from_samples([(x[:10], torch.zeros(10, dtype=torch.int64)), (x[10:], (x[10:, 0] > 0).long())])
    models = Scene(tasks, [nn.Linear(2, 2)]).models(partial_pooling(lam=1.0), rounds=2).tensors[0]
    assert bool(torch.isfinite(models).all())
    assert float(models.abs().max()) < 20


def test_what_cannot_be_solved_for_is_refused():
    scene, _ = scene_of("mse", model=lambda: nn.Linear(4, 3, bias=False))
    with raises("unknown", "part 'intercept'", kind=KeyError):
        scene.begin(dataclasses.replace(fedavg(), judge=RandomSlopes()))
    x, times = torch.randn(20, 2), torch.stack([torch.arange(1.0, 21), torch.ones(20)], 1)
    cox = Tasks.from_samples([(x, times)], loss="cox", metric="concordance")
    with raises("unsupported", "lam", "means over samples"):
        Scene(cox, [nn.Linear(2, 1)]).begin(partial_pooling(lam=1.0))


def test_columns_of_an_output_layer_in_a_part_of_its_own():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    assert _output_layer(ParamSpec.from_module(model)) == (slice(9, 15), slice(15, 17))
