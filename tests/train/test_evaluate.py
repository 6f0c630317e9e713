"""A model that has diverged is found when it is judged, and is never better for it."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab import Tasks, compare, run
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.trial import Trial
from graphcollab.components import EarlyStopping
from graphcollab.engine import NonFiniteLossError
from graphcollab.methods import fedavg, local
from graphcollab.persistence import History
from graphcollab.train.evaluation import out_of_patience, remember_best
from tests.raising import raises, warns


def tasks(scale=1e12, seed=0, **settings):
    """Four nodes that learn 0 or 1 by squared error; the inputs of node 0 are out of scale."""
    draw = torch.Generator().manual_seed(seed)
    nodes = []
    for k in range(4):
        x = torch.randn(20, 3, generator=draw)
        y = (x[:, :1] + 0.5 * torch.randn(20, 1, generator=draw) > 0).float()
        nodes.append((x * (scale if k == 0 else 1), y))
    given = {"val": [(x[:10], y[:10]) for x, y in nodes], "test": nodes, **settings}
    return Tasks.from_samples(nodes, **{"loss": "mse", "metric": "auc", **given})


def make():
    return nn.Linear(3, 1)


def test_the_setting_that_breaks_a_node_in_its_last_step_is_never_chosen():
    grid = {"local": {"lr": [0.3, 1e-30], "steps": [1], "weight_decay": [0.0]}}
    with warns("diverged", "method 'local'", "0.3", "0"):
        found = compare({"local": local}, lambda seed: tasks(), make, [0], grid, rounds=1)
    assert found.chosen["local"][0].setting["lr"] == 1e-30
    assert found.rows()["local"]["mean"] == pytest.approx(found.chosen["local"][0].summary["mean"])


@pytest.mark.parametrize("held", ["val", "test", "train"])
def test_a_diverged_node_is_named_with_round_and_split(held):
    broken = tasks(**({"val": None, "val_fraction": 0, "test": None} if held == "train" else {}))
    if held == "test":
        broken = tasks(val=None, val_fraction=0)
    with raises("diverged", "node 'node 0'", f"{held} samples after 1 round", kind=NonFiniteLossError):
        run(local(steps=1, lr=0.3), broken, make, rounds=1)


def test_predictions_that_are_not_finite_are_found_where_the_loss_does_not_read_them():
    class Root(nn.Linear):
        def forward(self, x):
            return torch.cat([super().forward(x), self.weight.detach().sum().sub(100).sqrt().expand(len(x), 1)], 1)

    def first(outputs, targets):
        return (outputs[:, :1] - targets).square().mean()

    with raises("diverged", "node 'node 0'", "3", kind=NonFiniteLossError):
        run(
            local(steps=1),
            tasks(1.0, loss=first, metric=Metric.per_node("none", True, lambda o, t: 0.0)),
            lambda: Root(3, 1),
            rounds=1,
        )


def test_a_metric_that_is_not_defined_is_no_divergence():
    one = [(torch.randn(6, 3), torch.ones(6, 1)), *[(torch.randn(6, 3), torch.tensor([[0.0], [1.0]] * 3))] * 2]
    with warns("quality", "metric 'auc'", "0"):
        result = run(local(steps=1), Tasks.from_samples(one, one, one, loss="mse", metric="auc"), make, rounds=2)
    summary = result.summary()
    assert (summary["nodes"], summary["ignored"]) == (2, 1)


def test_where_a_metric_is_not_defined_is_counted_by_split():
    """As tables do: validation lacks a class at node 0, test at nodes 1 and 2."""
    both, single = (torch.randn(6, 3), torch.tensor([[0.0], [1.0]] * 3)), (torch.randn(6, 3), torch.ones(6, 1))
    made = Tasks.from_samples(
        [both] * 4, [single, both, both, both], [both, single, single, both], loss="bce", metric="auc"
    )
    of = ("1 of 4 sites (node 0; split val)", "2 of 4 sites (node 1, node 2; split test)")
    over = ("3 of 4 sites (split val)", "2 of 4 sites (split test)")
    with warns("quality", "metric 'auc'", *of, *over):
        run(local(steps=1), made, make, rounds=1)


def test_large_targets_are_named_where_a_loss_is_not_finite():
    x, y = torch.randn(8, 3), 1000 + 30 * torch.tensor([[1.0], [-1.0]] * 4)
    with raises("diverged", "node 'node 0'", "1000", "30", kind=NonFiniteLossError):
        run(local(lr=10, steps=100), Tasks.from_samples([(x, y)], loss="mse", metric="mse"), make, rounds=5)
    with pytest.raises(NonFiniteLossError) as error:
        run(
            local(lr=1e9, steps=100),
            Tasks.from_samples([(x, (y - 1000) / 30)], loss="mse", metric="mse"),
            make,
            rounds=5,
        )
    assert "large" not in str(error.value)


def test_a_node_that_is_only_found_when_judged_leaves_the_mean_without_a_value():
    """Where nodes are isolated, training goes on; the test samples of node 0 overflow."""
    nodes = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)]
    test = [(x * (1e30 if k == 0 else 1), y) for k, (x, y) in enumerate(nodes)]
    made = Tasks.from_samples(nodes, test=test, loss="mse", metric="mse")
    with warns("diverged", "node 'node 0'", "1"):
        result = run(local(steps=1), made, make, rounds=1, on_nonfinite="isolate")
    assert not result.history.isolated
    assert result.summary()["diverged"] == 1
    assert math.isnan(result.summary()["mean"])
    assert math.isfinite(result.history.mean("val_metric")[0])


def history_of(metrics, losses):
    history = History(("a", "b"))
    for t, (metric, loss) in enumerate(zip(metrics, losses, strict=True)):
        history.add(t + 1, 0.0, {"val_metric": torch.tensor(metric), "val_loss": torch.tensor(loss)})
    return history


def test_a_mean_is_not_better_for_a_node_that_diverged():
    nan, inf = math.nan, math.inf
    history = history_of([[0.9, nan], [0.9, nan]], [[0.1, 0.2], [0.1, inf]])
    assert history.mean("val_metric")[0] == pytest.approx(0.9)  # not defined for b
    assert math.isnan(history.mean("val_metric")[1])  # b has diverged
    assert history.mean("val_loss")[1] == inf
    assert math.isnan(history.summary("val_metric")["mean"])
    assert history.summary("val_metric")["diverged"] == 1


def test_undefined_evaluations_use_up_no_patience():
    nan = math.nan
    history = history_of(
        [[nan, nan], [0.5, 0.5], [nan, nan], [nan, nan], [0.4, 0.4], [nan, nan], [0.3, 0.3]], [[1.0, 1.0]] * 7
    )
    data, stops, best = Data(), [], []
    values, losses = history.values["val_metric"], history.values["val_loss"]
    for t in range(7):
        part = History(history.names, rounds=history.rounds[: t + 1], seconds=history.seconds[: t + 1])
        part.values = {"val_metric": values[: t + 1], "val_loss": losses[: t + 1]}
        data = remember_best(data, part)
        stops.append(out_of_patience(data, part, 2))
        best.append(data.best["evaluation"] if "best" in data else None)
    assert best == [None, 1, 1, 1, 1, 1, 1]
    assert stops == [False] * 6 + [True]


def test_early_stopping_does_not_count_undefined_losses(monkeypatch):
    """Every second validation loss is undefined; with a patience of 2 a node waits for two that are not."""
    from graphcollab.components import stop

    scores = iter(
        [[1.0] * 4, [1.0] * 4] + [[math.nan] * 4] * 4 + [[2.0] * 4] * 2 + [[math.nan] * 4] * 2 + [[2.0] * 4] * 2
    )

    def scored(engine, rows, split, metric):
        values = torch.tensor(next(scores), dtype=torch.float64)
        return values, values

    monkeypatch.setattr(stop, "score_rows", scored)
    method = local(steps=1, lr=1e-30).replace(stop=EarlyStopping(2))
    result = run(method, tasks(1.0), make, rounds=50)
    assert result.data.round == 6


def test_a_summary_without_test_samples_says_what_it_is_of():
    result = run(local(steps=1), tasks(1.0, test=None), make, rounds=1)
    summary = result.summary()
    assert summary["of"] == "val_metric"
    assert summary["mean"] == pytest.approx(result.history.mean("val_metric")[-1])
    assert "no node has test samples" in summary["missing"]
    bare = run(local(steps=1), tasks(1.0, test=None, val=None, val_fraction=0), make, rounds=1).summary()
    assert bare["of"] == "train_loss"
    assert "validation" in bare["missing"]
    assert "missing" not in run(local(steps=1), tasks(1.0), make, rounds=1).summary()


@pytest.mark.parametrize(("nodes", "empty", "worst"), [
    (9, 0, set()), (10, 0, {"worst20"}), (10, 5, set()), (10, 4, {"worst20"}), (19, 0, {"worst20"}),
    (20, 0, {"worst10", "worst20"}), (20, 9, {"worst10", "worst20"}), (20, 10, {"worst20"}),
])  # fmt: skip
def test_a_summary_has_the_worst_nodes_where_they_are_two_or_more(nodes, empty, worst):
    train = [(torch.randn(3, 3), torch.ones(3, 1))] * nodes
    test = [(torch.randn(2 * (k >= empty), 3), torch.ones(2 * (k >= empty), 1)) for k in range(nodes)]
    result = run(local(steps=1), Tasks.from_samples(train, test=test, loss="mse", metric="mse"), make, rounds=1)
    summary = result.summary()
    assert {key for key in summary if key.startswith("worst")} == worst
    values = result.history.final("test_metric")
    values = values[~values.isnan()].sort(descending=True).values
    for key in worst:
        assert summary[key] == pytest.approx(float(values[: 2 if key == "worst10" else -(-len(values) // 5)].mean()))
    trial = Trial.from_result("local", 0, {}, result)
    assert trial.summary["worst10"] == pytest.approx(float(values[: -(-len(values) // 10)].mean()))


def test_a_trial_knows_how_many_nodes_its_means_are_over():
    one = [(torch.randn(6, 3), torch.ones(6, 1)), *[(torch.randn(6, 3), torch.tensor([[0.0], [1.0]] * 3))] * 2]
    made = Tasks.from_samples(one, one, one, loss="mse", metric="auc")
    with warns("quality", "metric 'auc'"):
        found = compare({"fedavg": partial(fedavg, steps=1)}, lambda seed: made, make, [0], rounds=1)
    row = found.rows()["fedavg"]
    assert (row["nodes"], row["of_nodes"]) == (2, 3)
    assert isinstance(found.trials[0], Trial)


def test_a_summary_names_the_metric_and_units_of_standardized_targets():
    table = {"site": ["a", "b"] * 20, "x": range(40), "cost": [1000.5 * (k % 7) for k in range(40)]}
    made = Tasks.from_frame(table, target="cost", metric="mae", standardize_target=True)
    summary = run(local(steps=1), made, nn.Linear(1, 1), rounds=1).summary()
    assert summary["metric"] == "mae"
    assert summary["units"].startswith("mae: targets were standardized, so errors are in standard deviations of 'cost'")
    assert "units" not in run(local(steps=1), tasks(1.0), make, rounds=1).summary()
