"""CoBo's weigher on quadratics (a / 2) ‖x - μ‖², where ⟨∇f_i(z), ∇f_j(z)⟩ = a_i a_j (‖z - m‖² - ¼ ‖μ_i - μ_j‖²)."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

from graphcollab import Phases
from graphcollab.comm import Plane
from graphcollab.components import Env, GradientAlignment, LaplacianPull, Participation
from graphcollab.methods import cga, cobo
from graphcollab.testing import Scene
from tests.raising import raises
from tests.testing.lockstep import Lockstep
from tests.testing.planes import check_planes

TWO = [[[-1.0, 0.0]], [[1.0, 0.0]]]  # μ of two nodes


def weighed(points, x, start=0.5, gamma=0.01, targets=TWO, curvature=None, **settings):
    """Return the graph after weighing nodes that stand at x."""
    weigh = GradientAlignment(gamma, sampling="all", start=start, batch_size=4, **settings)
    method = cobo().replace(weigh=weigh, exchange=LaplacianPull())
    data, env = points(targets, curvature=curvature).begin(method, x)
    data.x_start = data.x
    return weigh(data, env)


@pytest.mark.parametrize(
    ("x", "curvature", "product"),
    [
        ([[0.0, 3.0], [0.0, 3.0]], None, 8.0),  # far: both gradients point home
        ([[0.0, 0.5], [0.0, 0.5]], None, -0.75),  # near: they have come between the minima
        ([[-1.0, 0.0], [1.0, 0.0]], None, -1.0),  # apart: at the midpoint
        ([[0.0, 1.0], [0.0, 1.0]], None, 0.0),  # on the circle
        ([[0.0, 3.0], [0.0, 3.0]], [2.0, 3.0], 48.0),
    ],
)
def test_products_by_hand(points, x, curvature, product):
    moved = weighed(points, x, gamma=1e-4, curvature=curvature).edge_weight - 0.5
    torch.testing.assert_close(moved, torch.full((2,), 1e-4 * product, dtype=torch.float64), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize(
    ("x", "start", "expected"),
    [
        ([[0.0, 3.0], [0.0, 3.0]], 0.5, 0.58),
        ([[0.0, 0.5], [0.0, 0.5]], 1.0, 0.9925),
        ([[-1.0, 0.0], [1.0, 0.0]], 0.0, 0.0),
        ([[0.0, 3.0], [0.0, 3.0]], 1.0, 1.0),
    ],
)
def test_projected_steps_by_hand(points, x, start, expected):
    weight = weighed(points, x, start).edge_weight
    torch.testing.assert_close(weight, torch.full((2,), expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_a_pair_costs_two_models_a_gradient_and_a_number(points):
    data = weighed(points, [[0.0, 0.5], [0.0, 0.5]], 1.0)
    # both models will be sent by the exchange, since both weights are positive: the gradient of node 0, a number of 1's
    assert data.bytes_sent.tolist() == [8.0, 4.0]
    assert data.pairs_compared == 1
    data = weighed(points, [[-1.0, 0.0], [1.0, 0.0]], 0.0)
    assert data.bytes_sent.tolist() == [16.0, 12.0]


def test_the_simplex_by_hand(points):
    # node 0 at μ_0 = (0, 0); products with others at their midpoints: p = ‖z - m‖² - ¼ ‖μ_0 - μ_j‖² = -¼ ‖μ_0 - μ_j‖²
    targets = [[[0.0, 0.0]], [[2.0, 0.0]], [[0.0, 4.0]]]
    x = [[0.0, 0.0], [2.0, 0.0], [0.0, 4.0]]
    data = weighed(points, x, gamma=0.1, targets=targets, domain="simplex", start=None)
    sender, receiver = data.edge_index.tolist()
    matrix = dict(zip(zip(receiver, sender, strict=True), data.edge_weight.tolist(), strict=True))
    # row 0: (.5 - .1, .5 - .4) = (.4, .1), which the projection lifts by .25
    assert matrix[0, 1] == pytest.approx(0.65)
    assert matrix[0, 2] == pytest.approx(0.35)
    # row 1: p_10 = -1, p_12 = -¼ · 20 = -5: (.4, 0) -> (.7, .3)
    assert matrix[1, 0] == pytest.approx(0.7)
    assert matrix[1, 2] == pytest.approx(0.3)
    assert matrix[2, 0] == pytest.approx(0.55)  # (.1, 0)
    assert matrix[2, 1] == pytest.approx(0.45)


def test_the_own_model_may_take_part_of_the_simplex(points):
    method = cobo(domain="simplex", own=True, gamma=10.0, sampling="all")
    data, env = points(TWO).begin(method, [[-1.0, 0.0], [1.0, 0.0]])
    data.x_start = data.x
    data = method.weigh(data, env)
    loop = data.edge_index[0] == data.edge_index[1]
    assert data.edge_weight[loop].tolist() == [1.0, 1.0]
    assert data.edge_weight[~loop].tolist() == [0.0, 0.0]


def six(points, **settings):
    """Six nodes, of which neighbors compare themselves in some rounds."""
    targets = [[[float(k), 1.0]] for k in range(6)]
    method = cobo(lr=0.1, gamma=0.03, sampling=settings.pop("sampling", "constant"), **settings)
    data, env = points(targets).begin(method, [[0.3 * k, 2.0 - k] for k in range(6)])
    return method, data, env


def matrix(data):
    out = torch.zeros(data.num_nodes, data.num_nodes, dtype=data.edge_weight.dtype)
    return out.index_put((data.edge_index[1], data.edge_index[0]), data.edge_weight)


def test_weights_on_the_box_stay_symmetric_and_others_stay_as_they_are(points):
    method, data, env = six(points)
    moved = 0
    for _ in range(30):
        compared, before = data.pairs_compared, matrix(data)
        data = method.play(data, env)
        after = matrix(data)
        assert torch.equal(after, after.T)
        changed = (after != before).triu()
        assert int(changed.sum()) <= data.pairs_compared - compared
        moved += int(changed.sum())
    assert moved > 20
    assert 30 * 2 < data.pairs_compared < 30 * 8  # five a round in the mean


def test_only_drawn_pairs_move(points):
    method, data, env = six(points)
    drawn = method.weigh.drawn(data, env)
    assert 0 < int(drawn.sum()) < len(drawn)
    data.x_start = data.x
    after = method.weigh(data, env).edge_weight
    assert torch.equal(after[~drawn], data.edge_weight[~drawn])
    assert bool((after[drawn] != 1).any())


def test_simplex_rows_without_a_drawn_pair_stay_as_they_are(points):
    method, data, env = six(points, domain="simplex", sampling="time", decay=1.0)
    data = method.play(data, env)  # all pairs in round 1
    torch.testing.assert_close(matrix(data).sum(1), torch.ones(6, dtype=torch.float64))
    untouched = 0
    for _ in range(20):
        before, compared = matrix(data), data.pairs_compared
        data = method.play(data, env)
        same = (matrix(data) == before).all(1)
        assert int((~same).sum()) <= 2 * (data.pairs_compared - compared)
        untouched += int(same.sum())
        torch.testing.assert_close(matrix(data).sum(1), torch.ones(6, dtype=torch.float64))
    assert untouched > 20


def test_pairs_with_somebody_late_or_away_are_skipped(points):
    method, data, env = six(points, sampling="all")
    data = copy.copy(data)
    data.x_start = data.x
    data.trains = torch.tensor([True, True, True, True, True, False])
    data.serves = torch.tensor([True, True, True, True, False, False])
    after = method.weigh(data, env)
    assert after.pairs_compared == 6  # of the first four nodes
    skipped = (data.edge_index >= 4).any(0)
    assert torch.equal(after.edge_weight[skipped], data.edge_weight[skipped])


def test_midpoint_batches_are_not_those_of_the_local_step(points):
    targets = [[[float(s), 0.0] for s in range(50)] for _ in range(2)]
    method = cobo(batch_size=1, sampling="all", gamma=1e-6).replace(
        weigh=GradientAlignment(1e-6, sampling="all", start=0.5, batch_size=1)
    )
    data, env = points(targets).begin(method, [[100.0, 0.0], [100.0, 0.0]])
    same = 0
    for _ in range(5):
        start = data.x.part("all")
        after = method.play(data, env)
        product = float((after.edge_weight[0] - data.edge_weight[0]) / 1e-6)
        scale = 1e-6 * after.edge_weight[0]  # the pull is nothing
        own = (start - after.x.part("all")) / method.local.optimizer.lr
        same += abs(product - float(own[0] @ own[1])) < 1e-3 * abs(product) + float(scale)
        data = after
    assert same < 3


@pytest.mark.parametrize(
    ("kind", "round_", "expected"),
    [
        ("constant", 1, 0.25),
        ("constant", 10**6, 0.25),
        ("time", 1, 1.0),
        ("time", 100, 0.1),
        ("mixed", 80, 0.25),
        ("mixed", 81, 1 / 9),
        ("all", 5, 1.0),
    ],
)
def test_probabilities(kind, round_, expected):
    assert GradientAlignment(sampling=kind).probability(round_, 8) == pytest.approx(expected)


def test_the_papers_and_the_published_codes_probabilities():
    assert GradientAlignment(sampling="mixed", switch=800).probability(900, 8) == pytest.approx(1 / 30)
    assert GradientAlignment(sampling="mixed", decay=1.0).probability(900, 8) == pytest.approx(1 / 900)
    assert GradientAlignment(sampling="constant").probability(1, 1) == 1.0


def test_draws_have_their_probability_and_no_order():
    pairs, weigh, env = torch.combinations(torch.arange(80)).T, GradientAlignment(), Env(None, Plane(), 1)

    def draw(edges, round_):
        data = Data(num_nodes=80, edge_index=edges, node_id=torch.arange(80))
        data.round, data.phase_start = round_, 0
        return weigh.drawn(data, env)

    counts = [int(draw(pairs, t).sum()) for t in range(200)]
    mean = sum(counts) / 200
    assert abs(mean - 79) < 4 * (79 / 200) ** 0.5 + 1e-9  # binomial: n p = 3160 · 2/80 = 79
    turned = torch.randperm(pairs.shape[1], generator=torch.Generator().manual_seed(0))
    one = draw(pairs, 3)[turned]
    assert torch.equal(one, draw(pairs[:, turned], 3))
    assert torch.equal(one, draw(pairs.flip(0)[:, turned], 3))


def test_start_on_the_simplex_is_as_exact_as_the_models():
    data, _ = Scene.small().begin(cobo(domain="simplex"))
    assert data.edge_weight.tolist() == [0.2] * 30


def test_own_models_take_no_share_unless_asked():
    method = Phases(cga(), 2, cobo(domain="simplex", sampling="all", gamma=1.0))  # CGA's graph has self-loops
    data, _ = Scene.small().play(method, rounds=6)
    loop = data.edge_index[0] == data.edge_index[1]
    assert bool(loop.any())
    assert data.edge_weight[loop].tolist() == [0.0] * 6
    torch.testing.assert_close(matrix(data).sum(1), torch.ones(6, dtype=torch.float64))


def test_on_the_simplex_nothing_goes_to_a_node_that_has_not_joined():
    scene = Scene.small().replace(participation=Participation(joins={5: 4}))
    method = cobo(domain="simplex", sampling="all", gamma=1.0)
    data, env = scene.begin(method)
    absent = (data.edge_index == 5).any(0)
    for _ in range(4):
        data = method.play(data, env)
        assert data.edge_weight[absent].tolist() == [0.2] * 10
        torch.testing.assert_close(matrix(data).sum(1), torch.ones(6, dtype=torch.float64))
    assert bool((data.edge_weight[~absent] != 0.2).all())
    assert bool((method.play(data, env).edge_weight[absent] != 0.2).any())


def test_a_later_phase_goes_on_with_the_weights():
    one, other = cobo(sampling="all", gamma=1.0), cobo(sampling="time", gamma=1.0)
    begun, _ = Scene.small().play(one, rounds=3)
    assert bool((begun.edge_weight != 1).any())
    data, env = Scene.small().play(Phases(one, 3, other), rounds=3)
    started = other.start(data, env)
    assert torch.equal(started.edge_weight, begun.edge_weight)
    assert started.pairs_compared == begun.pairs_compared == 45
    simplex = cobo(domain="simplex").start(data, env)
    torch.testing.assert_close(matrix(simplex).sum(1), torch.ones(6, dtype=torch.float64))


class Largest(TorchDispatchMode):
    """Remembers the largest tensor made."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, list | tuple) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


