from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import load_dataset, run
from graphcollab.data.partition import class_clusters
from graphcollab.methods import fedavg, flt, local
from graphcollab.testing import Scene, differences
from graphcollab.testing.contract import check_two_architectures
from tests.raising import raises

REST = {"lr": 0.0, "threshold": 0.5}
CODES = {"curvature": [1.0, 1.0, 9.0, 9.0]}  # inputs are roots: codes are 1, 1, 3, 3, one center each


def flat(data):
    return data.x.part("all").flatten().tolist()


def test_averages_inside_the_blocks_that_were_found(points):
    """n = (1, 3): (0 + 3 · 4) / 4 = 3; n = (2, 2): (6 + 9) / 2. A center goes up once, then a float up and one down."""
    targets = [[[0.0]], [[0.0]] * 3, [[0.0]] * 2, [[0.0]] * 2]
    method = flt(**REST)
    data, env = points(targets, **CODES).begin(method, [[0.0], [4.0], [6.0], [9.0]])
    assert data.bytes_sent.tolist() == [4.0] * 4
    after = method.play(data, env)
    assert flat(after) == [3.0, 3.0, 7.5, 7.5]
    assert after.bytes_sent.tolist() == [12.0] * 4
    weight = torch.zeros(4, 4).index_put((after.edge_index[1], after.edge_index[0]), after.edge_weight.float())
    assert weight.tolist() == [[0.25, 0.75, 0, 0], [0.25, 0.75, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]]


def test_uniform_weights(points):
    targets = [[[0.0]], [[0.0]] * 3, [[0.0]] * 2, [[0.0]]]
    method = flt(weights="uniform", **REST)
    data, env = points(targets, **CODES).begin(method, [[0.0], [4.0], [6.0], [9.0]])
    assert flat(method.play(data, env)) == [2.0, 2.0, 7.5, 7.5]
    with raises("value", "weights", "'counts'", "'uniform'", "'metropolis'"):
        flt(weights="metropolis")


def test_client_sampling(points):
    """Nodes at rest send nothing and hold what those of their block at work have made of it."""
    targets = [[[0.0]], [[2.0]], [[5.0]], [[7.0]]]
    method = flt(steps=1, lr=0.0, threshold=0.5, fraction=0.5)
    start = [0.0, 2.0, 5.0, 7.0]
    data, env = points(targets, **CODES).begin(method, [[value] for value in start])
    for _ in range(6):
        before, working = data, data.trains
        data = method.play(data, env)
        assert torch.equal(data.bytes_sent - before.bytes_sent, 8.0 * working)
        for block in ([0, 1], [2, 3]):
            here = [flat(before)[k] for k in block if working[k]]
            expected = [sum(here) / len(here)] * 2 if here else [flat(before)[k] for k in block]
            assert [flat(data)[k] for k in block] == expected


def test_with_the_true_blocks_it_is_fedavg_in_clusters():
    scene = Scene.small()
    pool = scene.tasks.pools["train"]
    owner = torch.zeros(len(pool), dtype=torch.int64)
    for split in scene.tasks.splits.values():
        for node in range(6):
            owner[split.of(node)] = int(scene.tasks.cluster[node])
    moved = replace(pool, inputs=pool.inputs + 20 * owner[:, None])
    scene = scene.replace(tasks=replace(scene.tasks, pools={"train": moved}))
    settings = {"epochs": 2, "lr": 0.01, "momentum": 0.5, "batch_size": 4, "weight_decay": 0.0, "fraction": 0.5}
    (one, _), (two, _) = scene.play(flt(groups=2, **settings), 3), scene.play(fedavg(within="cluster", **settings), 3)
    torch.testing.assert_close(one.x.tensors[0], two.x.tensors[0], rtol=0, atol=1e-12)
    centers = 4.0 * 4 * scene.tasks.classes.sum(1)  # one of four floats per class
    torch.testing.assert_close(one.bytes_sent - centers, two.bytes_sent)
    assert torch.equal(one.messages_sent, two.messages_sent)
    for block in (one.x.tensors[0][:3], one.x.tensors[0][3:]):
        assert torch.equal(block, block[:1].expand(3, -1))  # bit for bit


def test_buffers_travel_or_stay():
    norm = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).double()
    scene = Scene.small(sizes=(8, 8, 8, 8)).replace(modules=[norm])
    settings = {"epochs": 1, "batch_size": 2, "groups": 1}
    (mixed, _), (kept, _) = (scene.play(flt(buffers=buffers, **settings), 1) for buffers in ("average", "keep"))
    statistics = mixed.x.part("buffers")
    assert torch.equal(statistics, statistics[:1].expand(4, -1))
    assert not torch.equal(kept.x.part("buffers")[0], kept.x.part("buffers")[1])
    torch.testing.assert_close(statistics[0], kept.x.part("buffers").mean(0))
    more = mixed.bytes_sent - kept.bytes_sent
    assert more.tolist() == [8.0 * statistics.shape[1]] * 4


def test_two_architectures():
    check_two_architectures(flt(part="head", groups=2))


def test_graph_is_found_once():
    scene = Scene.small()
    data, env = scene.begin(flt(epochs=1))
    after = flt(epochs=1).play(data, env)
    assert after.edge_index is data.edge_index
    assert differences(after.coded, data.coded) == []


@pytest.mark.slow
def test_digits_of_few_samples_gain_from_it():
    """Eight samples of each digit at a node, two clusters: better than alone, no worse than FedAvg in clusters."""
    tasks = class_clusters(load_dataset("digits"), nodes=8, per_class=8, test=30)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    settings = {"epochs": 5, "lr": 0.1}
    reached = {}
    for method in (flt(groups=2, **settings), local(**settings), fedavg(within="cluster", momentum=0.5, **settings)):
        reached[method.name] = run(method, tasks, model, rounds=10).history.mean("test_metric")[-1]
    assert reached["flt"] > reached["local"] + 0.01
    assert reached["flt"] > reached["fedavg_in_clusters"] - 0.01
