from __future__ import annotations

import pytest
import torch

from graphcollab import Method, Tasks
from graphcollab.analysis.metrics.classification import accuracy
from graphcollab.components import Fit, KeepWeights, NoExchange, TrialMixtures
from graphcollab.engine import SGD, Rows
from graphcollab.testing import Scene
from graphcollab.transforms import Threshold, WithSelfLoops
from tests.raising import raises

TRAIN, VAL = [[[0.0]], [[4.0]]], [[[4.0]], [[4.0]]]
X = [[0.0], [4.0]]


def learn(lr=0.5, **settings):
    """Models stay where they are; mixtures take one step of size ½, half of the way to the node's training target."""
    trial = TrialMixtures(steps=1, batch_size=1, optimizer=SGD(lr=lr), **settings)
    still = Fit(steps=1, batch_size=1, optimizer=SGD(lr=0.0))
    return Method("learn", still, trial, NoExchange(shown="all"), Threshold(1e-12), prepare=WithSelfLoops())


def graph(data):
    """Return p and α of the edges between different nodes, by (receiver, sender)."""
    edges = data.edge_index.flip(0).T.tolist()
    values = zip(edges, data.edge_trial.tolist(), data.edge_weight.tolist(), strict=True)
    return {(i, j): (p, a) for (i, j), p, a in values if i != j}


def test_round_by_hand(points):
    """Mixtures are at 2. Node 0 moves its own to 1, and ½ (1 - 4)² < ½ (0 - 4)²; node 1 to 3, and ½ (3 - 4)² > 0."""
    method = learn(fair=False)
    data, env = points(TRAIN, VAL).begin(method, X)
    after = method.play(data, env)
    found = graph(after)
    assert found[0, 1] == pytest.approx((0.6, 0.6 / 1.6))
    assert found[1, 0] == pytest.approx((0.4, 0.4 / 1.4))
    rows = torch.zeros(2, dtype=torch.float64).index_add_(0, after.edge_index[1], after.edge_weight)
    assert rows.tolist() == pytest.approx([1.0, 1.0]), "with the self-loops, rows sum to one"
    assert after.x.part("all").tolist() == X
    assert after.bytes_sent.tolist() == [4.0, 4.0]


def test_mixture_is_weighed_by_p(points):
    """With p = ¼ node 0's mixture is at 1, and after its step at ½; node 1's at 3, and after its step at 3½."""
    method = learn(fair=False, start=0.25, split="train")
    data, env = points(TRAIN, VAL).begin(method, X)
    p = torch.full((2,), 0.25, dtype=torch.float64)
    sent = env.plane.halo_exchange(data.x.part("all"), data.edge_index)
    scores = method.weigh._tuned_scores(data, env, sent, torch.tensor([1, 0]), torch.tensor([0, 1]), p)
    assert scores.tolist() == pytest.approx([-0.5 * 0.5**2, -0.5 * 0.5**2])


def test_equal_results_change_nothing_and_extra_steps_are_an_advantage(points):
    """Two nodes with the same model: all that the mixture has over it is its step towards the target."""
    for fair, expected in ((True, 0.5), (False, 0.6)):
        method = learn(fair=fair)
        data, env = points([[[4.0]], [[4.0]]], VAL).begin(method, [[1.0], [1.0]])
        assert method.play(data, env).edge_trial[1].item() == pytest.approx(expected)


def test_edges_that_do_not_help_vanish_for_good_and_those_that_do_stop_at_one(points):
    method = learn(fair=False)
    data, env = points(TRAIN, VAL).begin(method, X)
    counts, risen = [], []
    for _ in range(8):
        data = method.play(data, env)
        counts.append(data.num_edges)
        risen.append(graph(data)[0, 1][0])
    assert counts == [4, 4, 4, 4, 3, 3, 3, 3]
    assert (1, 0) not in graph(data)
    assert risen == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0])
    assert graph(data)[0, 1][1] == pytest.approx(0.5), "p = 1 is as much as the own model"
    assert data.bytes_sent.tolist() == [4.0 * 5, 4.0 * 8], "an edge that has vanished carries nothing"


def test_row_of_neighbors_that_all_help_is_the_plain_mean(points):
    method = learn(start=1.0)
    data, env = points([[[0.0]]] * 4).begin(method, [[0.0]] * 4)
    assert method.play(data, env).edge_weight.tolist() == pytest.approx([0.25] * 16)


def test_mixture_that_diverges_is_worse(points):
    for fair in (False, True):  # where the own model diverges too, they are equal
        method = learn(lr=1e200, fair=fair)
        data, env = points(TRAIN, VAL).begin(method, [[1.0], [3.0]])
        assert graph(method.play(data, env))[0, 1][0] == pytest.approx(0.5 if fair else 0.4)


