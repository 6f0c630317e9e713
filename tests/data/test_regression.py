from __future__ import annotations

import numpy as np
import pytest
import torch

from graphcollab import build_model, run
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.data.partition.regression import linear_regression_truth
from graphcollab.methods import local
from graphcollab.train import Compute
from tests.raising import raises


def samples(tasks, split, nodes):
    own = tasks.splits[split]
    index = torch.cat([own.of(k) for k in nodes])
    pool = tasks.pools[own.pool]
    return pool.inputs[index].double().numpy(), pool.targets[index].double().numpy()


def test_shapes_and_clusters():
    tasks = linear_regression_tasks()
    assert tasks.num_nodes == 99
    assert tasks.cluster.tolist() == [k // 33 for k in range(99)]
    assert [tasks.sizes(s).unique().tolist() for s in ("train", "val", "test")] == [[50], [100], [500]]
    assert (tasks.loss, tasks.metric) == ("mse", "mse")
    inputs, targets = tasks.pools["test"].inputs, tasks.pools["test"].targets
    assert inputs.shape == (99 * 500, 10)
    assert targets.shape == (99 * 500,)
    assert inputs.dtype == targets.dtype == torch.float32


def test_distributions():
    """x is uniform in [-10, 10]: mean 0, variance 100 / 3; the noise is normal with standard deviation 3."""
    tasks = linear_regression_tasks()
    truth = linear_regression_truth().numpy()
    assert np.abs(truth).max() <= 10
    noise = []
    for c in range(3):
        x, y = samples(tasks, "test", range(33 * c, 33 * c + 33))
        assert np.abs(x).max() <= 10
        assert np.abs(x.mean(0)).max() < 0.3  # 6 standard errors: 6 * 5.77 / sqrt(16500)
        np.testing.assert_allclose(np.cov(x.T), np.eye(10) * 100 / 3, atol=1.5)
        noise.append(y - x @ truth[c])
    noise = np.concatenate(noise)
    assert abs(noise.mean()) < 0.07
    assert abs(noise.std() - 3) < 0.05
    assert abs((noise**4).mean() / 81 - 3) < 0.15  # a normal distribution's fourth moment


def test_without_noise_targets_are_exact():
    tasks = linear_regression_tasks((1, 2), dim=4, noise=0.0, seed=5)
    truth = linear_regression_truth(2, 4, seed=5).numpy()
    for c, nodes in enumerate(([0], [1, 2])):
        x, y = samples(tasks, "train", nodes)
        np.testing.assert_allclose(y, x @ truth[c], atol=1e-3)


def test_pooled_least_squares_reaches_the_noise():
    """Expected test error of least squares on n samples with d coefficients: about sigma^2 (1 + d / (n - d - 1))."""
    tasks = linear_regression_tasks()
    pooled, alone = [], []
    for c in range(3):
        nodes = range(33 * c, 33 * c + 33)
        x, y = samples(tasks, "test", nodes)
        pooled.append(((x @ np.linalg.lstsq(*samples(tasks, "train", nodes), rcond=None)[0] - y) ** 2).mean())
    for k in range(99):
        x, y = samples(tasks, "test", [k])
        alone.append(((x @ np.linalg.lstsq(*samples(tasks, "train", [k]), rcond=None)[0] - y) ** 2).mean())
    assert np.mean(pooled) == pytest.approx(9 * (1 + 10 / 1639), rel=0.02)
    assert np.mean(alone) == pytest.approx(9 * (1 + 10 / 39), rel=0.05)


def test_numbers_depend_on_what_they_are_for():
    few, many = linear_regression_tasks((2, 1), seed=1), linear_regression_tasks((3, 2, 1), train=20, seed=1)
    for one, other in ((0, 0), (1, 1), (2, 3)):
        for split, count in (("train", 20), ("val", 100), ("test", 500)):
            for a, b in zip(samples(few, split, [one]), samples(many, split, [other]), strict=True):
                np.testing.assert_array_equal(a[:count], b)
    x, _ = samples(few, "train", [0, 1, 2])
    assert len(np.unique(x)) == x.size
    assert torch.equal(linear_regression_truth(2, seed=1), linear_regression_truth(3, seed=1)[:2])
    assert not torch.equal(linear_regression_truth(seed=1), linear_regression_truth(seed=2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": ()}, ("empty", "nodes")),
        ({"nodes": (2, 0)}, ("value", "nodes")),
        ({"train": 0}, ("value", "train")),
        ({"dim": 0}, ("value", "dim")),
        ({"noise": -1.0}, ("value", "noise", "1.0")),
    ],
)
def test_refusals(arguments, message):
    with raises(*message):
        linear_regression_tasks(**arguments)


@pytest.mark.parametrize("model", [lambda: torch.nn.Linear(10, 1), lambda: build_model("mlp", (10,), 1, hidden=())])
def test_regression_runs_from_end_to_end(model):
    """Many small steps of local training come close to every node's own least squares; both backends agree."""
    tasks = linear_regression_tasks((2, 1))
    results = [
        run(
            local(epochs=20, lr=0.002, weight_decay=0.0),
            tasks,
            model,
            rounds=2,
            seed=1,
            compute=Compute(backend=backend),
        )
        for backend in ("vmap", "loop")
    ]
    for name in ("train_loss", "val_metric", "test_loss", "test_metric"):
        one, other = (result.history.last(name) for result in results)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for node, error in enumerate(results[0].history.last("test_metric").tolist()):
        x, y = samples(tasks, "train", [node])
        test, wanted = samples(tasks, "test", [node])
        best = np.linalg.lstsq(np.c_[x, np.ones(50)], y, rcond=None)[0]
        assert error == pytest.approx(((np.c_[test, np.ones(500)] @ best - wanted) ** 2).mean(), rel=0.2)


def test_relabeled_nodes_get_relabeled_results():
    tasks, model, order = linear_regression_tasks((2, 2)), torch.nn.Linear(10, 1), [3, 0, 2, 1]
    one, other = (run(local(lr=0.002), t, model, rounds=2, seed=2).history for t in (tasks, tasks.select(order)))
    torch.testing.assert_close(one.last("test_loss")[order], other.last("test_loss"))


def test_splits_may_be_left_out():
    assert list(linear_regression_tasks((1,), val=0, test=0).splits) == ["train"]