def test_gradients_exist_a_chunk_at_a_time(points):
    width, count = 500, 12
    method = cobo(sampling="all")
    scene = points([[[0.0] * width] for _ in range(count)])
    data, env = scene.scene.replace(chunk=4).begin(method)
    data.x_start = data.x
    with Largest() as made:
        method.weigh(data, env)
    assert made.numbers <= count * width < count * (count - 1) // 2 * width


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"domain": "ball"}, ("value", "domain", "'box'", "'simplex'", "'ball'")),
        ({"gamma": 0.0}, ("value", "gamma")),
        ({"gamma": float("nan")}, ("value", "gamma")),
        ({"start": 1.5}, ("value", "start")),
        ({"batch_size": 0}, ("value", "batch_size")),
        ({"sampling": "often"}, ("value", "sampling", "'constant'", "'time'", "'mixed'")),
        ({"sampling": 3}, ("value", "sampling", "'constant'", "'time'", "'mixed'")),
        ({"switch": -1}, ("value", "switch")),
        ({"switch": 2.5}, ("value", "switch")),
        ({"decay": 0.0}, ("value", "decay")),
        ({"switch": 80}, ("conflict", "switch", "80", "'constant'", "'mixed'")),
        ({"switch": 0, "sampling": "time"}, ("conflict", "switch", "'time'")),
        ({"decay": 0.5}, ("conflict", "decay", "0.5", "'constant'", "'time'")),
        ({"decay": 3.0, "sampling": "all"}, ("conflict", "decay", "3", "'all'")),
        ({"start": 0.0, "domain": "simplex"}, ("conflict", "start", "'simplex'", "'box'")),
    ],
)
def test_it_refuses(settings, error):
    with raises(*error):
        GradientAlignment(**settings)


@pytest.mark.parametrize("domain", ["box", "simplex"])
def test_of_a_pair_one_gradient_travels_and_one_number_comes_back(domain, monkeypatch):
    told = []

    class Spy(Lockstep):
        def broadcast(self, values, owner, to=None):
            if self.process == 0:
                told.append((values[0].numel(), owner, to))
            return super().broadcast(values, owner, to)

    monkeypatch.setattr("tests.testing.lockstep.Lockstep", Spy)
    scene = Scene.small(sizes=(8, 9, 10, 8, 9, 10))
    scene = scene.replace(tasks=scene.tasks.select(torch.tensor([5, 3, 4, 0, 2, 1])))
    method = cobo(sampling="all", domain=domain).replace(exchange=LaplacianPull(scale=1e-6))
    ids = scene.tasks.ids
    check_planes(method, scene, rounds=1)
    data = scene.begin(method)[0]
    (width, first, second), (one, answering, asked) = told[-2:]
    assert (width, one) == (data.x.part("all").shape[1], 1)
    assert len(first) == 15
    assert bool((ids[first] < ids[second]).all())
    assert torch.equal(answering, second)
    assert torch.equal(asked, first)
