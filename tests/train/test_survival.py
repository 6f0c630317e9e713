"""Times until an event that may be censored: Cox's partial likelihood, and Harrell's C."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from graphcollab import Tasks, run
from graphcollab.analysis import resplit
from graphcollab.analysis.baseline import require_baseline
from graphcollab.analysis.constants import constants
from graphcollab.analysis.held import rarer_held
from graphcollab.analysis.metrics.classification import concordance
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context
from graphcollab.methods import fedavg
from graphcollab.train import Compute
from tests.raising import raises


def rows(n=240, seed=0):
    """Return columns of three sites with times, rounded so that some are equal, that follow two inputs."""
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(n, 2))
    died, left = numbers.exponential(np.exp(0.8 * x[:, 1] - 1.2 * x[:, 0])), numbers.exponential(1.5, n)
    time = np.ceil(10 * np.minimum(died, left))
    site = np.array(["a", "b", "c"])[numbers.integers(0, 3, n)]
    split = np.tile(["train", "train", "train", "val", "test"], n // 5)
    status = (died <= left).astype(int)
    return {"site": site, "u": x[:, 0], "v": x[:, 1], "time": time, "status": status, "split": split}


def tasks_of(table, **settings):
    return Tasks.from_frame(table, target="time", event="status", **{"split": "split", **settings})


def linear(tasks):
    return nn.Linear(*tasks.input_shape, 1)


def partial_likelihood(risk, time, event):
    """Return minus the mean over events of the logarithm of Breslow's partial likelihood, event by event."""
    terms = [np.log(np.exp(risk[time >= time[i]]).sum()) - risk[i] for i in np.flatnonzero(event)]
    return sum(terms) / len(terms)


def c_index(risk, time, event):
    """Return Harrell's C, pair by pair."""
    won = []
    for i, j in itertools.permutations(range(len(risk)), 2):
        if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
            won.append(float(risk[i] > risk[j]) + 0.5 * float(risk[i] == risk[j]))
    return np.mean(won) if won else math.nan


def test_the_loss_by_hand() -> None:
    """Events at 1 and 2, of risks 1 and 2; at 2 somebody else is censored, who is still at risk then."""
    outputs, targets = torch.tensor([1.0, 2.0, 3.0]).log(), torch.tensor([[1.0, 1], [2, 1], [2, 0]])
    expected = (math.log(6 / 1) + math.log(5 / 2)) / 2
    assert float(as_objective("cox")(outputs, targets, Context(None, {}))) == pytest.approx(expected)


def test_a_batch_without_events_says_nothing() -> None:
    outputs = torch.randn(4, 1, requires_grad=True)
    loss = as_objective("cox")(outputs, torch.tensor([[1.0, 0], [2, 0], [2, 0], [3, 0]]), Context(None, {}))
    assert loss.item() == 0.0
    assert torch.autograd.grad(loss, outputs)[0].eq(0).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_and_the_metric_with_ties(seed: int) -> None:
    draw = np.random.default_rng(seed)
    risk, time, event = draw.normal(size=(3, 25)).round(1), draw.integers(1, 9, (3, 25)), draw.integers(0, 2, (3, 25))
    outputs, targets = torch.tensor(risk)[..., None], torch.tensor(np.stack([time, event], -1)).double()
    losses = as_objective("cox").rows(outputs, targets, Context(None, {}))
    pairs = [*zip(risk, time, event, strict=True)]
    np.testing.assert_allclose(losses, [partial_likelihood(*one) for one in pairs])
    np.testing.assert_allclose(concordance(outputs, targets), [c_index(*one) for one in pairs])


def test_no_pairs_have_no_concordance() -> None:
    assert concordance(torch.randn(1, 3), torch.tensor([[[1.0, 0], [2, 0], [3, 1]]])).isnan().all()


@pytest.mark.parametrize("backend", ["auto", "vmap", "loop"])
def test_trained_on_whole_sites_it_is_the_regression(backend: str) -> None:
    table = rows()
    one = {name: values[table["site"] == "a"] for name, values in table.items()}
    how = {"auto": linear, "vmap": lambda tasks: nn.Sequential(nn.Linear(2, 1, bias=False), nn.Identity())}
    method = fedavg(lr=1.0, epochs=25, batch_size=1000, weight_decay=0.0)
    result = run(method, tasks_of(one), how.get(backend, linear), rounds=4, compute=Compute(backend=backend))
    train, x = one["split"] == "train", result.tasks.pools["samples"].inputs.double().numpy()
    time, event = one["time"][train], one["status"][train]
    best = minimize(lambda slopes: partial_likelihood(x[train] @ slopes, time, event), np.zeros(2), tol=1e-10).x
    found, expected = result.predict("a", one), x @ best
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=2e-3)
    test = one["split"] == "test"
    wanted = c_index(expected[test], one["time"][test], one["status"][test])
    assert float(result.scores(split="test")["concordance"][0]) == pytest.approx(wanted)


