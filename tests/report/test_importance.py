"""What a column is worth to models: by hand, and as scikit-learn finds it."""

from __future__ import annotations

import math
from statistics import mean, pvariance

import numpy as np
import pytest
import torch
from sklearn.inspection import permutation_importance
from torch import nn

from graphcollab import Tasks, compare
from graphcollab.analysis import Comparison
from graphcollab.methods import local
from graphcollab.report import importance_table
from tests.raising import raises


def fixed(*weights: float) -> nn.Module:
    model = nn.Linear(len(weights), 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([weights]))
        model.bias.zero_()
    return model


def as_given(tasks: Tasks, model: nn.Module, **more: nn.Module) -> Comparison:
    """Models that no step changes, of a method for each."""
    methods = {name: lambda: local(lr=0, weight_decay=0) for name in ("local", *more)}
    return compare(methods, lambda seed: tasks, model, [0], rounds=1)


def cells(table, row: str) -> list:
    return next(cells for cells in table.rows if cells[0].text == row)[1:]


def test_by_hand() -> None:
    """Of y = 2 x shuffling x costs 4 E (x' - x)^2 = 8 var x in the mean; what the model does not read costs nothing.

    Of a column that never changes at a site nothing can be said there.
    """
    inputs = {"a": [1.0, 2.0, 3.0, 6.0], "b": [0.0, 5.0, 5.0, 5.0]}
    rows = {name: [[7.0 + (name == "b") * x, x] for x in xs] for name, xs in inputs.items()}
    nodes = [(torch.tensor(rows[name]), 2 * torch.tensor(xs)[:, None]) for name, xs in inputs.items()]
    tasks = Tasks.from_samples(nodes, nodes, nodes, names=inputs, loss="mse", metric="mse")
    table = importance_table(as_given(tasks, fixed(0.0, 2.0)), repeats=100)
    shared, *sites = cells(table, "input 1")
    for cell, xs in zip(sites, inputs.values(), strict=True):
        assert cell.value == pytest.approx(8 * pvariance(xs), abs=4 * cell.spread / 10)
    assert shared.value == pytest.approx(mean(cell.value for cell in sites))
    shared, never, unread = cells(table, "input 0")
    assert (shared.value, unread.value, unread.spread) == (0.0, 0.0, 0.0)
    assert math.isnan(never.value)
    assert "alike" in {note.code for note in table.notes}
    assert [row[0].text for row in table.rows] == ["input 1", "input 0"]  # what matters most comes first
    assert table.columns == ["column", "mean over sites", "a", "b"]


def frame(rows: int = 40) -> dict[str, list]:
    drawn = np.random.default_rng(0)
    age, color = drawn.normal(50, 10, rows), drawn.choice(["red", "green", "blue"], rows)
    y = 0.1 * age + 2.0 * (color == "red") + drawn.normal(0, 1, rows)
    part = ["train"] * (rows // 2) + ["test"] * (rows // 2)
    return {"site": ["a", "b"] * (rows // 2), "age": age.tolist(), "color": color.tolist(), "y": y, "part": part}


class OfSite:
    """A site's model as scikit-learn takes one: of the columns of the table, a category by its number."""

    def __init__(self, result, site: str) -> None:
        self.result, self.site = result, site

    def fit(self) -> None: ...

    def predict(self, x: np.ndarray) -> np.ndarray:
        colors = np.array(["blue", "green", "red"])[x[:, 1].astype(int)]
        return self.result.predict(self.site, {"age": x[:, 0], "color": colors})


def score(model: OfSite, x: np.ndarray, y: np.ndarray) -> float:
    return -float(np.abs(model.predict(x) - y).mean())


def test_as_scikit_learn_finds_it_with_all_numbers_of_a_category_shuffled_together() -> None:
    table, repeats = frame(), 60
    found = as_given(Tasks.from_frame(table, split="part", val_fraction=0.2), fixed(1.0, -0.5, 0.3, 1.7))
    ours = importance_table(found, repeats=repeats)
    x = np.stack([table["age"], np.unique(table["color"], return_inverse=True)[1]], 1)
    for k, site in enumerate(("a", "b")):
        rows = [r for r in range(20, 40) if table["site"][r] == site]
        model = OfSite(found.results["local"], site)
        theirs = permutation_importance(
            model, x[rows], table["y"][rows], scoring=score, n_repeats=repeats, random_state=0
        )
        for d, column in enumerate(("age", "color")):
            cell = cells(ours, column)[1 + k]
            spread = theirs.importances[d].std(ddof=1)
            assert cell.value == pytest.approx(theirs.importances_mean[d], abs=4 * spread * (2 / repeats) ** 0.5)
            assert cell.spread == pytest.approx(spread, rel=0.3)


def test_of_many_sites_the_largest_have_a_column_and_a_method_is_chosen_on_validation_rows() -> None:
    sizes = range(3, 12)
    x = [torch.arange(float(n))[:, None] for n in sizes]
    nodes = [(one, (one[:, 0] > 2).long()) for one in x]
    tasks = Tasks.from_samples(nodes, nodes, nodes, names=[f"s{n}" for n in sizes])
    model = nn.Linear(1, 2)
    methods = {"bad": lambda: local(lr=0), "good": lambda: local(lr=0.5, steps=200)}
    found = compare(methods, lambda seed: tasks, model, [0], rounds=1, budget="rounds")
    table = importance_table(found, metric="log_loss")
    assert table.columns[2:] == [f"s{n}" for n in (6, 7, 8, 9, 10, 11)]
    assert "good" in table.caption
    assert "of 9 sites those 6 with the most test rows" in str(table)
    with raises("unknown", "method", "'l2c'", "'good'"):
        importance_table(found, "l2c")


def test_pictures_have_no_columns() -> None:
    nodes = [(torch.randn(6, 1, 2, 2), torch.tensor([0, 1] * 3))] * 2
    tasks = Tasks.from_samples(nodes, nodes, nodes)
    found = as_given(tasks, nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    with raises("unsupported", "comparison", "[1, 2, 2]"):
        importance_table(found)
