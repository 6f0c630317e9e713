from __future__ import annotations

import warnings

import pytest
import torch

from graphcollab import run
from graphcollab.engine import Rows
from graphcollab.methods import fedavg, ifca
from graphcollab.testing import Scene, differences
from graphcollab.testing.contract import check_runs, check_two_architectures
from tests.methods.forms import check_form
from tests.raising import warns

FAR = torch.tensor([[0.0], [10.0]])


def flat(values):
    return values.part("all").flatten().tolist()


def centers(data):
    return data.centers["all"].flatten().tolist()


@pytest.mark.parametrize(("divide", "expected"), [("all", [0.5, 9.5]), ("cluster", [1.0, 9.0])])
def test_hand_case(points, divide, expected):
    """θ = (0, 10), c = (1, 9): nodes choose 0 and 1; γ = 1: 0 + ½ · 1 and 10 - ½ · 1, or the means of 1 and of 9."""
    method = ifca(divide=divide, steps=1, lr=1.0, centers=FAR)
    data, env = points([[[1.0]], [[9.0]]]).begin(method)
    assert data.server.edge_index[1].tolist() == [0, 1]
    assert flat(data.x) == [0.0, 10.0]
    after = method.play(data, env)
    assert centers(after) == expected
    assert flat(after.x) == expected
    assert after.bytes_sent.tolist() == [12.0, 12.0]  # two centers down, one model up, of one float


@pytest.mark.parametrize(
    ("weights", "divide", "expected"),
    [
        ("uniform", "cluster", [2.0, 9.0]),  # (1 + 3) / 2
        ("counts", "cluster", [2.5, 9.0]),  # (1 · 1 + 3 · 3) / 4
        ("uniform", "all", [4.0 / 3, 10 - 1.0 / 3]),  # 0 + (1 + 3) / 3, 10 + (9 - 10) / 3
        ("counts", "all", [2.0, 9.8]),  # 0 + (1 · 1 + 3 · 3) / 5, 10 + (9 - 10) / 5
    ],
)
def test_nodes_of_a_cluster_are_averaged(points, weights, divide, expected):
    method = ifca(divide=divide, weights=weights, steps=1, lr=1.0, batch_size=3, centers=FAR)
    data, env = points([[[1.0]], [[3.0]] * 3, [[9.0]]]).begin(method)
    data = method.play(data, env)
    assert centers(data) == pytest.approx(expected)
    assert flat(data.x) == pytest.approx([expected[0], expected[0], expected[1]])


def test_a_node_changes_its_center_when_another_fits_better(points):
    """θ = (0, 10), c = (0, 0, 4.5, 6): 4.5 is nearer to 0. Centers become 1.5 and 6, and it is nearer to 6."""
    method = ifca(steps=1, lr=1.0, centers=FAR)
    data, env = points([[[0.0]], [[0.0]], [[4.5]], [[6.0]]]).begin(method)
    assert data.server.edge_index[1].tolist() == [0, 0, 0, 1]
    data = method.play(data, env)
    assert centers(data) == [1.5, 6.0]
    assert data.server.edge_index[1].tolist() == [0, 0, 1, 1]
    assert flat(data.x) == [1.5, 1.5, 6.0, 6.0]
    assert centers(method.play(data, env)) == [0.0, 5.25]


def test_one_cluster_is_fedavg():
    settings = {"epochs": 2, "lr": 0.1, "batch_size": 4, "weight_decay": 0.0, "weights": "uniform", "fraction": 0.5}
    scene = Scene.small()
    (one, _), (two, _) = scene.play(ifca(clusters=1, **settings), 3), scene.play(fedavg(**settings), 3)
    torch.testing.assert_close(one.x.tensors[0], two.x.tensors[0], rtol=0, atol=1e-14)
    assert torch.equal(one.bytes_sent, two.bytes_sent)


def test_gradient_averaging_follows_the_equation():
    """θ_j - (γ/m) Σ g_i, recomputed with gradients of the loss on all samples."""
    scene = Scene.small()
    method = ifca(clusters=3, divide="all", steps=1, batch_size=100, lr=0.3)
    data, env = scene.begin(method)
    chosen = data.server.edge_index[1]
    _, gradient = env.engine.grad(Rows.own(data.x), "train")
    expected = data.centers["all"].clone()
    for node in range(6):
        expected[chosen[node]] -= 0.3 / 6 * gradient[node]
    torch.testing.assert_close(method.play(data, env).centers["all"], expected, rtol=0, atol=1e-14)


def test_clusters_are_found(points):
    """From centers on either side, nodes about 0 and nodes about 10 part, and each center is its nodes' mean."""
    targets = [[[value]] for value in (-1.0, 0.0, 1.0, 9.0, 10.0, 11.0)]
    method = ifca(steps=5, lr=0.5, centers=torch.tensor([[4.0], [6.0]]))
    data, env = points(targets).begin(method)
    for _ in range(20):
        data = method.play(data, env)
    assert data.server.edge_index[1].tolist() == [0, 0, 0, 1, 1, 1]
    assert centers(data) == pytest.approx([0.0, 10.0], abs=1e-6)


