"""Classes that count more in training than others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from graphcollab import Tasks, run
from graphcollab.engine.losses import as_objective, objective_of
from graphcollab.engine.objective import Context
from graphcollab.methods import fedavg
from graphcollab.sites import tasks_of_site
from tests.raising import raises

METHOD = fedavg(lr=1.0, epochs=200, batch_size=1000, weight_decay=0.0)


def rows(n=200):
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(n, 2))
    sick = x[:, 0] + numbers.logistic(size=n) > 1.5
    split = np.tile(["train", "train", "train", "val", "test"], n // 5)
    return {
        "site": ["a", "b"] * (n // 2),
        "u": x[:, 0],
        "v": x[:, 1],
        "sick": np.where(sick, "yes", "no"),
        "split": split,
    }


def tasks_of(table, **settings):
    return Tasks.from_frame(table, target="sick", split="split", **settings)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    table = rows()
    labels = table["sick"][table["split"] == "train"]
    expected = [len(labels) / (2 * (labels == one).sum()) for one in ("no", "yes")]
    assert tasks_of(table, class_weight="balanced").class_weight == pytest.approx(expected)
    weight = np.arange(200.0)
    own = weight[table["split"] == "train"]
    expected = [own.sum() / (2 * own[labels == one].sum()) for one in ("no", "yes")]
    assert tasks_of(table, class_weight="balanced", weight=weight).class_weight == pytest.approx(expected)
    assert tasks_of(table, class_weight={"yes": 4}).class_weight == (1.0, 4.0)


@pytest.mark.parametrize(("loss", "outputs"), [("cross_entropy", 2), ("bce", 1)])
def test_trained_on_whole_batches_it_is_the_regression_of_scikit_learn(loss: str, outputs: int) -> None:
    table = {name: np.array(values)[::2] for name, values in rows(400).items()}  # one site
    tasks = tasks_of(table, class_weight="balanced", loss=loss)
    result = run(METHOD, tasks, lambda tasks: nn.Linear(2, outputs), rounds=2)
    x, train = tasks.pools["samples"].inputs.double().numpy(), table["split"] == "train"
    model = LogisticRegression(C=1e9, class_weight="balanced", tol=1e-8, max_iter=1000).fit(
        x[train], table["sick"][train]
    )
    np.testing.assert_allclose(result.predict_proba("a", table), model.predict_proba(x), atol=2e-4)
    right = (model.predict(x) == table["sick"])[table["split"] == "test"].mean()
    assert float(result.scores("accuracy", "test")["accuracy"][0]) == pytest.approx(right)


def test_a_weight_is_a_repetition_in_the_loss_and_nothing_in_metrics() -> None:
    tasks = replace(tasks_of(rows()), class_weight=(1.0, 3.0))
    outputs, labels = torch.randn(6, 2), torch.tensor([0, 1, 1, 0, 0, 1])
    again = labels * 2 + 1
    found = objective_of(tasks)(outputs, labels, Context(None, {}))
    repeated = [one.repeat_interleave(again, 0) for one in (outputs, labels)]
    expected = as_objective("cross_entropy")(*repeated, Context(None, {})) * int(again.sum()) / 6
    torch.testing.assert_close(found, expected)
    loss = as_objective("cross_entropy")
    assert objective_of(replace(tasks, class_weight=())) == loss


def test_what_does_not_go_with_it_is_refused() -> None:
    table = rows()
    with raises("value", "class_weight", "'maybe'", "'yes'"):
        tasks_of(table, class_weight={"maybe": 2})
    with raises("value", "class_weight"):
        tasks_of(table, class_weight={"yes": 0})
    with raises("conflict", "class_weight", "'u'"):
        Tasks.from_frame(table, target="u", split="split", class_weight="balanced", leave_out=["sick"])
    with raises("conflict", "class_weight"):
        replace(tasks_of(table), loss=nn.CrossEntropyLoss(), class_weight=(1.0, 2.0))


def test_sites_that_keep_their_rows_name_the_weights() -> None:
    class Alone:
        def all_gather_object(self, value):
            return [value]

    table = {name: np.array(values)[::2] for name, values in rows().items() if name != "site"}
    how = {"target": "sick", "split": "split"}
    assert tasks_of_site(Alone(), "a", table, class_weight={"yes": 2}, **how).class_weight == (1.0, 2.0)
    with raises("value", "site 'a'") as found:
        tasks_of_site(Alone(), "a", table, class_weight="balanced", **how)
    assert "sites do not tell" in found.value.__notes__[0]