def test_events_are_dealt_to_all_parts_and_constants_are_chance() -> None:
    drawn = tasks_of({name: one for name, one in rows().items() if name != "split"}, split=None)
    for tasks in (drawn, resplit(drawn, 1), tasks_of(rows(), split=None, columns=["u", "v"]).hold_out(0.3)):
        for k in range(3):
            share = [float(tasks.pools[s.pool].targets[s.of(k), 1].mean()) for s in tasks.splits.values()]
            assert max(share) - min(share) < 0.12
    _, scores = constants(drawn, [concordance], ["test"], (1,))
    assert scores.tolist() == [[[0.5] * 3]]


def test_other_codings_of_events() -> None:
    table = rows(60)
    expected = tasks_of(table).pools["samples"].targets
    with pytest.warns(match="has 1 and 2: 2 is taken"):
        found = tasks_of({**table, "status": table["status"] + 1})
    assert found.pools["samples"].targets.equal(expected)
    words = np.array(["False", "TRUE"])[table["status"]]
    assert tasks_of({**table, "status": words}).pools["samples"].targets.equal(expected)
    with raises("value", "column 'status'", "row 3", "7"):
        tasks_of({**table, "status": np.where(np.arange(60) == 3, 7, table["status"])})
    with raises("value", "column 'status'", "0 and 2"):
        tasks_of({**table, "status": table["status"] + np.eye(60, dtype=int)[int(table["status"].argmax())]})


def test_what_does_not_go_with_it_is_refused() -> None:
    table = rows(60)
    for wrong in ({"event": None, "loss": "cox"}, {"loss": "mse"}):
        with raises("conflict", "event"):
            tasks_of(table, **wrong) if "event" not in wrong else Tasks.from_frame(table, target="time", loss="cox")
    with raises("conflict", "metric", "'mae'", "'concordance'"):
        tasks_of(table, metric="mae")
    with raises("conflict", "metric", "loss='cox'"):
        Tasks.from_frame(table, target="time", loss="mse", metric="concordance")
    with raises("conflict", "weight"):
        tasks_of(table, weight=np.ones(60))
    with raises("value", "column 'time'", "row 5", "-1"):
        tasks_of({**table, "time": np.where(np.arange(60) == 5, -1.0, table["time"])})
    with raises("unsupported", "baseline"):
        require_baseline(tasks_of(table), (), "sklearn")
    tasks = tasks_of(table)
    pool = tasks.pools["samples"]
    with raises("shape", "targets"):
        replace(tasks, pools={"samples": replace(pool, targets=pool.targets[:, 0])})
    with raises("shape", "outputs"):
        run(fedavg(lr=0.1), tasks, nn.Linear(2, 2), rounds=1)
    with raises("value", "targets"):
        run(
            fedavg(lr=0.1), replace(tasks, pools={"samples": replace(pool, targets=pool.targets + 1)}), linear, rounds=1
        )


def test_sites_with_few_events_are_named() -> None:
    table = rows(120)
    table["status"] = np.where(table["site"] == "b", 0, table["status"])
    with pytest.warns(match="fewer than 5 events were seen at some sites .'b' 0"):
        tasks = tasks_of(table)
    assert [one.numbers["sites"] for one in tasks.findings if one.code == "few-events"] == [["b"]]


def test_events_among_test_rows_are_counted() -> None:
    """Sites have events in two of four rows, and b has none."""
    table = rows(120)
    table["status"] = np.where(table["site"] == "b", 0, np.arange(120) % 4 < 2)
    with pytest.warns(match="fewer than 5 events"):
        tasks = tasks_of(table)
    split = tasks.splits["test"]
    own = {name: tasks.pools["samples"].targets[split.of(k), 1] for k, name in enumerate(tasks.names)}
    assert rarer_held(tasks).tolist() == [float(own[name].sum()) for name in tasks.names]
    assert float(own["b"].sum()) == 0


def test_columns_that_look_like_it_ask_for_it() -> None:
    table = rows(120)
    with pytest.warns(match="event='status'"):
        Tasks.from_frame(table, target="time", split="split", loss="mse")
    with pytest.warns(match="target='time' and event='status'"):
        Tasks.from_frame(table, target="status", split="split")
