"""Edges that are given are a promise: a forbidden edge carries nobody's influence, whatever route models take."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.transforms import Compose

from graphcollab import Method, Phases, methods, run
from graphcollab.components import ApplyTransform
from graphcollab.data.samples import Pool
from graphcollab.engine import SGD
from graphcollab.methods import ditto, dpsgd, fedavg, fedproto, flt, ifca, local, meta_l2c, pfedsim
from graphcollab.testing import Scene
from graphcollab.testing.edge_checks import check_direction
from graphcollab.transforms import Complete, Isolated, RandomRegular, Ring, WithSelfLoops
from tests.raising import raises

# Two parts of three and two nodes, whose nodes all hear each other, and node 5, which hears nobody.
PARTS = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 4], [1, 2, 0, 2, 0, 1, 4, 3]])
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
TRAIN = {"lr": 0.1, "batch_size": 4}
SERVERS = {
    "fedavg": fedavg(epochs=2, **TRAIN),
    "fedavg_finetuned": methods.fedavg_finetuned(epochs=2, **TRAIN),
    "ditto": ditto(epochs=2, **TRAIN),
    "fedsim": methods.fedsim(part="all", epochs=2, server_lr=0.5, **TRAIN),
    "fedclassavg": methods.fedclassavg(contrast=0.0, augment=None, lr=0.1, batch_size=4),
    "pfedsim": pfedsim(warmup=1, part="all", epochs=2, **TRAIN),
    "flt": flt(epochs=2, **TRAIN),
}


def with_other_labels(scene, nodes):
    """Return the scene with other labels of some nodes."""
    pool = scene.tasks.pools["train"]
    owned = torch.cat([split.of(k) for split in scene.tasks.splits.values() for k in nodes])
    targets = pool.targets.index_copy(0, owned, (pool.targets[owned] + 1) % 3)
    return scene.replace(tasks=replace(scene.tasks, pools={"train": Pool(pool.inputs, targets)}))


def served(scene, method, rounds=3):
    data, env = scene.play(method, rounds)
    return method.models(data, env).tensors[0], data


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_averages_inside_connected_parts(name):
    method = SERVERS[name]
    scene = Scene.small(embeds=method.embeds)
    together, data = served(scene.replace(edge_index=PARTS), method)
    for nodes in ([0, 1, 2], [3, 4]):
        among = Complete()(data.__class__(num_nodes=len(nodes))).edge_index
        alone, _ = served(scene.replace(tasks=scene.tasks.select(nodes), edge_index=among), method)
        assert torch.allclose(together[nodes], alone, rtol=1e-9, atol=1e-9)
    other, changed = served(with_other_labels(scene, [0, 1, 2]).replace(edge_index=PARTS), method)
    assert torch.equal(together[3:], other[3:])
    assert not torch.equal(together[:3], other[:3])
    assert torch.equal(data.bytes_sent[3:], changed.bytes_sent[3:])


@pytest.mark.parametrize("name", SERVERS)
def test_an_isolated_node_sends_nothing_and_does_what_local_training_does(name):
    method = SERVERS[name]
    scene = Scene.small(embeds=method.embeds).replace(edge_index=PARTS)
    data, _ = scene.play(method, 3)
    training = method.method.local if isinstance(method, Phases) else method.local
    alone, _ = scene.play(Method("alone", local=training), 3)
    assert torch.equal(data.x.tensors[0][5], alone.x.tensors[0][5])
    assert data.bytes_sent[5] == 0
    assert data.messages_sent[5] == 0
    assert (data.bytes_sent[:5] > 0).all()
    assert name == "flt" or (data.messages_sent[:5] > 0).all()  # under FLT nodes without a near task are alone


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        (name, getattr(methods, name))
        for name in ("fedavg", "fedavg_finetuned", "ditto", "fedsim", "fedclassavg", "pfedsim", "ifca")
    ]
    + [("fedproto", fedproto)],
)
def test_parts_whose_nodes_do_not_all_hear_each_other_are_refused_unless_asked_for(method, argument):
    scene = Scene.small(embeds=argument().embeds).replace(edge_index=PATH)
    names = scene.tasks.names
    with raises("disconnected", f"node {names[0]!r}", f"{names[0]} may not hear {names[2]}", "incomplete='average'"):
        scene.begin(argument())
    models, data = served(scene, argument(incomplete="average"), 2)
    assert (data.bytes_sent[:3] > 0).all()
    assert data.bytes_sent[3:].sum() == 0
    other, _ = served(with_other_labels(scene, [0, 1, 2]), argument(incomplete="average"), 2)
    assert torch.equal(models[3:], other[3:])


def test_incomplete_is_refuse_or_average():
    for make in (fedavg, fedproto, ifca):
        with raises("value", "incomplete", "'refuse'", "'average'"):
            make(incomplete=True)


def test_a_one_way_edge_between_parts_is_refused_by_servers_and_not_used():
    """0 and 1 hear each other, 2 hears 1 but is heard by nobody."""
    scene = Scene.small().replace(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]))
    with raises("disconnected", "node 'node 0'"):
        scene.begin(fedavg())
    data, _ = scene.play(fedavg(incomplete="average"))
    assert (data.bytes_sent > 0).tolist() == [True, True, False, False, False, False]


def test_true_clusters_are_cut_at_parts():
    """Clusters are 0, 1, 2 and 3, 4, 5; of the first only 0 and 1 hear each other, and 2 hears 3."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    data, _ = Scene.small().replace(edge_index=edges).play(fedavg(within="cluster"))
    assert (data.bytes_sent > 0).tolist() == [True, True, False, False, False, False]
    rows = data.x.tensors[0]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[2], rows[3])


