"""What a run says where its models have diverged and are finite still, and a comparison, once for all trials."""

from __future__ import annotations

import math
import warnings

import torch
from torch import nn

from graphcollab import Tasks, compare, report, run
from graphcollab.methods import fedavg, local, pfedgraph


def nodes(level=100.0, count=4):
    """Linear targets about a level."""
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 80, 3, generator=draw)
    targets = level + inputs.sum(2) + 0.1 * torch.randn(count, 80, generator=draw)
    pairs = [[*zip(inputs[:, part], targets[:, part], strict=True)] for part in (slice(40), slice(40, 80))]
    return Tasks.from_samples(pairs[0], test=pairs[1], loss="mse", metric="mae")


def model():
    return nn.Linear(3, 1)


def heard(play):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = play()
    return result, [str(one.message) for one in caught]


def test_a_run_whose_errors_are_absurd_says_so():
    """Predictions of 0 have a squared error of about 100²."""
    result, told = heard(lambda: run(fedavg(lr=1.3, steps=1), nodes(), model, rounds=20))
    [finding] = result.history.findings
    assert (finding.numbers["round"], finding.code, finding.numbers["nodes"]) == (
        20,
        "diverged",
        tuple(result.tasks.names),
    )
    assert told == [finding.message]
    assert result.summary()["findings"] == [finding.message]
    zero = float(result.tasks.pools["test"].targets.square().mean())
    assert math.isfinite(result.summary()["mean"])
    assert float(result.history.final("test_loss").min()) > 10 * zero
    for part in (
        "fedavg: its models have diverged: the test loss of",
        "standardize the targets, which are large",
        "or use a smaller step size",
    ):
        assert part in finding.message


def test_a_run_that_learns_or_has_hardly_begun_says_nothing():
    for method in (local(lr=0.01), local(lr=1e-9)):
        result, told = heard(lambda method=method: run(method, nodes(), model, rounds=3))
        assert (result.history.findings, told) == ([], [])


def test_without_test_samples_it_is_said_of_validation():
    draw = torch.Generator().manual_seed(0)
    tasks = Tasks.from_samples(
        [(torch.randn(40, 3, generator=draw), torch.full((40,), 100.0))] * 3, loss="mse", metric="mae"
    )
    result, _ = heard(lambda: run(local(lr=1.3, steps=1), tasks, model, rounds=20))
    assert "the val loss of node 0" in result.history.findings[0].message


def test_a_site_whose_samples_are_near_zero_by_chance_has_not_diverged():
    """The one test sample of node 0 is 0, as an untrained model says, and 10 at the others."""
    x = torch.zeros(20, 3)
    nodes = [(x, torch.full((20, 1), 10.0))] * 3
    test = [(x[:1], torch.full((1, 1), target)) for target in (0.01, 10.0, 10.0)]
    tasks = Tasks.from_samples(nodes, test=test, loss="mse", metric="mae")
    result, told = heard(lambda: run(fedavg(lr=0.1, steps=1), tasks, model, rounds=20))
    assert float(result.history.final("test_loss")[0]) > 1
    assert (told, result.history.findings) == ([], [])


def test_a_comparison_says_it_once_and_in_its_table():
    make = {"fedavg": fedavg, "local": local}
    grids = {"*": {"lr": [1.3, 1.4], "steps": [1]}}
    found, told = heard(lambda: compare(make, lambda seed: nodes(), model, (0, 1), grids, rounds=20))
    assert {finding.code for trial in found.trials for finding in trial.findings} == {"diverged"}
    [text] = told
    assert text.endswith("(so it is with fedavg, lr=1.3, steps=1 on seed 0, and in 7 more trials)")
    assert found.rows()["local"]["findings"] == {"diverged": 2}
    assert str(report.results_table(found)).count("diverged") == 2


def test_a_comparison_says_of_a_method_what_its_weights_are_once():
    draw = torch.Generator().manual_seed(0)
    pairs = [(torch.randn(20, 3, generator=draw), torch.arange(20) % 2) for _ in range(6)]
    tasks = Tasks.from_samples(pairs[:3], test=pairs[3:])
    one = lambda **settings: pfedgraph(alpha=1e-6, snap=None, **settings)  # noqa: E731
    _, told = heard(lambda: compare({"one": one}, lambda seed: tasks, lambda: nn.Linear(3, 2), (0, 1, 2), rounds=5))
    [text] = told
    assert "its computed weights are all the own model's" in text
    assert text.endswith("(so it is with one on seed 0, and in 2 more trials)")


def test_failures_of_one_kind_are_warned_of_once():
    grids = {"local": {"lr": [1e30, 1e31, 1e-3]}}
    found, told = heard(lambda: compare({"local": local}, lambda seed: nodes(), model, (0, 1), grids, rounds=2))
    assert [trial.failure[:18] for trial in found.trials].count("NonFiniteLossError") == 4
    [text] = told
    assert text.startswith("local with lr=1e+30 failed on seed 0 and counts as the worst setting: NonFiniteLossError")
