from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Method
from graphcollab.components import ApplyTransform, EarlyStopping, Exchange, Fit, ThroughCenters
from graphcollab.methods import ifca
from graphcollab.testing import Scene
from graphcollab.transforms import Ring
from tests.raising import raises

FAR = torch.tensor([[0.0], [10.0]])


def flat(values):
    return values.flatten().tolist()


def test_a_center_that_nobody_at_work_chose_stays(points):
    method = ifca(steps=1, lr=1.0, centers=FAR)
    data, env = points([[[1.0]], [[9.0]]]).begin(method)
    data.serves = torch.tensor([True, False])
    data = method.play(data, env)
    assert flat(data.centers["all"]) == [1.0, 10.0]
    assert flat(data.x.part("all")) == [1.0, 10.0]
    assert data.bytes_sent.tolist() == [12.0, 0.0]


@pytest.mark.parametrize("divide", ["all", "cluster"])
def test_nobody_at_work(points, divide):
    method = ifca(steps=1, lr=1.0, centers=FAR, divide=divide)
    data, env = points([[[1.0]], [[9.0]]]).begin(method)
    data.serves = torch.tensor([False, False])
    assert flat(method.play(data, env).centers["all"]) == [0.0, 10.0]


def test_isolated_nodes_keep_their_model(points):
    method = ifca(steps=1, lr=1.0, centers=FAR)
    data, env = points([[[1.0]], [[3.0]], [[9.0]]]).begin(method)
    data.isolated = torch.tensor([False, True, False])
    data.trains = data.serves = ~data.isolated
    after = method.play(data, env)
    assert flat(after.centers["all"]) == [1.0, 9.0]
    assert flat(after.x.part("all")) == [1.0, 0.0, 9.0]


@pytest.mark.parametrize("divide", ["all", "cluster"])
@pytest.mark.parametrize("buffers", ["average", "keep"])
def test_running_statistics(divide, buffers):
    """Mixed, a center's are the mean of its nodes' after training; kept, every node's are its own."""
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    scene = Scene.small().replace(modules=[module])
    method = ifca(buffers=buffers, divide=divide, batch_size=4, steps=2)
    data, env = scene.begin(method)
    assert [*data.centers] == (["all", "buffers"] if buffers == "average" else ["all"])
    trained = method.local(data.clone().update({"x_start": data.x}), env).x.part("buffers")
    after = method.play(data, env)
    if buffers == "keep":
        assert torch.equal(after.x.part("buffers"), trained)
        return
    chosen = data.server.edge_index[1]
    for center in chosen.unique():
        mean = trained[chosen == center].mean(0)
        torch.testing.assert_close(after.centers["buffers"][center], mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        after.x.part("buffers"), after.centers["buffers"][after.server.edge_index[1]], rtol=0, atol=0
    )


def test_centers_must_have_been_drawn():
    method = Method("m", Fit(), exchange=Exchange(route=ThroughCenters()), rewire=ApplyTransform(Ring()))
    with raises("missing", "rewire"):
        Scene.small().play(method)


def test_nodes_cannot_stop_one_by_one():
    with raises("conflict", "stop"):
        ifca().replace(stop=EarlyStopping())


def test_settings_are_checked():
    with raises("value", "divide", "'all'", "'cluster'", "'none'"):
        ThroughCenters(divide="none")