@pytest.mark.parametrize("graph", [Complete(), None])
def test_all_pairs_are_one_part(graph):
    """Whether pairs are listed or not makes no difference to servers."""
    scene = Scene.small()
    for method in (fedavg(), ifca(), flt()):
        one = run(method, scene.tasks, list(scene.modules), graph, rounds=2)
        two = run(method, scene.tasks, list(scene.modules), rounds=2)
        assert torch.equal(one.stacks.tensors[0], two.stacks.tensors[0])
        assert torch.equal(one.data.bytes_sent, two.data.bytes_sent)


def test_a_run_without_edges_is_local_training():
    scene = Scene.small()
    modules = list(scene.modules)
    alone = run(local(epochs=2, **TRAIN), scene.tasks, modules, rounds=2)
    for method in (fedavg(epochs=2, **TRAIN), flt(epochs=2, momentum=0.0, **TRAIN)):
        result = run(method.replace(local=alone.method.local), scene.tasks, modules, Isolated(), rounds=2)
        assert torch.equal(result.stacks.tensors[0], alone.stacks.tensors[0])
        assert result.data.bytes_sent.sum() == 0
        assert result.data.messages_sent.sum() == 0


def test_a_topology_that_is_drawn_anew_makes_no_forbidden_edge():
    """Every round draws 3 neighbors among all; only those on the ring may be heard."""
    drawn = dpsgd(weights="uniform").replace(rewire=ApplyTransform(Compose([RandomRegular(3), WithSelfLoops()])))
    scene = Scene.small()
    ring = Ring()(scene.begin(local())[0])
    may = {*zip(*ring.edge_index.tolist(), strict=True)} | {(i, i) for i in range(6)}
    data, env = scene.replace(edge_index=ring.edge_index).begin(drawn)
    for _ in range(3):
        data = drawn.play(data, env)
        assert {*zip(*data.edge_index.tolist(), strict=True)} <= may
    prepared = dpsgd(weights="uniform").replace(prepare=Compose([Complete(), WithSelfLoops()]))
    data, _ = scene.replace(edge_index=ring.edge_index).begin(prepared)
    assert {*zip(*data.edge_index.tolist(), strict=True)} == may


def test_centers_are_of_one_part_only():
    """Every part has both centers, from the same start, and moves its own."""
    method = ifca(clusters=2, epochs=2, **TRAIN)
    scene = Scene.small().replace(edge_index=PARTS)
    data, _ = scene.play(method, 3)
    assert data.centers["all"].shape[0] == 4
    for nodes, place in (([0, 1, 2], 0), ([3, 4], 2)):
        alone, _ = scene.replace(tasks=scene.tasks.select(nodes), edge_index=None).play(method, 3)
        assert torch.allclose(alone.centers["all"], data.centers["all"][place : place + 2], rtol=1e-9)
        assert torch.allclose(alone.x.tensors[0], data.x.tensors[0][nodes], rtol=1e-9)
        assert torch.equal(alone.bytes_sent, data.bytes_sent[nodes])
    assert data.bytes_sent[5] == 0
    assert data.messages_sent[5] == 0
    assert torch.equal(data.x.tensors[0][5], scene.play(Method("alone", method.local), 3)[0].x.tensors[0][5])


def test_redraws_look_at_one_part_only():
    scene = Scene.small().replace(edge_index=PARTS)
    method = ifca(clusters=2, redraws=3, **TRAIN)
    one, _ = scene.begin(method)
    other, _ = with_other_labels(scene, [0, 1, 2]).begin(method)
    assert torch.equal(one.centers["all"][2:], other.centers["all"][2:])


def test_prototypes_are_of_one_part_only():
    method = fedproto(epochs=2, **TRAIN)
    scene = Scene.small(embeds=True).replace(edge_index=PARTS)
    data, _ = scene.play(method)
    few = scene.replace(tasks=scene.tasks.select([3, 4]), edge_index=torch.tensor([[0, 1], [1, 0]]))
    alone, _ = few.play(method)
    assert torch.allclose(data.prototypes[3:5], alone.prototypes, rtol=1e-9)
    assert torch.equal(data.prototypes[3], data.prototypes[4])
    assert not torch.allclose(data.prototypes[0], data.prototypes[3])
    assert data.bytes_sent[5] == 0
    assert data.messages_sent[5] == 0
    assert torch.allclose(data.bytes_sent[3:5], alone.bytes_sent)


