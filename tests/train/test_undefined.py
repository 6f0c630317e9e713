"""A node for which the metric is not defined is named once."""

from __future__ import annotations

import warnings

import pytest
import torch

from graphcollab import Tasks, build_model, compare, run
from graphcollab.methods import dac, local
from tests.raising import warns

TABLE = {
    "site": ["a", "b", "c"] * 20,
    "x": [k % 7 for k in range(60)],
    "y": [k // 3 % 2 * (k % 3 > 0) for k in range(60)],  # all rows of a are of class 0
}


def of_table(seed: int) -> Tasks:
    return Tasks.from_frame(TABLE, metric="auc", seed=seed)


def of_samples(seed: int) -> Tasks:
    draw = torch.Generator().manual_seed(seed)
    sites = {name: (torch.randn(20, 2, generator=draw), torch.arange(20) % 2 * (name != "a")) for name in "abc"}
    return Tasks.from_samples(sites, test=sites, metric="auc")


def model(tasks: Tasks):
    return build_model("mlp", tasks.input_shape, 2, hidden=4)


def undefined_warnings(heard) -> list[str]:
    return [str(one.message) for one in heard if "not defined" in str(one.message)]


@pytest.mark.parametrize(("tasks", "who"), [(of_table, "site 'a'"), (of_samples, "(a; split val, test)")])
def test_a_run_and_its_scores_name_a_node_once(tasks, who) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = run(local(), tasks(0), model, rounds=2)
        scores = [result.scores(), result.scores(["auc", "brier"]), result.scores("auc", "val")]
    assert len(undefined_warnings(heard)) == 1
    assert who in undefined_warnings(heard)[0]
    assert all(one.undefined("auc") == ["a"] for one in scores)
    assert result.summary()["ignored"] == 1


@pytest.mark.parametrize(
    ("tasks", "who", "jobs"),
    [(of_table, "site 'a'", 1), pytest.param(of_samples, "(a; split val, test)", 2, marks=pytest.mark.slow)],
)
def test_a_comparison_names_a_node_once(tasks, who, jobs) -> None:
    methods = {"local": local, "dac": dac}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = compare(methods, tasks, model, range(2), rounds=1, n_jobs=jobs)
        found.results["dac"].scores()
    assert len(undefined_warnings(heard)) == 1
    assert who in undefined_warnings(heard)[0]


def test_other_metrics_and_other_nodes_are_named_all_the_same() -> None:
    with warns("quality", "metric", "'a'"):
        tasks = of_table(0)
    result = run(local(), tasks, model, rounds=1)
    with warns("quality", "metric 'auc'", "1", "3"):
        result.scores(split="train")  # nothing was said of training samples
    words = [["train", "test"][k >= 30] for k in range(60)]
    y = [k // 3 % 2 * (k % 3 > 0) * (k < 30 or k % 3 == 1) for k in range(60)]  # in testing c has one class, too
    table = {**TABLE, "y": y, "part": words}
    with warns("quality", "metric", "'a'"):
        tasks = Tasks.from_frame(table, metric="auc", split="part", val_fraction=0)
    with warns("quality", "metric 'auc'", "2", "3"):
        run(local(), tasks, model, rounds=1)
