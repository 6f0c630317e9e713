from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from graphcollab.components.rewire.choose_center import center_losses, draw_centers, take_centers
from graphcollab.engine import Rows, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import local
from graphcollab.testing import Scene
from tests.raising import raises


def stacks_of(module):
    spec = ParamSpec.from_module(module)
    return Stacks.single(spec, spec.flatten(module)[None])


@given(st.integers(2, 5), st.integers(0, 3), st.integers(0, 2))
def test_centers_have_the_entries_of_every_tensor(count, seed, attempt):
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    models = stacks_of(module)
    spec = models.specs[0]
    centers = draw_centers(models, "all", count, seed, attempt)
    for center in centers:
        for new, old in zip(spec.views(center), module.parameters(), strict=True):
            assert torch.equal(new.flatten().sort().values, old.flatten().sort().values)
    assert len({tuple(center.tolist()) for center in centers}) == count
    assert torch.equal(centers[0], models.tensors[0][0]) is (attempt == 0)


def test_seeds_and_attempts_draw_other_centers():
    models = stacks_of(nn.Linear(6, 4))
    drawn = [draw_centers(models, "all", 2, seed, attempt)[1] for seed, attempt in ((0, 0), (1, 0), (0, 1))]
    assert len({tuple(center.tolist()) for center in drawn}) == 3
    assert torch.equal(drawn[0], draw_centers(models, "all", 3, 0)[1])


def test_parameters_that_are_alike_cannot_be_drawn_from():
    module = nn.Linear(3, 2)
    nn.init.zeros_(module.weight), nn.init.ones_(module.bias)
    with raises("conflict", "centers"):
        draw_centers(stacks_of(module), "all", 2, seed=0)
    assert draw_centers(stacks_of(module), "all", 1, seed=0).shape == (1, 8)


@pytest.mark.parametrize("shared_head", [False, True])
def test_losses_are_those_of_nodes_with_the_centers_part(shared_head):
    data, env = Scene.small(shared_head=shared_head).play(local())
    centers = {"head": draw_centers(data.x_init, "head", 3, seed=0)}
    losses = center_losses(data, env, centers, round_=0)
    assert losses.shape == (6, 3)
    for center in range(3):
        rows = centers["head"][center].expand(6, -1)
        own = env.engine.loss(Rows.own(data.x.with_part("head", rows)), "train")
        assert torch.equal(losses[:, center], own)


def test_a_loss_without_value_is_the_worst():
    data, env = Scene.small().begin(local())
    centers = {"all": torch.stack([data.x.tensors[0][0], torch.full_like(data.x.tensors[0][0], torch.nan)])}
    assert center_losses(data, env, centers, 0)[:, 1].tolist() == [torch.inf] * 6


def test_few_samples_are_drawn_without_replacement_and_anew(points):
    """Losses of a point at 0 on one of the samples with c² / 2 = 2, 8, 18, and on two of them."""
    data, env = points([[[2.0], [4.0], [6.0]], [[2.0]]]).begin(local())
    centers = {"all": torch.zeros(1, 1, dtype=torch.float64)}
    one = [center_losses(data, env, centers, t, samples=1).flatten().tolist() for t in range(30)]
    two = [center_losses(data, env, centers, t, samples=2).flatten().tolist() for t in range(30)]
    assert {value for value, _ in one} == {2.0, 8.0, 18.0}
    assert {value for value, _ in two} == {5.0, 10.0, 13.0}  # means of two different ones
    assert {value for _, value in one + two} == {2.0}
    assert env.engine.tasks.sizes("train").tolist() == [3, 1]


def test_models_are_taken_by_place_or_all_from_one():
    data, _ = Scene.small().begin(local())
    centers = {"head": draw_centers(data.x, "head", 2, seed=0)}
    place = torch.tensor([0, 1, 1, 0, 1, 0])
    taken = take_centers(data.x, centers, place)
    assert torch.equal(taken.part("head"), centers["head"][place])
    assert torch.equal(taken.part("backbone"), data.x.part("backbone"))
    assert torch.equal(take_centers(data.x, centers, torch.tensor(1)).part("head"), centers["head"][[1] * 6])


def test_samples_of_weight_0_are_drawn_last(points):
    """Losses are c² / 2 = 2, 8, 18, with weights 0, 1, 3."""
    made = points([[[2.0], [4.0], [6.0]], [[2.0]]])
    pool = made.scene.tasks.pools["train"]
    weighted = replace(pool, weight=torch.tensor([0.0, 1.0, 3.0, 2.0], dtype=torch.float64))
    tasks = replace(made.scene.tasks, pools={**made.scene.tasks.pools, "train": weighted}, loss="mse")
    data, env = made.scene.replace(tasks=tasks).begin(local())
    centers = {"all": torch.zeros(1, 1, dtype=torch.float64)}
    drawn = {k: [float(center_losses(data, env, centers, t, samples=k)[0]) for t in range(30)] for k in (1, 2, 3)}
    assert set(drawn[1]) == {16.0, 36.0}
    assert set(drawn[2]) == set(drawn[3]) == {(16 + 3 * 36) / 4}
