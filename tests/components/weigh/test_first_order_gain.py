"""Weights by the fall of the own validation loss per distance, by hand and against plain loops."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.comm import Plane
from graphcollab.components import Env, Exchange, FirstOrderGain
from graphcollab.components.weigh.first_order_gain import gain_weights
from graphcollab.engine import Rows
from graphcollab.methods import fomo, local
from graphcollab.testing import Scene
from tests.raising import raises

STAR = torch.tensor([[0, 1, 2], [0, 0, 0]])


class Engine:
    """Knows the losses of models on node 0's data: of the base, and of what nodes send."""

    tasks = SimpleNamespace()

    def __init__(self, base, sent, start):
        self.base, self.sent, self.start = base, torch.tensor(sent), start

    def loss(self, rows, split):
        assert split == "val"
        return torch.tensor([self.base]) if rows.source is self.start else self.sent[rows.index]


def star(make_graph, base, losses, norm="l2", models=((1.0, 0.0), (0.0, 2.0), (0.0, -1.0))):
    data = make_graph([[0.0, 0.0]] * 3, models, STAR)
    env = Env(Engine(base, losses, data.x_start), Plane(), 0)
    return FirstOrderGain(norm=norm)(data, env), env


def test_by_hand(make_graph):
    # Loss 1 at the base, .5, .8 and 1.2 at distances 1, 2 and 1.
    data, env = star(make_graph, 1.0, [0.5, 0.8, 1.2])
    assert data.edge_gain.tolist() == pytest.approx([0.5, 0.1, -0.2], abs=1e-7)
    assert data.edge_weight.tolist() == pytest.approx([0.833333, 0.166667, 0], abs=1e-6)
    assert data.scores.edge_index.tolist() == [[1, 2], [0, 0]]
    assert data.bytes_sent.tolist() == [0, 0, 8]  # node 2's model traveled in vain; the exchange counts node 1's
    after = Exchange("x_start", "x", against="x_start")(data, env)
    assert after.x.part("all")[0].tolist() == pytest.approx([0.833333, 0.333333], abs=1e-6)
    assert after.bytes_sent.tolist() == [0, 8, 8]


def test_the_published_code_measures_in_the_other_norm(make_graph):
    models = ((3.0, 4.0), (0.0, 2.0), (0.0, -1.0))
    data, _ = star(make_graph, 1.0, [0.3, 0.8, 1.2], models=models)
    assert data.edge_gain[0].item() == pytest.approx(0.7 / 5)
    data, _ = star(make_graph, 1.0, [0.3, 0.8, 1.2], "l1", models)
    assert data.edge_gain[0].item() == pytest.approx(0.7 / 7)
    assert data.edge_weight.tolist() == pytest.approx([0.5, 0.5, 0], abs=1e-6)  # .1 and .2 / 2


def test_where_no_model_helps_the_base_is_kept(make_graph):
    data, env = star(make_graph, 1.0, [1.0, 1.5, 9.0])
    assert data.edge_weight.tolist() == [0, 0, 0]
    assert Exchange("x_start", "x", against="x_start")(data, env).x.part("all")[0].tolist() == [0, 0]


def test_models_at_the_base_and_models_without_a_loss_have_no_gain(make_graph):
    models = ((0.0, 0.0), (0.0, 2.0), (0.0, -1.0))
    for loss in (0.1, float("inf"), float("nan")):
        data, _ = star(make_graph, 1.0, [0.1, 0.8, loss if loss > 1 or loss != loss else 2.0], models=models)
        assert data.edge_gain[0].item() == 0
        assert data.edge_weight.tolist() == [0, 1, 0]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_model_at_the_base_but_for_rounding_has_no_gain(make_graph, norm):
    """Node 1 took node 0's model over, and sees it again one rounding away: 9.5e-7 beside 8, of 1.2e-7 · 8 each."""
    data = make_graph([[8.0, 0.0]] * 3, ((8.0 + 2**-20, 0.0), (8.0, 2.0), (8.0, 2**-15)), STAR)
    # Loss differences are far above rounding; the third distance, 3.1e-5, is a step.
    data = FirstOrderGain(norm=norm)(data, Env(Engine(1.0, [0.5, 0.8, 1.2], data.x_start), Plane(), 0))
    assert data.edge_gain.tolist() == pytest.approx([0, 0.1, -0.2 * 2**15], rel=1e-6)
    assert data.edge_weight.tolist() == [0, 1, 0]


def test_losses_that_differ_by_rounding_are_equal(make_graph):
    models = ((1.0, 0.0), (0.0, 2.0), (0.0, -1.0))
    data = make_graph([[0.0, 0.0]] * 3, models, STAR)
    # 4 - 2⁻²¹ is the second number below 4 in single precision; 4 - 2⁻¹⁶ is as far as 64 numbers.
    losses = [4.0 - 2**-21, 4.0 - 2**-16, 4.0 + 2**-21]
    data = FirstOrderGain()(data, Env(Engine(4.0, losses, data.x_start), Plane(), 0))
    assert data.edge_gain.tolist() == pytest.approx([0, 2**-17, 0], rel=1e-6)
    assert data.edge_weight.tolist() == [0, 1, 0]


def test_in_double_precision_the_same_numbers_are_no_rounding(make_graph):
    sent = torch.tensor([[8.0 + 2**-20, 0.0], [8.0, 2.0], [8.0, -1.0]], dtype=torch.float64)
    data = make_graph(torch.tensor([[8.0, 0.0]] * 3, dtype=torch.float64), sent, STAR)
    data = FirstOrderGain()(data, Env(Engine(1.0, [0.5, 0.8, 1.2], data.x_start), Plane(), 0))
    assert data.edge_gain.tolist() == pytest.approx([2**19, 0.1, -0.2], rel=1e-6)