def test_mixture_that_diverges_is_worse_by_accuracy_too():
    """Outputs that are no numbers have a largest one all the same, which is right now and then."""
    method = learn()
    data, env = Scene.small().begin(method)
    models = data.x.tensors[0].clone()
    models[0] = torch.nan
    data.x = data.x.like([models])
    sent = env.plane.halo_exchange(data.x.part("all"), data.edge_index)
    ends = torch.zeros(5, dtype=torch.int64), torch.arange(1, 6)
    scores = method.weigh._tuned_scores(data, env, sent, *ends, torch.full((5,), 0.5, dtype=data.x.dtype))
    assert scores.tolist() == [-1e300] * 5


def test_edges_of_nodes_at_rest_are_not_tried(points):
    method = learn(fair=False)
    data, env = points(TRAIN, VAL).begin(method, X)
    data.serves = torch.tensor([True, False])
    data.trains = torch.tensor([True, False])
    after = method.play(data, env)
    assert after.edge_trial.tolist() == [0.5] * 4
    assert after.bytes_sent.tolist() == [0.0, 0.0]


def test_mixtures_exist_one_chunk_at_a_time(monkeypatch):
    method = learn(fair=True)
    data, env = Scene.small().replace(backend="vmap", chunk=4).begin(method)
    fit, seen = env.engine.fit, []

    def watch(rows, steps, **settings):
        seen.append(len(rows))
        return fit(rows, steps, **settings)

    monkeypatch.setattr(env.engine, "fit", watch)
    method.weigh(data, env)
    assert sum(seen) == 6 + 30
    assert max(seen) <= 4


def test_metric_is_accuracy_of_classes_and_loss_of_numbers(points):
    data, env = Scene.small().begin(learn())
    rows = Rows.own(data.x)
    expected = torch.zeros(6, dtype=torch.float64)
    for chunk in env.engine.predict(rows, "val"):
        expected[chunk.rows] = accuracy(chunk.outputs, chunk.targets, chunk.mask)
    torch.testing.assert_close(TrialMixtures()._scores(env.engine, rows), expected)
    data, env = points(TRAIN, VAL).begin(learn(), X)
    assert TrialMixtures()._scores(env.engine, Rows.own(data.x)).tolist() == pytest.approx([-8.0, 0.0])


@pytest.mark.parametrize("seed", range(3))
def test_small_noisy_nodes_listen_to_large_clean_ones_and_not_the_other_way(seed):
    """Both have the same linear truth; node 0 has 6 noisy samples, node 1 has 100 clean ones."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.randn(5, generator=draw)

    def samples(many, noise):
        inputs = torch.randn(many, 5, generator=draw)
        return inputs, (inputs @ truth + noise * torch.randn(many, generator=draw))[:, None]

    tasks = Tasks.from_samples([samples(6, 2.0), samples(100, 0.0)], [samples(50, 0.0)] * 2, loss="mse", metric="mse")
    optimizer = SGD(lr=0.05)
    method = Method(
        "learn",
        Fit(epochs=5, batch_size=10, optimizer=optimizer),
        TrialMixtures(optimizer=optimizer),
        NoExchange(shown="all"),
        prepare=WithSelfLoops(),
    )
    data, _ = Scene(tasks, [torch.nn.Linear(5, 1)]).play(method, rounds=5)
    assert graph(data)[0, 1][0] == pytest.approx(1.0)
    assert graph(data)[1, 0][0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"split": "test"}, ("value", "split", "'val'", "'train'")),
        ({"steps": 0}, ("value", "steps")),
        ({"epochs": 1.5}, ("value", "epochs")),
        ({"delta": 0.0}, ("value", "delta")),
        ({"minimum": 0.6}, ("conflict", "minimum", "0.6", "0.5")),
    ],
)
def test_settings_out_of_range(settings, error):
    with raises(*error):
        TrialMixtures(**settings)


def test_validation_samples_are_needed_where_they_decide(points):
    scene = points(TRAIN, VAL).scene
    bare = scene.replace(
        tasks=Tasks(scene.tasks.pools, {"train": scene.tasks.splits["train"]}, loss=scene.tasks.loss, metric="mse")
    )
    with raises("empty", "split 'val'"):
        bare.begin(learn())
    assert bare.begin(learn(split="train"))[0].edge_trial.tolist() == [0.5] * 4


def test_keep_weights_leaves_weights_alone(make_graph, make_env):
    data = make_graph([[0.0], [1.0]], edges=((0,), (1,)), edge_weight=torch.tensor([0.25]))
    assert KeepWeights()(data, make_env()).edge_weight.tolist() == [0.25]