@pytest.mark.parametrize("settings", [{}, {"groups": 2}, {"reduce": "pca"}])
def test_tasks_are_compared_inside_one_part(settings):
    scene = Scene.small().replace(edge_index=PARTS)
    one, _ = scene.begin(flt(**settings))
    pool = scene.tasks.pools["train"]
    owned = torch.cat([scene.tasks.splits["train"].of(k) for k in (0, 1, 2)])
    far = pool.inputs.index_copy(0, owned, 100 * pool.inputs[owned])
    tasks = replace(scene.tasks, pools={"train": Pool(far, pool.targets)})
    other, _ = scene.replace(tasks=tasks).begin(flt(**settings))
    kept = [data.edge_index[:, data.edge_index[1] >= 3].tolist() for data in (one, other)]
    assert kept[0] == kept[1]
    assert one.bytes_sent[5] == 0
    assert (one.bytes_sent[:5] > 0).all()


def test_encoders_are_of_one_part_only():
    method = meta_l2c(epochs=2, drop_round=None, **TRAIN)
    scene = Scene.small().replace(edge_index=PARTS)
    data, _ = scene.play(method, 3)
    for nodes in ([0, 1, 2], [3, 4]):
        among = Complete()(data.__class__(num_nodes=len(nodes))).edge_index
        alone, _ = scene.replace(tasks=scene.tasks.select(nodes), edge_index=among).play(method, 3)
        mine = data.mixer.of(nodes[0])
        for name, tensor in alone.mixer.tensors.items():
            assert torch.allclose(mine.tensors[name], tensor, rtol=1e-9)
        assert torch.allclose(data.x.tensors[0][nodes], alone.x.tensors[0], rtol=1e-9)
        assert torch.allclose(data.bytes_sent[nodes], alone.bytes_sent)
    assert data.bytes_sent[5] == 0
    assert data.messages_sent[5] == 0
    alone = scene.play(local(epochs=2, **TRAIN), 3)[0].x.tensors[0][5]
    assert torch.allclose(data.x.tensors[0][5], alone, rtol=1e-12, atol=1e-15)


def test_encoders_of_a_graph_with_one_way_edges_are_refused():
    scene = Scene.small().replace(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]))
    names = scene.tasks.names
    with raises("disconnected", f"node {names[2]!r}", f"no path {names[2]} → {names[1]}"):
        scene.begin(meta_l2c())
    round_trip = torch.tensor([[0, 1, 2], [1, 2, 0]])  # no edge has its opposite, but everybody is reached
    Scene.small().replace(edge_index=round_trip).play(meta_l2c(), 1)


@pytest.mark.parametrize("name", ["cobo", "cga", "fc"])
def test_methods_that_use_both_directions_refuse_one_way_edges(name):
    make = getattr(methods, name)
    scene = Scene.small().replace(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]))
    names = scene.tasks.names
    with raises("disconnected", f"node {names[2]!r}", f"no edge {names[2]} → {names[1]}"):
        scene.begin(make())


def test_nodes_of_one_server_that_rest_and_wake_up():
    """Client sampling draws nodes of all parts; those of other parts make no difference."""
    scene = Scene.small().replace(edge_index=PARTS)
    method = fedavg(epochs=1, fraction=0.5, **TRAIN)
    one, other = scene.play(method, 4)[0], with_other_labels(scene, [3, 4]).play(method, 4)[0]
    assert torch.equal(one.x.tensors[0][[0, 1, 2, 5]], other.x.tensors[0][[0, 1, 2, 5]])


def test_step_of_the_server_is_not_taken_alone():
    """With a server's step of 2 a node that has a server for itself would go twice as far as it has trained."""
    method = methods.fedsim(part="all", optimizer=SGD(lr=0.1), server_lr=2.0, batch_size=4)
    data, _ = Scene.small().replace(edge_index=PARTS).play(method, 1)
    alone, _ = Scene.small().play(Method("alone", local=method.local), 1)
    assert torch.equal(data.x.tensors[0][5], alone.x.tensors[0][5])


def pairs_of_servers(data):
    node, server = data.server.edge_index
    home = torch.full((6,), -1).index_copy(0, node, server)
    receiver, sender = ((home[:, None] == home) & (home >= 0)).fill_diagonal_(False).nonzero().T
    return torch.stack([sender, receiver])


def test_who_shares_a_server():
    data, _ = Scene.small().replace(edge_index=PARTS).begin(fedavg())
    assert torch.equal(pairs_of_servers(data), data.edge_index)
    data, _ = Scene.small().replace(edge_index=PARTS[:, :0]).begin(fedavg())
    assert pairs_of_servers(data).shape == (2, 0)


@pytest.mark.parametrize("method", [fedavg(incomplete="average"), pfedsim(warmup=0, part="head")], ids=lambda m: m.name)
def test_one_way_paths_through_servers(method):
    """Averages are of nodes that reach each other both ways, so of nobody here; mixtures go along the edges."""
    check_direction(method)
