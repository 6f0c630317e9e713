from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from graphcollab import Phases, Tasks, get_method, load_dataset, run
from graphcollab.analysis.metrics import recovery_auc
from graphcollab.components import Participation, SampleNodes, TaskPeers
from graphcollab.data.partition import class_clusters
from graphcollab.methods import flt, local
from graphcollab.testing import Scene
from graphcollab.testing.contract import check_declared, check_keeps_dtype, check_relabeling, check_resume, check_runs
from graphcollab.testing.edge_checks import check_forbidden_edges
from graphcollab.train.fingerprint import fingerprint
from tests.raising import raises

# Two samples each, of two classes; their codes are themselves. Nodes 0 and 2 are alike, and 1 and 3.
PLACES = ([0.0, 1.0], [8.0, 9.0], [0.1, 1.1], [8.0, 9.2])


def tasks_of(places=PLACES, **fields):
    nodes = [(torch.tensor(x)[:, None], torch.arange(len(x))) for x in places]
    return Tasks.from_samples(nodes, val_fraction=0.0, **fields)


def scene(places=PLACES, edges=None, **fields):
    module = nn.Linear(1, max(map(len, places)))
    edge_index = None if edges is None else torch.tensor(edges)
    return Scene(tasks_of(places), [module], edge_index, **fields)


def pairs(data):
    """Edges between different nodes."""
    return sorted((j, i) for j, i in data.edge_index.T.tolist() if i != j)


def both(*edges):
    return sorted([*edges, *((i, j) for j, i in edges)])


def test_near_tasks_are_connected():
    data, _ = scene().begin(flt())
    assert pairs(data) == both((0, 2), (1, 3))
    assert int((data.edge_index[0] == data.edge_index[1]).sum()) == 4  # and a self-loop each
    assert data.coded.tolist() == [True] * 4


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"threshold": 0.08}, both((0, 2))),  # √(2 · 0.01) / 2 = 0.07, √0.04 / 2 = 0.1
        ({"threshold": 0.11}, both((0, 2), (1, 3))),
        ({"threshold": 5.6}, both((0, 2), (1, 3), (1, 2))),  # √(7.9² + 7.9²) / 2 = 5.59, √(8² + 8²) / 2 = 5.66
        ({"threshold": float("inf")}, both((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))),
        ({"window": (0.11, 0.11)}, both((0, 2))),  # r = 0.1 / 1.05 and 0.14 / 1.05
        ({"groups": 1}, both((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))),
        ({"groups": 2}, both((0, 2), (1, 3))),
        ({"groups": 3}, both((0, 2))),
        ({"groups": 4}, []),
    ],
)
def test_how_near_is_near(settings, expected):
    data, _ = scene().begin(flt(**settings))
    assert pairs(data) == expected


def test_the_threshold_is_in_the_widest_gap():
    """Of all r (0.2, 0.58, 0.78, 3, 0.38, …) 0.58 and 0.78 are in the window: the gap between them is the widest."""
    places = ([0.0, 1.0], [0.2, 1.2], [0.58, 1.58], [0.78, 1.78], [3.0, 4.0])
    apart, _, spacing = TaskPeers().distances(tasks_of(places))
    assert spacing == pytest.approx(1.0)
    row = torch.tensor([0.0, 0.2, 0.58, 0.78, 3.0]).double()
    torch.testing.assert_close(apart[0], row, rtol=0, atol=1e-6)
    data, _ = scene(places).begin(flt())
    assert pairs(data) == both((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))
    data, _ = scene(places).begin(flt(window=(0.3, 0.7)))  # 0.38 to 0.58
    assert pairs(data) == both((0, 1), (1, 2), (2, 3))


def test_what_is_in_the_window_does_not_matter_elsewhere():
    """All r below 0.55: one block. All above 0.85: nobody has neighbors."""
    near, _ = scene(([0.0, 1.0], [0.1, 1.1], [0.4, 1.4])).begin(flt())
    assert pairs(near) == both((0, 1), (0, 2), (1, 2))
    far, _ = scene(([0.0, 1.0], [5.0, 6.0], [9.0, 10.0])).begin(flt())
    assert pairs(far) == []


def test_a_node_with_some_of_the_classes_is_near():
    data, _ = scene(([0.0, 4.0, 8.0], [4.0], [8.1, 0.1])).begin(flt(window=(0.5, 0.5)))
    assert pairs(data) == both((0, 1), (0, 2))