def test_nodes_at_rest_are_not_measured(make_graph):
    data = make_graph([[0.0, 0.0]] * 3, ((1.0, 0.0), (0.0, 2.0), (0.0, -1.0)), STAR)
    data.serves = torch.tensor([True, False, True])
    data.trains = torch.tensor([True, False, True])
    env = Env(Engine(1.0, [0.5, float("nan"), 0.8], data.x_start), Plane(), 0)
    data = FirstOrderGain()(data, env)
    assert data.edge_gain.isnan().tolist() == [False, True, False]
    assert data.edge_weight.tolist() == pytest.approx([5 / 7, 0, 2 / 7], abs=1e-6)
    data.serves = torch.tensor([True, False, False])
    data = FirstOrderGain()(data, Env(Engine(1.0, [5.0, 0.0, 0.0], data.x_start), Plane(), 0))
    assert data.edge_weight.tolist() == [1, 0, 0]  # nobody is heard: what was learned is kept, though it does not help


def test_a_round_by_hand(points):
    # Targets 2, 4, -2, all at 0; a step of ½ leads to 1, 2, -1.
    # Node 0: losses 2 → .5, 0, 4.5, gains 1.5, 2 / 2, -2.5: (.6 · 1 + .4 · 2). Node 1: losses 8 → 4.5, 2, 12.5, gains
    # 3.5, 6 / 2, -4.5: (3.5 · 1 + 3 · 2) / 6.5. Node 2: losses 2 → 4.5, 8, .5: only its own helps.
    scene = points([[[2.0]], [[4.0]], [[-2.0]]])
    method = fomo(samples=2, epochs=1, batch_size=10, lr=0.5, weight_decay=0.0)
    data, env = scene.begin(method)
    data = method.play(data, env)
    assert data.x.part("all").flatten().tolist() == pytest.approx([1.4, 9.5 / 6.5, -1], abs=1e-9)
    assert data.bytes_sent.tolist() == [8, 8, 8]
    # Shares of the absolute gains: of 1.5 + 1 + 2.5, of 3.5 + 3 + 4.5, and of 2.5 + 3 + 1.5.
    known = {
        (j, i): v for j, i, v in zip(*data.affinity.edge_index.tolist(), data.affinity.values.tolist(), strict=True)
    }
    assert known == pytest.approx(
        {(1, 0): 0.2, (2, 0): -0.5, (0, 1): 3.5 / 11, (2, 1): -4.5 / 11, (0, 2): -2.5 / 7, (1, 2): -3 / 7}, abs=1e-9
    )


def trained(method):
    scene = Scene.small()
    data, env = scene.play(method, rounds=1)
    data = copy.copy(data)
    data.x_start = data.x
    return local(lr=0.3).local(data, env), env


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("part", ["all", "head"])
def test_against_plain_loops(norm, part):
    data, env = trained(local(lr=0.3))
    data.edge_index = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T.flip(0)
    data = FirstOrderGain(norm=norm, part=part)(data, env)
    start, x = data.x_start.part(part), data.x.part(part)
    weight = data.edge_weight.view(6, 6)
    for i in range(6):
        gains = []
        node = torch.tensor([i])

        def loss(row, i=i, node=node):
            rows = data.x.part(part).clone()
            rows[i] = row
            return float(env.engine.loss(Rows.own(data.x.with_part(part, rows), node), "val"))

        for j in range(6):
            distance = float((x[j] - start[i]).abs().sum()) if norm == "l1" else float((x[j] - start[i]).norm())
            gains.append((loss(start[i]) - loss(x[j])) / distance)
        positive = torch.tensor(gains, dtype=torch.float64).clamp(min=0)
        assert data.edge_gain.view(6, 6)[i].tolist() == pytest.approx(gains, rel=1e-6)
        assert weight[i].tolist() == pytest.approx((positive / positive.sum()).tolist(), rel=1e-6)


gains = st.floats(-1e300, 1e300) | st.just(float("nan")) | st.just(0.0)


@given(st.lists(gains, min_size=9, max_size=9))
def test_weights_are_shares_or_all_zero(values):
    edge_index = torch.cartesian_prod(torch.arange(3), torch.arange(3)).T.flip(0)
    gain = torch.tensor(values, dtype=torch.float64)
    weight = gain_weights(gain, edge_index, 3).view(3, 3)
    assert bool((weight >= 0).all())
    for i, (row, known) in enumerate(zip(weight, gain.view(3, 3), strict=True)):
        hears = not bool(known[torch.arange(3) != i].isnan().all())
        helped = bool((known.nan_to_num(0) > 0).any())
        assert float(row.sum()) == pytest.approx(1.0 if helped or not hears else 0.0)
        assert bool((row[(known < 0) & (torch.arange(3) != i)] == 0).all())


def test_losses_are_computed_where_the_data_is():
    data, env = trained(local(lr=0.3))
    asked = []

    class Post(Plane):
        def evaluate_at(self, rows, answer, to="data"):
            asked.extend(zip(rows.node.tolist(), rows.index.tolist(), strict=True))
            return super().evaluate_at(rows, answer, to)

    data.edge_index = torch.tensor([[1, 2], [0, 0]])
    FirstOrderGain()(data, env._replace(plane=Post()))
    assert asked == [(0, 1), (0, 2)]


def test_bad_settings():
    with raises("value", "norm", "'l2'", "'l1'", "'max'"):
        FirstOrderGain(norm="max")
    with raises("mismatch", "part", "'head'"):
        fomo().replace(weigh=FirstOrderGain(part="head"))
    without = Scene.small()
    splits = {"train": without.tasks.splits["train"]}
    with raises("empty", "split 'val'"):
        without.replace(tasks=replace(without.tasks, splits=splits)).begin(fomo())
