"""Coefficients of linear models in the units of the table, as least squares and a bootstrap in NumPy find them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from torch import nn

from graphcollab import Tasks, build_model, compare, methods
from graphcollab.analysis import Comparison
from graphcollab.report import coefficient_table
from graphcollab.report.inside import resampled
from tests.raising import raises

WHOLE = {"lr": 0.1, "weight_decay": 0, "batch_size": 1000, "momentum": 0.9, "optimizer": "sgd"}


def frame(rows: int = 60, classes: bool = False) -> dict[str, list]:
    drawn = np.random.default_rng(1)
    age, color = drawn.normal(50, 10, rows), drawn.choice(["blue", "green", "red"], rows)
    y = 0.2 * age + 3.0 * (color == "red") - 1.0 * (color == "green") + drawn.normal(0, 2, rows)
    target = np.where(y > np.median(y), "ill", "well") if classes else y
    part = ["train"] * (rows - 10) + ["test"] * 10
    return {"site": ["a", "b"] * (rows // 2), "age": age.tolist(), "color": color, "y": target, "part": part}


def design(table: dict[str, list], site: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows of a site: one, age, green and red against blue; and targets."""
    rows = [r for r, part in enumerate(table["part"]) if table["site"][r] == site and part == "train"]
    age, color = np.array(table["age"])[rows], np.array(table["color"])[rows]
    return np.stack([np.ones(len(rows)), age, color == "green", color == "red"], 1), np.array(table["y"])[rows]


def trained(tasks: Tasks, steps: int, method: str = "local", outputs: int = 1, model=None, **settings) -> Comparison:
    make = model or (lambda: build_model("mlp", tasks.input_shape, outputs, hidden=()))
    made = {method: lambda: getattr(methods, method)(steps=steps, **{**WHOLE, **settings})}
    return compare(made, lambda seed: tasks, make, [0], rounds=1)


def values(table) -> dict[str, list[float]]:
    return {row[0].text: [cell.value for cell in row[1:]] for row in table.rows}


@pytest.mark.parametrize("standardize", [False, True])
def test_as_least_squares_in_the_units_of_the_table(standardize: bool) -> None:
    table = frame()
    tasks = Tasks.from_frame(table, split="part", val_fraction=0, standardize_target=standardize, loss="mse")
    found = coefficient_table(trained(tasks, 150), resamples=2)
    ours = values(found)
    assert [*ours] == ["age", "color = green, not blue", "color = red, not blue", "intercept"]
    exact = np.stack([np.linalg.lstsq(*design(table, site))[0] for site in ("a", "b")])  # [2, 4]
    assert [ours[name][1:] for name in ours] == pytest.approx(np.roll(exact, -1, 1).T, rel=1e-2, abs=1e-3)
    assert [ours[name][0] for name in ours] == pytest.approx(np.roll(exact, -1, 1).mean(0), rel=1e-2, abs=1e-3)
    assert "by how much y changes" in str(found)


def test_log_odds_as_logistic_regression_and_one_column_where_all_sites_have_one_model() -> None:
    table = frame(200, classes=True)
    tasks = Tasks.from_frame(table, split="part", val_fraction=0)
    found = coefficient_table(trained(tasks, 2, "fedavg", 2), resamples=2)
    alone = coefficient_table(trained(tasks, 200, "local", 2, lr=1.0), resamples=2)
    x, y = design(table, "b")
    exact = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(x[:, 1:], y == "well")
    expected = [*exact.coef_[0], exact.intercept_[0]]
    assert [row[2] for row in values(alone).values()] == pytest.approx(expected, rel=2e-2, abs=1e-3)
    assert "the log odds of y = well" in str(alone)
    assert found.columns == ["column", "all sites alike"]