def test_edges_that_are_given_bind():
    edges = [[0, 2, 1, 3, 0], [2, 0, 3, 2, 1]]
    data, _ = scene(edges=edges).begin(flt())
    assert pairs(data) == [(0, 2), (1, 3), (2, 0)]
    again, _ = scene(edges=edges).begin(Phases(local(), 1, flt()))
    assert pairs(again) == sorted(zip(*edges, strict=True))  # not yet
    later, _ = scene(edges=edges).play(Phases(local(epochs=1), 1, flt(epochs=1)), rounds=2)
    assert pairs(later) == [(0, 2), (1, 3), (2, 0)]


@pytest.mark.parametrize("before", ["local", "fedavg", "dac", "dpsgd"])
def test_after_other_methods_anybody_may_be_connected(before):
    first = get_method(before)(epochs=1, **({"samples": 1} if before == "dac" else {}))
    made = scene()
    result = run(Phases(first, 1, flt(epochs=1)), made.tasks, made.modules[0], rounds=2)
    assert pairs(result.data) == both((0, 2), (1, 3))


def test_what_is_sent_before_the_first_round():
    """Two centers of one float each; an encoder's four floats come down before that, centers of two floats go up."""
    data, _ = scene().begin(flt())
    assert data.bytes_sent.tolist() == [8.0] * 4
    data, _ = scene().begin(flt(encoder=nn.Linear(1, 2)))
    assert data.bytes_sent.tolist() == [4.0 * (4 + 4)] * 4
    data, _ = scene(([0.0, 1.0, 5.0], [8.0])).begin(flt(encoder=lambda x: x * 2, threshold=1.0))
    assert data.bytes_sent.tolist() == [12.0, 4.0]


def test_the_order_of_nodes_does_not_matter():
    draw = torch.Generator().manual_seed(1)
    nodes = [(torch.randn(30, 5, generator=draw) + k % 3, torch.arange(30) % 4) for k in range(7)]
    tasks = Tasks.from_samples(nodes, val_fraction=0.0)
    order = torch.tensor([3, 6, 0, 5, 1, 4, 2])
    for settings in ({}, {"reduce": "pca"}, {"groups": 3}, {"reduce": lambda x: x.cumsum(0)}):
        peers = TaskPeers(**settings)
        one, two = peers.distances(tasks), peers.distances(tasks.select(order))
        assert torch.equal(one[0][order][:, order], two[0])
        assert one[2] == two[2]


def test_the_seed_says_where_k_means_starts():
    draw = torch.Generator().manual_seed(1)
    tasks = Tasks.from_samples([(torch.randn(60, 9, generator=draw), torch.arange(60) % 9)] * 2, val_fraction=0.0)
    peers = TaskPeers()
    assert torch.equal(peers.distances(tasks)[0], peers.distances(tasks)[0])
    assert not torch.equal(peers.distances(tasks)[0], peers.distances(tasks, seed=1)[0])


def test_nodes_that_join_send_their_centers_then():
    """Node 2 joins in round 1, sends centers in it, and is node 0's neighbor from the next one on; both are alone
    until then, and send no models."""
    method = flt(epochs=1)
    data, env = scene(participation=Participation(joins={2: 1})).begin(method)
    assert pairs(data) == both((1, 3))
    assert data.coded.tolist() == [True, True, False, True]
    assert data.bytes_sent[2] == 0
    model = 4.0 * 2 * data.x.part("all").shape[1]
    data = method.play(data, env)
    assert data.bytes_sent.tolist() == [8.0, 8 + model, 0.0, 8 + model]
    data = method.play(data, env)
    assert data.bytes_sent[[0, 2]].tolist() == [8.0, 8.0]
    assert method.play(data, env).bytes_sent[[0, 2]].tolist() == [8 + model, 8 + model]
    assert pairs(data) == both((0, 2), (1, 3))
    edges = data.edge_index
    assert method.play(data, env).edge_index is edges  # nothing new, nothing to do


def test_client_sampling_goes_on_beside_it():
    data, env = scene().begin(flt(epochs=1, fraction=0.5))
    assert int(data.trains.sum()) == 2
    assert isinstance(flt(fraction=0.5).rewire.also, SampleNodes)
    data = flt(epochs=1, fraction=0.5).play(data, env)
    assert int(data.trains.sum()) == 2


