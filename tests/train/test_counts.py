"""Counts: models of logarithms of rates, trained by the Poisson deviance and judged by the rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_absolute_error, mean_poisson_deviance
from torch import nn

from graphcollab import Tasks, load, run
from graphcollab.analysis.baseline import PENALTIES, baseline_scores
from graphcollab.analysis.constants import constants
from graphcollab.analysis.metrics.errors import mae, poisson_deviance
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context
from graphcollab.methods import fedavg
from tests.raising import raises


def rows(n=240, mean=6.0, seed=0):
    """Return columns of three sites with counts that follow two inputs."""
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(n, 2))
    split = np.tile(["train", "train", "train", "val", "test"], n // 5)
    site = np.array(["a", "b", "c"])[numbers.integers(0, 3, n)]
    counts = numbers.poisson(mean * np.exp(0.5 * x[:, 0] - 0.3 * x[:, 1]))
    return {"site": site, "u": x[:, 0], "v": x[:, 1], "visits": counts, "split": split}


def tasks_of(table, **settings):
    return Tasks.from_frame(table, target="visits", split="split", loss="poisson", **settings)


def linear(tasks):
    return nn.Linear(*tasks.input_shape, 1)


def test_the_loss_by_hand() -> None:
    outputs, counts = torch.tensor([[0.0], [math.log(4.0)]]), torch.tensor([0, 2])
    # 1 - 0 + 0, and 4 - 2 + 2 log(2 / 4)
    expected = (1.0 + 2.0 + 2 * math.log(0.5)) / 2
    assert float(as_objective("poisson")(outputs, counts, Context(None, {}))) == pytest.approx(expected)


def test_the_metric_is_that_of_scikit_learn() -> None:
    counts, rates = [0.0, 3.0, 1.0, 7.0], [0.5, 2.0, 1.0, 9.0]
    weight = [1.0, 2.0, 0.5, 1.0]
    found = poisson_deviance(torch.tensor([rates]), torch.tensor([counts]), weight=torch.tensor([weight]))
    assert found.tolist() == pytest.approx([mean_poisson_deviance(counts, rates, sample_weight=weight)])


@pytest.mark.parametrize("mean", [0.5, 300.0])
def test_trained_on_whole_batches_it_is_the_regression_of_scikit_learn(mean: float) -> None:
    table = rows(mean=mean)
    one = {name: values[table["site"] == "a"] for name, values in table.items()}
    result = run(fedavg(lr=0.3, epochs=50, batch_size=1000, weight_decay=0.0), tasks_of(one), linear, rounds=6)
    x, counts, train = np.stack([one["u"], one["v"]], 1), one["visits"], one["split"] == "train"
    other = PoissonRegressor(alpha=0, tol=1e-9).fit(x[train], counts[train]).predict(x)
    np.testing.assert_allclose(result.predict("a", one), other, rtol=2e-4)
    test, scores = one["split"] == "test", result.scores(["poisson_deviance", "mae"], "test")
    assert float(scores["mae"][0]) == pytest.approx(mean_absolute_error(counts[test], other[test]), rel=3e-3)
    deviance = mean_poisson_deviance(counts[test], other[test])
    assert float(scores["poisson_deviance"][0]) == pytest.approx(deviance, rel=5e-3)


def test_saved_models_predict_rates(tmp_path) -> None:
    table = rows(60)
    result = run(fedavg(lr=0.1), tasks_of(table), linear, rounds=1)
    train = table.pop("split") == "train"
    del table["site"]
    found = load(result.save(tmp_path / "models"), model=lambda name: nn.Linear(2, 1)).predict("b", table)
    np.testing.assert_array_equal(found, result.predict("b", table))
    outputs = result.outputs("b", table)[:, 0]
    np.testing.assert_allclose(found, result.tasks.scale * outputs.exp().numpy(), rtol=1e-6)
    assert result.tasks.scale == pytest.approx(table["visits"][train].mean())
    with raises("unsupported", "loss"):
        result.predict_proba("b", table)


def test_the_mean_counts_where_no_model_does_better() -> None:
    table = rows(120)
    table["visits"] = np.random.default_rng(1).poisson(3.0, 120)
    tasks = tasks_of(table, metric="mae")
    _, scores = constants(tasks, [mae], ["test"], (1,))
    for k, site in enumerate(tasks.names):
        own = {part: table["visits"][(table["site"] == site) & (table["split"] == part)] for part in ("train", "test")}
        assert float(scores[0, 0, k]) == pytest.approx(np.abs(own["test"] - own["train"].mean()).mean(), rel=1e-6)
    none = {**table, "visits": table["visits"] * (table["site"] != "a")}
    losses, _ = constants(tasks_of(none), [mae], ["test"], (1,))
    assert torch.isfinite(losses).all()


def test_scikit_learn_beside_it() -> None:
    from sklearn.model_selection import GridSearchCV, KFold

    table = rows(150)
    found = baseline_scores(tasks_of(table), [poisson_deviance])["sklearn pooled"][0, 0]
    tasks = tasks_of(table)
    x = tasks.pools["samples"].inputs.double().numpy()
    learn, test = table["split"] != "test", (table["split"] == "test") & (table["site"] == "a")
    order = torch.cat([torch.cat([tasks.splits[s].of(k) for s in ("train", "val")]) for k in range(3)]).numpy()
    assert sorted(order.tolist()) == np.flatnonzero(learn).tolist()
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(
        PoissonRegressor(max_iter=1000), {"alpha": PENALTIES}, scoring="neg_mean_poisson_deviance", cv=folds
    )
    rates = search.fit(x[order], table["visits"][order]).predict(x[test])
    assert float(found[0]) == pytest.approx(mean_poisson_deviance(table["visits"][test], rates), rel=1e-6)


def test_what_are_no_counts_is_refused() -> None:
    table = rows(60)
    half = {**table, "visits": table["visits"] + np.eye(60)[7] / 2}
    with raises("value", "column 'visits'", "row 7", f"{half['visits'][7]:g}"):
        tasks_of(half)
    with raises("conflict", "standardize_target"):
        tasks_of(table, standardize_target=True)
    with raises("conflict", "metric", "loss='poisson'"):
        Tasks.from_frame(table, target="visits", split="split", loss="mse", metric="poisson_deviance")
    x, negative = torch.zeros(6, 2), torch.tensor([0.0, 1, 2, 3, 4, -1])
    arrays = Tasks.from_arrays(x, negative, ["a"] * 6, loss="poisson", metric="mae", val_fraction=0, test_fraction=0)
    with raises("value", "targets", "-1"):
        run(fedavg(lr=0.1), arrays, linear, rounds=1)


def test_whole_numbers_of_many_values_ask_for_it() -> None:
    table = {**rows(600), "visits": np.arange(600) % 60}
    with raises("ambiguous", "column 'visits'", 60, "loss='poisson'"):
        Tasks.from_frame(table, target="visits", split="split")