def test_bad_start_says_that_it_collapsed(points):
    """A center at 1000 fits nobody best: after five rounds that is said, once."""
    method = ifca(steps=1, lr=0.5, centers=torch.tensor([[5.0], [1000.0]]))
    data, env = points([[[0.0]], [[1.0]], [[9.0]], [[10.0]]]).begin(method)
    for _ in range(4):
        data = method.play(data, env)
    with warns("quality", "clusters", "round 4", "1 of 2", "4 of 4"):
        data = method.play(data, env)
    for _ in range(7):
        data = method.play(data, env)
    assert data.unused["rounds"].tolist() == [0, 12]
    assert centers(data)[1] == 1000.0


def test_good_start_says_nothing(points):
    method = ifca(steps=1, lr=0.5, centers=FAR, patience=1)
    data, env = points([[[0.0]], [[1.0]], [[9.0]], [[10.0]]]).begin(method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            data = method.play(data, env)
    assert data.unused["rounds"].tolist() == [0, 0]


def test_a_center_that_comes_into_use_again_is_not_reported(points):
    method = ifca(steps=1, lr=0.5, centers=FAR, patience=3)
    data, env = points([[[0.0]], [[9.0]]]).begin(method)
    data.unused = {"rounds": torch.tensor([0, 2]), "said": False}
    data = method.play(data, env)
    assert data.unused["rounds"].tolist() == [0, 0]


def test_redraws_give_every_center_its_share():
    """Of the attempts allowed the one is taken whose rarest center has most nodes; more attempts are never worse."""
    rarest = []
    for redraws in (0, 3, 30):
        data, _ = Scene.small().begin(ifca(clusters=2, redraws=redraws, least_share=0.5))
        rarest.append(int(torch.bincount(data.server.edge_index[1], minlength=2).min()))
    assert rarest == sorted(rarest)
    assert rarest[-1] >= 1


@pytest.mark.parametrize("samples", [1, 3, 100])
def test_choosing_by_some_samples(samples):
    """As many samples as there are, or more, are the whole; fewer are others every round."""
    scene, plain = Scene.small(), ifca(epochs=1)
    some = ifca(epochs=1, samples=samples)
    (one, _), (two, _) = scene.play(plain), scene.play(some)
    if samples == 100:
        assert torch.equal(one.server.edge_index, two.server.edge_index)
        torch.testing.assert_close(one.x.tensors[0], two.x.tensors[0], rtol=0, atol=1e-12)
        check_form(some)
    else:
        check_runs(some)  # the contract of some samples: tests/methods/test_contract.py


def test_client_sampling(points):
    """Nodes at rest send nothing and hold the center that fits them best."""
    targets = [[[value]] for value in (0.0, 1.0, 2.0, 8.0, 9.0, 10.0)]
    method = ifca(steps=1, lr=1.0, centers=FAR, fraction=0.5)
    data, env = points(targets).begin(method)
    for _ in range(8):
        before, working = data, data.trains
        data = method.play(data, env)
        assert torch.equal(data.bytes_sent - before.bytes_sent, 12.0 * working)
        for place, nodes in enumerate(([0, 1, 2], [3, 4, 5])):
            here = [targets[k][0][0] for k in nodes if working[k]]
            expected = sum(here) / len(here) if here else centers(before)[place]
            assert centers(data)[place] == pytest.approx(expected)
            assert [flat(data.x)[k] for k in nodes] == pytest.approx([expected] * 3)


@pytest.mark.parametrize("settings", [{"divide": "all", "steps": 1}, {"clusters": 4}, {"weights": "counts"}], ids=str)
def test_contract_of_other_forms(settings):
    check_form(ifca(**{"epochs": 1, **settings}))
    check_two_architectures(ifca(part="head", **settings))


def test_a_later_phase_goes_on_with_the_centers():
    method = ifca(epochs=1)
    data, env = Scene.small().play(method)
    again = method.start(data, env)
    assert differences(data.centers, again.centers) == []
    assert differences(data.server, again.server) == []
    others = ifca(clusters=3).start(data, env)
    assert others.centers["all"].shape[0] == 3


def test_a_run_says_it_too_and_goes_on():
    scene = Scene.small()
    width = sum(p.numel() for p in scene.modules[0].parameters())
    bad = torch.cat([torch.zeros(1, width), torch.full((1, width), 1e3)])
    with warns("quality", "clusters") as said:
        result = run(ifca(centers=bad), scene.tasks, scene.modules[0], rounds=8)
    assert len(said) == 1
    assert result.data.server.edge_index[1].tolist() == [0] * 6
