from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from torch_geometric.data import Data

from graphcollab import build_model, load_dataset, run
from graphcollab.components import KeepWeights, Participation
from graphcollab.data.partition import permuted_labels
from graphcollab.engine import AdamW
from graphcollab.methods import cobo, local
from tests.raising import raises, warns

TWO = [[[-1.0, 0.0]], [[1.0, 0.0]]]


def weighed(weight):
    return Data(edge_index=torch.tensor([[1, 0], [0, 1]]), edge_weight=torch.full((2,), weight), num_nodes=2)


def play(method, data, env, rounds):
    for _ in range(rounds):
        data = method.play(data, env)
    return data


def test_outer_step_by_hand(points):
    method = cobo(lr=0.1, rho=0.5, gamma=1e-9)
    data, env = points(TWO).begin(method, [[0.0, 0.0], [2.0, 0.0]])
    x = method.play(data, env).x.part("all")
    torch.testing.assert_close(x, torch.tensor([[0.0, 0.0], [1.8, 0.0]], dtype=torch.float64), rtol=0, atol=1e-8)


def test_a_step_of_adamw_beside_the_pull(points):
    """Its moments go on from round to round, know nothing of the pull, and weight decay does not act on it."""
    method = cobo(lr=0.1, rho=0.5, optimizer="adamw", weight_decay=0.2).replace(weigh=KeepWeights())
    data, env = points(TWO, edges=weighed(1.0)).begin(method, [[0.0, 1.0], [2.0, 0.0]])
    x = torch.nn.Parameter(torch.tensor([[0.0, 1.0], [2.0, 0.0]], dtype=torch.float64))
    optimizer = torch.optim.AdamW([x], lr=0.1, weight_decay=0.2)
    for _ in range(4):
        before = x.detach().clone()
        x.grad = before - torch.tensor(TWO, dtype=torch.float64)[:, 0]
        optimizer.step()
        with torch.no_grad():
            x -= 0.1 * 0.5 * (before - before.flip(0))
        data = method.play(data, env)
        torch.testing.assert_close(data.x.part("all"), x.detach(), rtol=0, atol=1e-12)


def test_an_optimizer_object_scales_the_pull_by_its_own_step():
    assert cobo(optimizer=AdamW(lr=0.2), rho=0.5).exchange.scale == pytest.approx(0.1)
    with raises("range", "lr"):
        cobo(optimizer=AdamW(lr=0.0))


def test_pairs_may_be_compared_on_smaller_batches():
    assert cobo(batch_size=50).weigh.batch_size == 50
    small = cobo(batch_size=50, pair_batch=2)
    assert (small.weigh.batch_size, small.local.batch_size) == (2, 50)