@pytest.mark.slow
def test_intervals_as_a_bootstrap_in_numpy() -> None:
    table, many = frame(100), 40
    tasks = Tasks.from_frame(table, columns=["age"], split="part", val_fraction=0)
    found = coefficient_table(trained(tasks, 30, lr=0.3, momentum=0), resamples=many)
    drawn, spread = np.random.default_rng(0), []
    for site in ("a", "b"):
        x, y = design(table, site)
        picked = [drawn.integers(len(y), size=len(y)) for _ in range(1000)]
        spread.append(np.std([np.linalg.lstsq(x[rows, :2], y[rows])[0][1] for rows in picked]))
    wide = [np.hypot(*spread) / 2, *spread]  # of the mean of two sites, and of each
    for cell, expected in zip(found.rows[0][1:], wide, strict=True):
        low, high = cell.interval
        assert (low + high) / 2 == pytest.approx(cell.value)
        # a deviation of 40 draws is off by a ninth, give or take
        assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, many - 1) * expected, rel=0.35)


def test_a_weight_that_nothing_trains_is_not_sure() -> None:
    """No row of the site is red, so its weight is what the model began with, and its interval holds 0."""
    table = {"site": ["a", "b"] * 20, "color": ["blue", "red", "green", "green"] * 10, "y": [0.5, 1.5, 1.0, 2.0] * 10}
    tasks = Tasks.from_frame(table)
    found = coefficient_table(trained(tasks, 10), resamples=20)
    low, high = found.rows[1][2].interval
    assert found.rows[1][0].text == "color = red, not blue"
    assert low < 0 < high or low < found.rows[1][2].value < high
    assert high - low > 0.5  # weights of one of three inputs begin within ± 0.58


def test_rows_are_drawn_within_sites_and_groups_whole() -> None:
    table = {"site": ["a"] * 12 + ["b"] * 8, "x": range(20), "y": [0.5] * 20, "who": [k // 2 for k in range(20)]}
    plain = Tasks.from_frame(table, columns=["x"], test_fraction=0)
    grouped = Tasks.from_frame(table, group="who", columns=["x"], test_fraction=0)
    for number in range(5):
        drawn = resampled(plain, 0, number)
        for name in ("train", "val"):
            assert drawn.sizes(name).tolist() == plain.sizes(name).tolist()
            assert all({*drawn.splits[name].of(k).tolist()} <= {*plain.splits[name].of(k).tolist()} for k in (0, 1))
        counts = resampled(grouped, 0, number).splits["train"].index.bincount(minlength=20)
        assert torch.equal(counts[0::2], counts[1::2])  # both rows of a person come as often
    one, other = (resampled(plain, 0, number).splits["train"].index for number in (0, 1))
    assert not torch.equal(one, other)


def test_what_has_no_coefficients() -> None:
    tasks = Tasks.from_frame(frame(), split="part", val_fraction=0)
    with raises("unsupported", "method", "local", "linear"):
        coefficient_table(trained(tasks, 1, model=lambda: build_model("mlp", tasks.input_shape, 1, hidden=4)))
    three = Tasks.from_frame({**frame(), "y": ["u", "v", "w"] * 20}, split="part", val_fraction=0)
    with raises("unsupported", "method", "3"):
        coefficient_table(trained(three, 1, outputs=3))
    x = torch.zeros(4, 2, dtype=torch.int64)
    words = Tasks.from_samples([(x, torch.tensor([0, 1, 0, 1]))] * 2, test=[(x, torch.tensor([0, 1, 0, 1]))] * 2)
    model = lambda: nn.Sequential(nn.Embedding(3, 2), nn.Flatten(), nn.Linear(4, 2))  # noqa: E731
    with raises("unsupported", "method", "linear"):
        coefficient_table(trained(words, 1, model=model))


def test_what_all_sites_share_has_one_number() -> None:
    tasks = Tasks.from_frame(frame(), split="part", val_fraction=0, loss="mse")
    found = coefficient_table(trained(tasks, 20, "partial_pooling"), resamples=2)
    assert {name: len(row) for name, row in values(found).items()} == {
        "age": 1,
        "color = green, not blue": 1,
        "color = red, not blue": 1,
        "intercept": 3,
    }
    assert "where all sites have the same" in str(found)
