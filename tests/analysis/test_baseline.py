"""Scikit-learn's linear models beside ours: the numbers of scikit-learn called by hand on the same rows."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import StratifiedKFold
from torch import nn

from graphcollab import Tasks, benefit, compare
from graphcollab.analysis import Comparison, resplit
from graphcollab.analysis.baseline import ALPHAS, BASELINES, CS, SKLEARN, baseline_scores, require_baseline
from graphcollab.analysis.metrics import METRICS
from graphcollab.methods import fedavg, local
from graphcollab.report import accuracy_curves, benefit_table, paired_table, results_table, site_table
from tests.raising import raises

SITES = 3
FEW = CS[2:5]  # each takes its time


def draw_tasks(kind, seed=0, weight=False):
    """Return tasks of three sites, with the third of one class, and rows [n, 2], targets, weights, site, split."""
    numbers = np.random.default_rng(seed)
    site, split = np.repeat(np.arange(SITES), 30), np.tile(np.repeat([0, 1, 2], [16, 5, 9]), SITES)
    x = numbers.normal(size=(90, 2)).astype(np.float32)
    y = x[:, 0] + 0.5 * site + numbers.normal(size=90)
    if kind != "mse":
        y = np.where(site == 2, 0, y > 0.3)
    w = numbers.uniform(0.5, 2, size=90) if weight else np.ones(90)
    targets = torch.tensor(y, dtype=torch.int64 if kind == "cross_entropy" else torch.float32)
    targets = targets if kind == "cross_entropy" else targets[:, None]

    def samples(part):
        for k in range(SITES):
            own = (site == k) & (split == part)
            one = {"x": torch.tensor(x[own]), "y": targets[own]}
            yield one | ({"weight": torch.tensor(w[own])} if weight else {})

    parts = {name: [*samples(part)] for part, name in enumerate(("train", "val", "test"))}
    metric = "mse" if kind == "mse" else "log_loss"
    tasks = Tasks.from_samples(parts["train"], parts["val"], parts["test"], loss=kind, metric=metric)
    return tasks, (x, y, w, site, split)


def by_hand(kind, rows):
    """Return the loss of four models at every site, [4, K]."""
    x, y, w, site, split = rows
    wide, every = np.hstack([x, np.eye(SITES)[site]]), range(SITES)
    found = np.zeros((4, SITES))
    fits = [(0, x, [k]) for k in every] + [(1, x, every), (2, wide, every)] + [(3, x, [k]) for k in every]
    for row, inputs, sites in fits:
        learn = np.isin(site, sites) & (split < (1 if row == 3 else 2))
        if kind == "mse":
            model = RidgeCV(alphas=ALPHAS).fit(inputs[learn], y[learn], sample_weight=w[learn])
        elif sites == [2]:  # 21 or 16 rows of class 0
            found[row, 2] = -math.log((learn.sum() + 0.5) / (learn.sum() + 1))
            continue
        else:
            folds = min(5, int(np.bincount(y[learn].astype(int)).min()))
            folds = StratifiedKFold(folds, shuffle=True, random_state=0)
            model = LogisticRegressionCV(Cs=FEW, cv=folds, scoring="neg_log_loss", max_iter=1000)
            model.fit(inputs[learn], y[learn], sample_weight=w[learn])
        for k in sites:
            tests = (site == k) & (split == 2)
            true, weight = y[tests], w[tests]
            if kind == "mse":
                found[row, k] = mean_squared_error(true, model.predict(inputs[tests]), sample_weight=weight)
            else:
                said = model.predict_proba(inputs[tests])
                found[row, k] = log_loss(true, said, labels=[0, 1], sample_weight=weight)
    return found


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("kind", "weight"), [("mse", False), ("mse", True), ("cross_entropy", False), ("bce", True)])
def test_scores_are_those_of_scikit_learn(kind, weight, monkeypatch):
    monkeypatch.setattr("graphcollab.analysis.baseline.CS", FEW)
    tasks, rows = draw_tasks(kind, weight=weight)
    metrics = tuple(METRICS[name] for name in (["mse", "rmse"] if kind == "mse" else ["log_loss", "accuracy"]))
    found = baseline_scores(tasks, metrics)
    assert tuple(found) == SKLEARN
    scores = torch.stack([*found.values()])[:, 0, 0]  # [4, K]
    torch.testing.assert_close(scores.numpy(), by_hand(kind, rows), rtol=1e-3, atol=1e-5)
    if kind == "mse":
        torch.testing.assert_close(torch.stack([*found.values()])[:, 1, 0], scores.sqrt())


def test_a_class_of_one_row_has_its_frequency():
    """Of 9 rows one is of class 2: (1 + ½) / (9 + 3 ½) = 1/7, and the others share the rest as if it were not there."""
    x = torch.tensor([[0.0], [1.0]] * 4 + [[0.5]])
    y = torch.tensor([0, 1] * 4 + [2])
    test = [(torch.zeros(1, 1), torch.tensor([2]))]
    tasks = Tasks.from_samples([(x, y)], test=test, metric="log_loss")
    found = baseline_scores(tasks, [METRICS["log_loss"]])["sklearn per site"]
    assert float(found) == pytest.approx(math.log(7))


def test_two_rows_of_amounts_are_their_weighted_mean():
    train = [{"x": torch.eye(2), "y": torch.tensor([[0.0], [4.0]]), "weight": torch.tensor([1.0, 3.0])}]
    test = [{"x": torch.zeros(1, 2), "y": torch.tensor([[5.0]]), "weight": torch.ones(1)}]
    tasks = Tasks.from_samples(train, test=test, loss="mse", metric="mse")
    assert float(baseline_scores(tasks, [METRICS["mse"]])["sklearn per site"]) == pytest.approx(4.0)  # 5 − 3


@pytest.fixture(scope="module")
def tasks():
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(30, 2, generator=draw), torch.randn(30, 1, generator=draw)) for _ in range(3)]
    return Tasks.from_samples(samples, loss="mse", metric="mse")


QUICK = {"methods": {}, "repeats": 3, "rounds": 1, "lrs": [0.1], "limit": 2}


def test_benefit_shows_them(tasks):
    one, other = (benefit(tasks, partial(nn.Linear, 2, 1), baseline=base, **QUICK) for base in ("sklearn", None))
    assert tuple(one.baseline) == SKLEARN
    assert other.baseline == {}
    for r in range(3):
        expected = baseline_scores(resplit(tasks, r), [METRICS["mse"]])
        for name in SKLEARN:
            assert torch.equal(one.baseline[name][r], expected[name][0, 0])
    numbers = [[(gain.gain, gain.low, gain.high, gain.alone) for gain in some.overall] for some in (one, other)]
    assert numbers[0] == numbers[1]
    assert one.arms == other.arms == ("together",)
    assert benefit_table(one).startswith(benefit_table(other))
    gain = one.by_baseline[1]
    ratio = (one.baseline["sklearn pooled"].mean(1) / one.scores["alone"].mean(1)).log().mean().exp()
    assert (gain.by, gain.gain) == ("sklearn pooled", pytest.approx(1 - float(ratio)))
    assert all(name in benefit_table(one) for name in SKLEARN)
    assert [row["by"] for row in one._told()["by_baseline"]] == [*SKLEARN]


def test_compare_has_them_as_rows(tasks):
    methods = {"local": partial(local, lr=0.1), "fedavg": partial(fedavg, lr=0.1)}
    found = compare(methods, partial(resplit, tasks), partial(nn.Linear, 2, 1), (0, 1), rounds=2, baseline="sklearn")
    assert [*found.chosen] == ["local", "fedavg", *BASELINES]
    assert {trial.method for trial in found.trials} == {*methods}
    for seed in (0, 1):
        expected = baseline_scores(resplit(tasks, seed), [METRICS["mse"]])["sklearn pooled"]
        assert found.values("sklearn pooled")[seed] == pytest.approx(float(expected.mean()))
    mean = sum(a - b for a, b in zip(found.values("sklearn pooled"), found.values("local"), strict=True)) / 2
    assert found.paired("sklearn pooled", "local").mean == pytest.approx(mean)
    for text in (str(results_table(found)), str(paired_table(found))):
        assert all(name in text for name in BASELINES)
    assert "sklearn" not in str(site_table(found))
    accuracy_curves(found)


def test_compare_has_constants_as_a_row(tasks):
    methods = {"local": partial(local, lr=0.1), "fedavg": partial(fedavg, lr=0.1)}
    found = compare(methods, partial(resplit, tasks), partial(nn.Linear, 2, 1), (0, 1), rounds=1, baseline="constant")
    assert [*found.chosen] == ["local", "fedavg", "constant"]
    for seed, drawn in ((seed, resplit(tasks, seed)) for seed in (0, 1)):
        train, test = (drawn.splits[name] for name in ("train", "test"))
        y = [[drawn.pools[split.pool].targets[split.of(k)] for split in (train, test)] for k in range(3)]
        errors = [float(((tested - own.mean()) ** 2).mean()) for own, tested in y]
        assert found.values("constant")[seed] == pytest.approx(sum(errors) / 3)
    both = Comparison.join(
        [found, replace(found, chosen={"l2c": found.chosen["local"], "constant": found.chosen["constant"]})]
    )
    assert [trial.seed for trial in both.chosen["constant"]] == [0, 1]


def test_what_is_refused(tasks):
    share = Tasks.from_samples([(torch.zeros(4, 1), torch.arange(4) % 2)] * 2, names=["a", "b"]).share(
        torch.tensor([0])
    )
    with raises("missing", "tasks", "'b'", "baseline='sklearn'"):
        require_baseline(share, (), "sklearn")
    with raises("unsupported", "baseline", "baseline='sklearn'"):
        require_baseline(other := replace(tasks, loss=lambda outputs, targets: outputs.sum()), (), "sklearn")
    with raises("unsupported", "baseline"):
        require_baseline(other, (), "constant")
    name, linear = "sklearn pooled", partial(nn.Linear, 2, 1)
    with raises("conflict", f"method {name!r}"):
        benefit(tasks, linear, baseline="sklearn", **{**QUICK, "methods": {name: fedavg}})
    with raises("conflict", f"method {name!r}"):
        compare({name: fedavg}, partial(resplit, tasks), linear, baseline="sklearn")
