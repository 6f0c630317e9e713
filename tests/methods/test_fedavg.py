from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch

from graphcollab.methods import fedavg, local, oracle
from graphcollab.testing import Scene
from graphcollab.testing.contract import check_two_architectures
from tests.methods.forms import check_form
from tests.methods.lines import two_lines
from tests.raising import raises

REST = {"lr": 0.0, "weight_decay": 0.0}


def test_weights_are_sample_counts(points):
    method = fedavg(**REST)
    data, env = points([[[0.0]], [[4.0]] * 3]).begin(method, [[0.0], [4.0]])
    after = method.play(data, env)
    assert after.x.part("all").flatten().tolist() == [3.0, 3.0]
    assert after.bytes_sent.tolist() == [8.0, 8.0]


def test_average_of_local_updates(points):
    """One step with η = ½ halves the distance to 2, 4 and 9: (1 + 2 + 4.5) / 3."""
    method = fedavg(epochs=1, lr=0.5, weight_decay=0.0)
    data, env = points([[[2.0]], [[4.0]], [[9.0]]]).begin(method)
    assert method.play(data, env).x.part("all").flatten().tolist() == pytest.approx([2.5] * 3)


def test_client_sampling(points):
    """Every round half of the nodes work; all hold their average, only they send."""
    targets = [[[float(k)]] for k in range(6)]
    method = fedavg(epochs=1, lr=1.0, weight_decay=0.0, fraction=0.5)
    data, env = points(targets).begin(method)
    worked = torch.zeros(6)
    for _ in range(12):
        working, sent = data.trains, data.bytes_sent
        assert int(working.sum()) == 3
        data = method.play(data, env)
        mean = float(torch.arange(6.0)[working].mean())
        assert data.x.part("all").flatten().tolist() == pytest.approx([mean] * 6)
        assert torch.equal(data.bytes_sent - sent, 8.0 * working)
        worked += working
    assert int(worked.min()) >= 1
    again, _ = points(targets).begin(method)
    assert torch.equal(again.trains, points(targets).begin(method)[0].trains)
    assert not torch.equal(again.trains, points(targets, seed=3).begin(method)[0].trains)


def test_no_edge_is_needed(points):
    method = fedavg(**REST)
    data, env = points([[[0.0]], [[4.0]]]).begin(method, [[0.0], [4.0]])
    after = method.play(data, env)
    assert after.num_edges == 0
    assert after.x.part("all").flatten().tolist() == [2.0, 2.0]


def test_uniform_weights(points):
    """(1 · 0 + 1 · 4) / 2, whatever the three samples of the second node."""
    method = fedavg(**REST, weights="uniform")
    data, env = points([[[0.0]], [[4.0]] * 3]).begin(method, [[0.0], [4.0]])
    assert method.play(data, env).x.part("all").flatten().tolist() == [2.0, 2.0]


def clustered(points, targets, cluster):
    made = points(targets)
    tasks = replace(made.scene.tasks, cluster=torch.tensor(cluster))
    return type(made)(made.scene.replace(tasks=tasks))


def test_oracle_averages_inside_true_clusters(points):
    """Clusters 7 = {0, 2} with 1 and 3 samples: (0 + 3 · 4) / 4 = 3; 5 = {1}; 9 = {3, 4}: (6 + 8) / 2."""
    method = fedavg(**REST, within="cluster")
    assert method.name == "fedavg_in_clusters" != oracle().name
    targets = [[[0.0]], [[2.0]], [[4.0]] * 3, [[6.0]], [[8.0]]]
    data, env = clustered(points, targets, [7, 5, 7, 9, 9]).begin(method, [[0.0], [2.0], [4.0], [6.0], [8.0]])
    after = method.play(data, env)
    assert after.x.part("all").flatten().tolist() == [3.0, 2.0, 3.0, 7.0, 7.0]
    assert after.bytes_sent.tolist() == [8.0, 0.0, 8.0, 8.0, 8.0]  # node 1 is alone, and needs no server


def test_a_cluster_in_which_nobody_works_keeps_its_models(points):
    method = fedavg(**REST, within="cluster")
    data, env = clustered(points, [[[float(k)]] for k in range(4)], [0, 0, 1, 1]).begin(method)
    data.x = data.x.map(lambda x: torch.tensor([[0.0], [2.0], [5.0], [5.0]], dtype=x.dtype))
    data.serves = torch.tensor([True, True, False, False])
    assert method.play(data, env).x.part("all").flatten().tolist() == [1.0, 1.0, 5.0, 5.0]


def test_oracle_equals_fedavg_of_each_cluster_alone():
    scene = Scene.small()  # two clusters of three
    together = scene.models(fedavg(within="cluster", epochs=1)).tensors[0]
    for nodes in ([0, 1, 2], [3, 4, 5]):
        alone = scene.replace(tasks=scene.tasks.select(nodes)).models(fedavg(epochs=1)).tensors[0]
        torch.testing.assert_close(together[nodes], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "method", [fedavg(within="cluster", epochs=1), fedavg(weights="uniform", steps=3)], ids=lambda m: m.name
)
def test_contract_of_other_forms(method):
    check_form(method)


def test_oracle_of_a_shared_head():
    check_two_architectures(fedavg(within="cluster", part="head"))


def test_oracle_needs_clusters(points):
    with raises("missing", "cluster"):
        points([[[0.0]], [[4.0]]]).begin(fedavg(within="cluster"))


def test_slopes_are_averaged_and_intercepts_stay():
    """Steps from 0 lead to 1 and 4 x_k = 2, with intercepts 1 and 2; the mean by 1 and 3 samples is 13 / 4."""
    data, _ = two_lines().play(fedavg(part="slopes", steps=1, lr=0.25, batch_size=10, weight_decay=0.0), rounds=1)
    assert data.x.tensors[0].tolist() == [[3.25, 1.0], [3.25, 2.0]]
    assert data.bytes_sent.tolist() == [8.0, 8.0]  # a slope up, and one down


@pytest.mark.parametrize(("name", "value"), [("within", "group"), ("weights", "sizes")])
def test_settings_are_checked(name, value):
    with raises("value", name, value):
        fedavg(**{name: value})


@pytest.mark.parametrize("make", [fedavg, local])
def test_steps_instead_of_epochs(points, make):
    """Two steps with η = ½ from 0 towards 8: 4, 6."""
    method = make(steps=2, lr=0.5, weight_decay=0.0)
    data, env = points([[[8.0]] * 3]).begin(method)
    assert method.play(data, env).x.part("all").flatten().tolist() == [6.0]


def test_the_signature_says_what_is_allowed():
    signature = inspect.signature(fedavg)
    assert signature.return_annotation == "Method"
    assert {name: signature.parameters[name].annotation for name in ("epochs", "steps")} == {
        "epochs": "Count",
        "steps": "Count | None",
    }
    with raises("value", "epochs"):
        fedavg(epochs=None)
