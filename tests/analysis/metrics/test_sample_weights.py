"""Metrics of samples with weights: against scikit-learn, and against samples that are repeated."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn import metrics as sk

from graphcollab import Tasks
from graphcollab.analysis.metrics import METRICS, Metric
from graphcollab.analysis.metrics.bootstrap import bootstrap, bootstrap_nodes
from graphcollab.analysis.metrics.classification import accuracy, auc
from graphcollab.analysis.metrics.errors import mse
from graphcollab.analysis.metrics.scores import score_nodes
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import Engine, Rows, Stacks
from graphcollab.engine.stack import ParamSpec
from tests.analysis.metrics.fitting import fitting
from tests.raising import raises

every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def samples():
    draw = torch.Generator().manual_seed(3)
    outputs = torch.randn(4, 30, generator=draw).mul(2).round() / 2  # with ties
    targets = torch.randint(0, 2, (4, 30), generator=draw).float()
    weight = torch.rand(4, 30, generator=draw)
    weight[:, 5] = 0
    mask = torch.arange(30) < torch.tensor([[30], [9], [17], [20]])
    return outputs, targets, mask, weight


def expected(name, scores, targets, weight):
    p = torch.tensor(scores).double().sigmoid()
    by = {"sample_weight": weight}
    known = {
        "accuracy": lambda: sk.accuracy_score(targets, [s > 0 for s in scores], **by),
        "auc": lambda: sk.roc_auc_score(targets, scores, **by),
        "brier": lambda: sk.brier_score_loss(targets, p, **by),
        "log_loss": lambda: sk.log_loss(targets, p, **by),
        "mse": lambda: sk.mean_squared_error(targets, scores, **by),
        "rmse": lambda: sk.root_mean_squared_error(targets, scores, **by),
        "mae": lambda: sk.mean_absolute_error(targets, scores, **by),
        "poisson_deviance": lambda: sk.mean_poisson_deviance(targets, scores, **by),
        "r2": lambda: sk.r2_score(targets, scores, **by),
    }
    assert name in known, f"add scikit-learn's {name}, or, if it has none, the metric to those left out below"
    return known[name]()


@pytest.mark.parametrize("name", sorted(METRICS.keys() - {"ece", "concordance"}))
def test_against_scikit_learn(name):
    outputs, targets, mask, weight = samples()
    outputs, targets = fitting(METRICS[name], outputs, targets)
    found = METRICS[name](outputs, targets, mask, weight)
    for r, own in enumerate(mask):
        given = [values[r, own].tolist() for values in (outputs, targets, weight)]
        assert float(found[r]) == pytest.approx(expected(name, *given))


def test_ece_by_hand():
    """Confidences 0.8, 0.8 and 0.6, weights 1, 3 and 4: |1 · 0.2 − 3 · 0.8| + 4 · 0.4, by 8."""
    logits = torch.tensor([[0.8, 0.8, 0.6]], dtype=torch.float64).logit()
    found = METRICS["ece"](logits, torch.tensor([[1, 0, 1]]), weight=torch.tensor([[1.0, 3.0, 4.0]]))
    assert float(found) == pytest.approx((2.2 + 1.6) / 8)


def test_auc_by_hand():
    """Positives at 2 (weight 1) and 1 (3); negatives at 1 (2) and 0 (4): of 4 · 6, 6 and 3 · (4 + 1) are won."""
    scores, targets = torch.tensor([[2.0, 1.0, 1.0, 0.0]]), torch.tensor([[1, 1, 0, 0]])
    assert float(auc(scores, targets, weight=torch.tensor([[1.0, 3.0, 2.0, 4.0]]))) == pytest.approx(21 / 24)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([-1.5, 0.0, 0.1, float("inf"), float("-inf")]), st.integers(0, 1), st.integers(0, 3)),
        min_size=2,
        max_size=10,
    )
)
def test_auc_with_ties_and_infinite_scores(rows):
    scores, targets, counts = (torch.tensor(column) for column in zip(*rows, strict=True))
    repeated = [values.repeat_interleave(counts)[None] for values in (scores, targets)]
    padded = [torch.nn.functional.pad(values, (0, 2), value=1.0)[None] for values in (scores, targets, counts)]
    mask = torch.arange(len(rows) + 2) < len(rows)
    found = auc(padded[0], padded[1], mask[None], padded[2].double())
    torch.testing.assert_close(found, auc(*repeated), equal_nan=True)


@every_metric
def test_whole_weights_are_repetitions_and_zero_leaves_out(metric):
    outputs, targets, mask, _ = samples()
    outputs, targets = fitting(metric, outputs, targets)
    counts = torch.arange(30).expand(4, -1) % 4
    found = metric(outputs.masked_fill(counts == 0, 1e9), targets, mask, 0.3 * counts)
    for r, own in enumerate(mask):
        again = [values[r, own].repeat_interleave(counts[r, own], 0)[None] for values in (outputs, targets)]
        assert float(found[r]) == pytest.approx(float(metric(*again)))


@every_metric
def test_equal_weights_change_nothing(metric):
    outputs, targets, mask, _ = samples()
    outputs, targets = fitting(metric, outputs, targets)
    torch.testing.assert_close(metric(outputs, targets, mask, mask * 7.0), metric(outputs, targets, mask))


@every_metric
@pytest.mark.parametrize("filling", [0.0, torch.inf, torch.nan])
def test_weights_in_the_padding_never_matter(metric, filling):
    outputs, targets, mask, weight = samples()
    outputs, targets = fitting(metric, outputs, targets)
    found = metric(outputs, targets, mask, weight.masked_fill(~mask, filling))
    assert torch.equal(found, metric(outputs, targets, mask, weight))


def test_rows_without_weight_are_nan():
    assert accuracy(torch.ones(1, 3), torch.ones(1, 3), weight=torch.zeros(1, 3)).isnan().all()


def test_several_dimensions():
    outputs, targets = torch.tensor([[[1.0, 3.0], [0.0, 0.0]]]), torch.zeros(1, 2, 2)
    weight = torch.tensor([[3.0, 1.0]])
    assert float(mse(outputs, targets, weight=weight)) == pytest.approx(3 * 5 / 4)
    r2 = METRICS["r2"](torch.zeros(1, 2, 2), torch.tensor([[[0.0, 0.0], [4.0, 8.0]]]), weight=weight)
    # means 1 and 2; around them 3 · 1 + 9 and 3 · 4 + 36, left 16 and 64
    assert float(r2) == pytest.approx(1 - 4 / 3)


def test_metrics_of_ones_own():
    outputs, targets, weight = torch.tensor([[1.0, 5.0]]), torch.zeros(1, 2), torch.tensor([[3.0, 1.0]])
    plain = Metric.per_node("largest", False, lambda o, t: (o - t).abs().max())
    with raises("contract", "metric 'largest'"):
        plain(outputs, targets, weight=weight)
    own = Metric.per_node("mine", False, lambda o, t, w: (w * (o - t)).sum() / w.sum(), weighted=True)
    assert own(outputs, targets, weight=weight).tolist() == [2.0]
    assert own(outputs, targets).tolist() == [3.0]  # all weigh 1
    with raises("shape", "weight"):
        own(outputs, targets, weight=weight[0])


def test_bootstrap_keeps_weights_with_their_samples():
    """Of errors 0 and 3 with weights 1 and 2, resamples have 0, 6 / 3 and 3."""
    found = bootstrap(METRICS["mae"], torch.tensor([0.0, 3.0]), torch.zeros(2), 50, weight=torch.tensor([1.0, 2.0]))
    assert sorted(set(found.tolist())) == [0.0, 2.0, 3.0]


def test_scores_and_their_resamples():
    """The model is 0 everywhere: errors are 1 and 2, and 4, with weights 3 and 1, and 5."""
    pool = Pool(torch.zeros(3, 1), torch.tensor([1.0, 2.0, 4.0]), torch.tensor([3.0, 1.0, 5.0]))
    split = Split.from_lists("p", [torch.tensor([0, 1]), torch.tensor([2])])
    tasks = Tasks({"p": pool}, {"train": split, "test": split}, loss="mse", metric="mae")
    module = torch.nn.Linear(1, 1)
    spec = ParamSpec.from_module(module)
    engine, models = Engine(tasks, [module], [spec]), Stacks.single(spec, torch.zeros(2, 2))
    scores = score_nodes(engine, models, "test", [METRICS["mae"]])
    assert scores["mae"].tolist() == [1.25, 4.0]
    assert scores.loss.tolist() == [1.75, 16.0]
    assert scores.mean("mae", weighted=True) == pytest.approx((2 * 1.25 + 4) / 3)  # by rows
    assert engine.loss(Rows.own(models), "test").tolist() == [1.75, 16.0]
    assert set(bootstrap_nodes(engine, models, "test", [METRICS["mae"]], 40)[0, 0].tolist()) == {1.0, 1.25, 2.0}
