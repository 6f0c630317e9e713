"""Several models by name: the best on validation samples is chosen for every arm, and said."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from graphcollab import Tasks, benefit, build_model, compare, methods
from graphcollab.analysis.arms import Arm
from graphcollab.report import benefit_answer
from tests.raising import raises

LINEAR = lambda: build_model("mlp", (4,), 2, hidden=())  # noqa: E731
LAYERS = lambda: build_model("mlp", (4,), 2, hidden=16)  # noqa: E731
MODELS = {"linear": LINEAR, "layers": LAYERS}


def tasks(seed=0):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 40, 4, generator=draw)
    y = (x[..., 0] + torch.randn(6, 40, generator=draw) > 0).long()
    return Tasks.from_samples(list(zip(x, y, strict=True)), metric="log_loss").hold_out(0.2, 0, into="test")


def test_an_arm_has_the_scores_of_the_chosen_model():
    """With one step size and one evaluation nothing else is chosen."""
    settings = {"repeats": 3, "rounds": 9, "evaluations": 1, "lrs": [0.1], "methods": {"dpsgd": methods.dpsgd}}
    found = benefit(tasks(), MODELS, **settings)
    one = {name: benefit(tasks(), model, **settings) for name, model in MODELS.items()}
    for arm in ("alone", "together", "dpsgd"):
        names = [choice.model for choice in found.picked[arm]]
        assert set(names) <= set(MODELS)
        for r, name in enumerate(names):
            torch.testing.assert_close(found.scores[arm][r], one[name].scores[arm][r], rtol=0, atol=0)
            assert str(found.picked[arm][r]) == f"{name}, lr=0.1, 9 rounds"
    names = [choice.model for choice in found.picked["alone"]]
    last = names[-1]
    assert f"{last} on {names.count(last)} of 3 splits" in benefit_answer(found)


def test_class_frequencies_take_the_place_of_models_that_do_no_better():
    """Nine of ten samples are of class 0, and after one short round a model says a half."""
    x, y = torch.zeros(3, 60, 4), (torch.arange(60) % 10 == 0).long()
    split = Tasks.from_samples([(one, y) for one in x], metric="log_loss")
    found = benefit(split, LINEAR, repeats=3, rounds=1, lrs=[1e-6], methods={})
    assert found.picked["alone"] == found.picked["together"] == [None] * 3
    assert found.flat == "the class frequencies"
    assert torch.equal(found.scores["alone"], found.constant)


def test_values_of_a_methods_settings_are_chosen_from():
    settings = {"repeats": 3, "rounds": 9, "evaluations": 1, "lrs": [0.1], "methods": {"ditto": methods.ditto}}
    values = [0.0, 1e6]  # of which the last is too strong a pull to stay finite, or to learn
    found = benefit(tasks(), LINEAR, grids={"ditto": {"lam": values}}, **settings)
    assert [*map(str, found.picked["ditto"])] == ["lr=0.1, lam=0.0, 9 rounds"] * 3
    assert [*map(str, found.picked["alone"])] == ["lr=0.1, 9 rounds"] * 3
    alone = benefit(tasks(), LINEAR, **settings | {"methods": {"ditto": partial(methods.ditto, lam=0.0)}})
    assert torch.equal(found.scores["ditto"], alone.scores["ditto"])
    with raises("conflict", "grids", "epochs"):
        benefit(tasks(), LINEAR, grids={"*": {"epochs": [1]}}, **settings)
    with raises("unknown", "grids", "ditto"):
        benefit(tasks(), LINEAR, grids={"dito": {"lam": values}}, **settings)


def test_the_model_that_can_learn_the_target_is_chosen():
    """The target is a product of two inputs, of which a linear model knows nothing."""
    x = torch.randn(3, 400, 4, generator=torch.Generator().manual_seed(1))
    y = (x[..., 0] * x[..., 1] > 0).long()
    split = Tasks.from_samples(list(zip(x, y, strict=True)), metric="log_loss")
    found = benefit(split, MODELS, repeats=3, rounds=10, lrs=[0.3], methods={})
    assert {choice.model for arm in ("alone", "together") for choice in found.picked[arm]} == {"layers"}


def test_sites_of_other_units_have_the_same_say():
    """Divided by 1, 1 and 5 the means are 0.8 and 0.9; where little is lost at a site that of the median counts."""
    loss = torch.tensor([[[0.5, 0.9, 5.0]], [[0.8, 1.0, 4.5]]])
    arm = Arm([("", {}), ("", {})], loss, torch.zeros(1, 1, 2, 1, 3))
    assert arm.choose(torch.tensor([1.0, 1.0, 5.0]))[1] == (0, 0)
    assert arm.choose(torch.tensor([1.0, 1.0, 1.0]))[1] == (1, 0)
    assert arm.choose(torch.tensor([0.01, 1.0, 5.0]))[1] == (0, 0)  # by 1: 0.8, else 50 times what is usual
    assert replace(arm, classes=True).choose(torch.tensor([1.0, 1.0, 5.0]))[1] == (1, 0)


def test_a_setting_that_lets_a_site_explode_is_not_chosen():
    """The first is better at three sites of four."""
    loss = torch.tensor([[[0.2, 0.2, 0.2, 1e15]], [[1.0, 1.0, 1.0, 1.0]], [[0.5, 0.5, 0.5, 12.0]]])
    arm = Arm([("linear", {"lr": lr}) for lr in (0.3, 0.1, 0.2)], loss, torch.zeros(1, 1, 3, 1, 4))
    usual = torch.tensor([1.0, 1.0, 1.0, 1.0])
    assert arm.choose(usual)[1] == (1, 0)
    assert replace(arm, loss=loss.clamp(max=3.0)).choose(usual)[1] == (0, 0)  # 0.9 in the mean
    assert replace(arm, loss=loss.where(loss < 9, torch.nan)).choose(usual)[1] == (1, 0)
    at = replace(arm, loss=torch.tensor([[[0.0, 0.0, 20.0]], [[9.0, 9.0, 9.0]]]), settings=arm.settings[:2])
    assert at.choose(torch.ones(3))[1] == (1, 0)  # of which the mean is larger, but no site's loss is wild


def test_constants_take_the_place_of_models_where_the_mean_loss_says_so_too():
    """At the third site of three its own mean is hard to beat, by 12 times what is usual, but not in the mean."""
    loss, flat = torch.tensor([[[0.2, 0.2, 2.4]]]), torch.tensor([2.0, 2.0, 0.1])
    scores = torch.ones(1, 1, 3)
    arm = Arm([("", {})], loss, torch.zeros(1, 1, 1, 1, 3), (flat, scores))
    usual = torch.tensor([0.2, 0.2, 0.1])
    assert arm.choose(usual)[1] == (0, 0)  # 2.8 / 3 and 4.1 / 3
    assert replace(arm, constant=(flat / 2, scores)).choose(usual)[1] is None  # 2.05 / 3


def test_a_comparison_tries_every_model_with_every_setting():
    grid = {"*": {"lr": [0.1, 0.3]}}
    found = compare({"fedavg": methods.fedavg}, tasks, MODELS, seeds=(0, 1), grids=grid, rounds=2)
    points = [dict(trial.setting) for trial in found.trials[:4]]
    assert points == [{"model": name, "lr": lr} for name in MODELS for lr in (0.1, 0.3)]
    for name, model in MODELS.items():
        alone = compare({"fedavg": methods.fedavg}, tasks, model, seeds=(0, 1), grids=grid, rounds=2)
        of_model = [trial for trial in found.trials if trial.setting["model"] == name]
        assert [one.validation for one in of_model] == [one.validation for one in alone.trials]
    means = {
        (name, lr): sum(t.validation for t in found.trials if t.setting == {"model": name, "lr": lr}) / 2
        for name in MODELS
        for lr in (0.1, 0.3)
    }
    best = found.chosen["fedavg"][0].setting
    assert (best["model"], best["lr"]) == min(means, key=means.get)


@pytest.mark.parametrize("ask", [lambda: benefit(tasks(), {}), lambda: compare({"local": methods.local}, tasks, {})])
def test_no_model_to_choose_from_is_refused(ask):
    with raises("empty", "model"):
        ask()