def test_a_module_is_copied():
    """What is done to the encoder later does not change the method."""
    encoder = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Dropout(0.9))
    nn.init.constant_(encoder[0].weight, 1.0)
    peers = TaskPeers(encoder)
    before = peers.distances(tasks_of())[0]
    nn.init.constant_(encoder[0].weight, 5.0)
    assert encoder.training
    assert torch.equal(peers.distances(tasks_of())[0], before)
    assert fingerprint(TaskPeers(encoder)) != fingerprint(peers)
    assert fingerprint(TaskPeers(copy.deepcopy(encoder))) == fingerprint(TaskPeers(encoder))


def test_checkpoints_know_the_encoder(tmp_path):
    made = scene()

    def play(encoder, rounds):
        return run(flt(epochs=1, encoder=encoder), made.tasks, made.modules[0], rounds=rounds, checkpoint=tmp_path)

    torch.nn.init.constant_((one := nn.Linear(1, 2)).weight, 1.0)
    torch.nn.init.constant_((other := nn.Linear(1, 2)).weight, 2.0)
    other.bias.data.copy_(one.bias.data)
    first = play(one, 1)
    resumed, straight = play(one, 3), run(flt(epochs=1, encoder=one), made.tasks, made.modules[0], rounds=3)
    assert torch.equal(resumed.data.x.tensors[0], straight.data.x.tensors[0])
    assert torch.equal(resumed.data.bytes_sent, straight.data.bytes_sent)
    assert first.data.round == 1
    with raises("other-run", "method.rewire.encoder.weight"):
        play(other, 3)


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("value", {"encoder": 3}),
        ("value", {"reduce": "umap"}),
        ("value", {"centers": 0}),
        ("value", {"groups": 1.5}),
        ("value", {"threshold": 0.0}),
        ("value", {"threshold": float("nan")}),
        ("value", {"window": (0.9, 0.5)}),
        ("value", {"window": 0.7}),
        ("conflict", {"threshold": 1.0, "groups": 2}),
    ],
)
def test_bad_settings(code, settings):
    name, value = next(iter(settings.items()))
    with raises(code, name, value):
        TaskPeers(**settings)


def test_what_the_nodes_do_not_allow():
    with raises("too-many", "groups", "5", "4"):
        scene().begin(flt(groups=5))
    with raises("too-few", "centers"):
        scene(([1.0], [2.0])).begin(flt())
    data, _ = scene(([1.0], [2.0])).begin(flt(threshold=2.0))
    assert pairs(data) == both((0, 1))
    data, _ = scene(([1.0],)).begin(flt())
    assert data.edge_index.tolist() == [[0], [0]]


@pytest.mark.parametrize(
    "settings",
    [{"groups": 2}, {"reduce": "pca"}, {"threshold": 0.8}, {"encoder": nn.Tanh()}, {"encoder": torch.sin}],
    ids=["groups", "pca", "threshold", "module", "function"],
)
def test_contract_of_other_forms(settings):
    """The forms differ before the first round only; what comes of it later is the same in all: one shows it."""
    later = (check_runs, check_keeps_dtype, check_resume) if "groups" in settings else ()
    for check in (check_relabeling, check_forbidden_edges, check_declared, *later):
        check(flt(epochs=1, **settings))


def on_digits(tasks, method):
    """Return the graph of a run without edges of its own, before the first round."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    return Scene(tasks, [model]).begin(method)[0]


@pytest.mark.parametrize(("seed", "per_class"), [(0, 20), (1, 25), (2, 20), (3, 25)])
def test_clusters_of_digits_come_out_as_blocks(seed, per_class):
    """Real digits, 0 to 4 at four nodes and 5 to 9 at the others, default settings."""
    tasks = class_clusters(load_dataset("digits"), nodes=8, per_class=per_class, seed=seed)
    data = on_digits(tasks, flt())
    same = tasks.cluster[:, None] == tasks.cluster
    assert torch.equal(data.edge_index, same.nonzero().T.flip(0))
    assert recovery_auc(data.edge_index, torch.ones(data.num_edges), tasks.cluster) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_digits_dealt_out_evenly_are_one_block(seed):
    tasks = class_clusters(load_dataset("digits"), nodes=6, clusters=1, per_class=20, seed=seed)
    data = on_digits(tasks, flt())
    assert data.num_edges == 36


@pytest.mark.parametrize("per_class", [16, (8, 16)])
@pytest.mark.parametrize("overlap", [0, 4])
def test_known_number_of_groups(overlap, per_class):
    tasks = class_clusters(load_dataset("digits"), nodes=8, per_class=per_class, overlap=overlap, test=2)
    data = on_digits(tasks, flt(groups=2))
    assert torch.equal(data.edge_index, (tasks.cluster[:, None] == tasks.cluster).nonzero().T.flip(0))