@pytest.mark.parametrize(("weight", "place"), [(1.0, 0.5), (0.0, 1.0)])
def test_fixed_points_by_hand(points, weight, place):
    method = cobo(lr=0.4, rho=0.5).replace(weigh=KeepWeights())
    data, env = points(TWO, edges=weighed(weight)).begin(method, [[3.0, 1.0], [0.0, 2.0]])
    x = play(method, data, env, 50).x.part("all")
    expected = torch.tensor([[-place, 0.0], [place, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(x, expected, rtol=0, atol=1e-9)


def test_two_phases(points):
    """Far from their minima two nodes listen to each other; near them they part, and each finds its own."""
    method = cobo(lr=0.2, rho=0.5, gamma=0.05, sampling="all")
    data, env = points(TWO).begin(method, [[0.0, 20.0], [0.0, 20.0]])
    seen_far = seen_near = 0
    for _ in range(120):
        mean = data.x.part("all").mean(0)
        inside = float(mean.norm()) < 1  # the ball around m = 0 with the minima at its ends
        after = method.play(data, env)
        if not inside:
            assert after.edge_weight.tolist() == [1.0, 1.0]
            seen_far += 1
        elif float(data.edge_weight[0]) > 0:
            assert float(after.edge_weight[0]) < float(data.edge_weight[0])
            seen_near += 1
        data = after
    assert seen_far > 10
    assert seen_near > 10
    assert data.edge_weight.tolist() == [0.0, 0.0]
    torch.testing.assert_close(data.x.part("all"), torch.tensor(TWO, dtype=torch.float64)[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("sampling", ["constant", "mixed", "all"])
def test_clusters_of_quadratics_part_and_agree(points, sampling):
    """Two clusters of three: weights inside stay 1, those between fall to 0, and members meet at the joint minimum."""
    targets = [[[side, 0.3 * k]] for side in (-2.0, 2.0) for k in (-1, 0, 1)]
    curvature = [1.0, 2.0, 3.0] * 2
    method = cobo(lr=0.1, rho=1.0, gamma=0.1, sampling=sampling)
    data, env = points(targets, curvature=curvature).begin(method, [[0.0, 10.0]] * 6)
    data = play(method, data, env, 120)
    cluster = torch.arange(6) >= 3
    same = cluster[data.edge_index[0]] == cluster[data.edge_index[1]]
    assert float(data.edge_weight[~same].max()) == 0
    if sampling == "all":  # members' minima differ a little, so their weights end at 0 as well where they meet
        assert float(data.x.part("all")[:3, 0].mean()) == pytest.approx(-2, abs=1e-6)


def test_identical_nodes_keep_listening(points):
    targets = [[[side, 0.0]] for side in (-2.0, -2.0, 2.0, 2.0)]
    method = cobo(lr=0.2, rho=0.5, gamma=0.1)
    data, env = points(targets).begin(method, [[0.0, 10.0], [0.5, 9.0], [0.0, 11.0], [1.0, 10.0]])
    data = play(method, data, env, 120)
    same = (data.edge_index[0] < 2) == (data.edge_index[1] < 2)
    assert data.edge_weight[same].tolist() == [1.0] * 4
    assert data.edge_weight[~same].tolist() == [0.0] * 8
    expected = torch.tensor(targets, dtype=torch.float64)[:, 0]
    torch.testing.assert_close(data.x.part("all"), expected, rtol=0, atol=1e-6)


def test_without_weights_it_is_local_training(points):
    one = cobo(lr=0.1, batch_size=4)
    data, env = points(TWO).begin(one, [[0.0, 3.0], [1.0, 3.0]])
    alone = local(lr=0.1, batch_size=4, weight_decay=0.0)
    alone = alone.replace(local=one.local)
    other, other_env = points(TWO).begin(alone, [[0.0, 3.0], [1.0, 3.0]])
    data.edge_weight = torch.zeros_like(data.edge_weight)
    kept = one.replace(weigh=KeepWeights())
    assert torch.equal(play(kept, data, env, 5).x.part("all"), play(alone, other, other_env, 5).x.part("all"))


def test_a_step_outside_the_bound_warns_once_with_the_number(points):
    # all three weights are 1: λ = 3, and 0.1 · (0 + 8 · 3) = 2.4; ρ must be below 20 / 3
    method = cobo(lr=0.1, rho=8.0)
    with warns("range", "lr", "0.1 (0 + 8 · 3) = 2.4", "6.67") as seen:
        data, env = points([*TWO, [[0.0, 1.0]]]).begin(method)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(method, data, env, 2)


def test_known_smoothness_counts(points):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points(TWO).begin(cobo(lr=0.1, rho=0.5, smoothness=1.0))
    with warns("range", "lr", "0.1 (19.5 + 0.5 · 2) = 2.05"):
        points(TWO).begin(cobo(lr=0.1, rho=0.5, smoothness=19.5))


def test_the_bound_counts_who_is_heard_where_this_is_less_than_the_component(points):
    ring = [[0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5]]
    six = [[[float(k), 0.0]] for k in range(6)]
    with warns("range", "lr", "0.1 (0 + 5 · 4) = 2", "use rho below 5"):
        points(six, edges=ring).begin(cobo(lr=0.1, rho=5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points(six, edges=ring).begin(cobo(lr=0.1, rho=4.9))
        points(six).begin(cobo(lr=0.1, rho=9.9, domain="simplex"))  # a row sums to 1: λ ≤ 2
    with warns("range", "lr", "0.1 (0 + 10 · 2) = 2"):
        points(six).begin(cobo(lr=0.1, rho=10.0, domain="simplex"))


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"own": True}, "conflict"),
        ({"rho": 0.0}, "value"),
        ({"lr": float("inf")}, "value"),
        ({"smoothness": -1.0}, "value"),
        ({"sampling": "never"}, "value"),
    ],
)
def test_it_refuses(settings, code):
    with raises(code, *settings):
        cobo(**settings)


def test_a_node_that_joins_starts_with_its_own_model_and_weight_one_to_all(points):
    """Two nodes part while a third is away; it comes with weight 1 to both, and then takes part."""
    targets = [*TWO, [[-1.0, 0.0]]]
    method = cobo(lr=0.1, rho=0.5, gamma=0.1, sampling="all")
    scene = points(targets).scene.replace(participation=Participation(joins={2: 60}))
    data, env = scene.begin(method)
    data.x = data.x_init = data.x.like([torch.tensor([[0.0, 3.0], [0.0, 3.0], [5.0, 5.0]], dtype=torch.float64)])
    sender, receiver = data.edge_index
    newcomer = (sender == 2) | (receiver == 2)
    data = play(method, data, env, 60)
    assert data.edge_weight[newcomer].tolist() == [1.0] * 4
    assert float(data.edge_weight[~newcomer].max()) == 0
    assert data.x.part("all")[2].tolist() == [5.0, 5.0]
    together = play(method, data, env, 1)  # it pulls, and is pulled, at once: by 0.05 (x_j - 5)
    moved = together.x.part("all")[2, 0]
    mean = float(data.x.part("all")[:2, 0].sum())
    assert float(moved) == pytest.approx(5 - 0.1 * (5 - -1) + 0.05 * (mean - 2 * 5), abs=0.05)
    data = play(method, together, env, 160)
    like, unlike = newcomer & ((sender == 0) | (receiver == 0)), newcomer & ((sender == 1) | (receiver == 1))
    assert data.edge_weight[like].tolist() == [1.0, 1.0]
    assert data.edge_weight[unlike].tolist() == [0.0, 0.0]
    torch.testing.assert_close(data.x.part("all")[2], torch.tensor([-1.0, 0.0], dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_node_that_leaves_pulls_no_more(points):
    method = cobo(lr=0.1, rho=0.5, sampling="all", gamma=1e-9)
    scene = points(TWO).scene.replace(participation=Participation(leaves={1: 1}))
    data, env = scene.begin(method)
    data.x = data.x_init = data.x.like([torch.tensor([[0.0, 0.0], [2.0, 0.0]], dtype=torch.float64)])
    data = method.play(data, env)
    after = method.play(data, env)
    x = data.x.part("all")[0]
    expected = x - 0.1 * (x - torch.tensor(TWO[0][0], dtype=torch.float64))
    torch.testing.assert_close(after.x.part("all")[0], expected)
    assert torch.equal(after.x.part("all")[1], data.x.part("all")[1])


def test_late_partners_are_not_waited_for(points):
    method = cobo(lr=0.1, rho=0.5, sampling="all")
    scene = points([*TWO, [[0.0, 1.0]]]).scene.replace(participation=Participation(late=0.5))
    data, env = scene.begin(method)
    data = play(method, data, env, 40)
    assert 0 < data.pairs_compared < 40 * 3 / 2  # both are in time in a quarter of the rounds


def test_digits_with_permuted_labels():
    """Real images: true clusters are found exactly, and their nodes are better than alone."""
    digits = load_dataset("digits")
    tasks = permuted_labels(digits, (3, 3), fraction=0.2, val=20)
    model = partial(build_model, "mlp", digits.input_shape, digits.num_classes)
    play = {"rounds": 150, "evaluate_every": 150}
    found = run(cobo(lr=0.5, rho=0.06, gamma=0.04, batch_size=32), tasks, model, **play)
    alone = run(local(lr=0.5, steps=1, batch_size=32, weight_decay=0.0), tasks, model, **play)
    same = tasks.cluster[found.data.edge_index[0]] == tasks.cluster[found.data.edge_index[1]]
    assert float(found.data.edge_weight[same].min()) > 0.9
    assert float(found.data.edge_weight[~same].max()) < 0.1
    assert found.summary()["mean"] > alone.summary()["mean"] + 0.01


def test_nodes_that_join_later_count_for_the_step_from_the_start(points):
    # 0.1 · 8 · λ with λ = 2 for the two that are there; with all three it is 2.4
    scene = points([*TWO, [[0.0, 1.0]]]).scene.replace(participation=Participation(joins={2: 2}))
    method = cobo(lr=0.1, rho=8.0, gamma=1e-9)
    with warns("range", "lr", "8 · 3"):
        data, env = scene.begin(method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(method, data, env, 3)
