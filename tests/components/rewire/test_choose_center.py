from __future__ import annotations

import pytest
import torch

from graphcollab.components import ChooseCenter
from graphcollab.methods import ifca
from graphcollab.testing import Scene, differences
from tests.raising import raises


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"clusters": 0}, "value"),
        ({"clusters": 2.0}, "value"),
        ({"redraws": -1}, "value"),
        ({"patience": 0}, "value"),
        ({"samples": 0}, "value"),
        ({"samples": True}, "value"),
        ({"buffers": "drop"}, "value"),
        ({"least_share": 0.6}, "range"),
        ({"least_share": 0.0}, "value"),
        ({"centers": torch.zeros(3, 1)}, "shape"),
        ({"centers": torch.zeros(2)}, "shape"),
        ({"centers": torch.zeros(2, 1)}, "duplicate"),
        ({"centers": torch.tensor([[0.0, float("inf")], [0.0, 0.0]])}, "not-finite"),
        ({"redraws": 1, "centers": torch.eye(2)}, "conflict"),
    ],
    ids=str,
)
def test_settings_are_checked(settings, code):
    with raises(code, next(iter(settings))):
        ChooseCenter(**settings)


def test_centers_are_a_tensor():
    with raises("value", "centers", "0.0"):
        ifca(clusters=1, centers=[[0.0]])


def test_more_centers_than_nodes():
    with raises("too-many", "clusters", "7", "6"):
        Scene.small().begin(ifca(clusters=7))


def test_given_centers_must_fit_the_part():
    with raises("shape", "centers", "5", "'head'", "21"):
        Scene.small().begin(ifca(part="head", centers=torch.eye(2, 5)))


def test_isolated_and_absent_nodes_do_not_count_as_users(points):
    """Center 10 is chosen by node 1 alone: if that one is gone, the center is out of use."""
    method = ifca(steps=1, lr=1.0, centers=torch.tensor([[0.0], [10.0]]))
    data, env = points([[[1.0]], [[9.0]], [[2.0]]]).begin(method)
    for mask, value in (("isolated", True), ("present", False)):
        gone = data.clone()
        gone[mask] = torch.where(torch.tensor([False, True, False]), value, not value)
        gone.trains = gone.serves = torch.tensor([True, False, True])
        assert method.play(gone, env).unused["rounds"].tolist() == [0, 1]


def test_nobody_is_left():
    data, env = Scene.small().begin(ifca(patience=1))
    data.present = torch.zeros(6, dtype=torch.bool)
    assert ifca(patience=1).rewire(data, env).unused["said"] is False


def test_redraws_stop_as_soon_as_shares_are_large_enough():
    """Ask for one node per center: the first draw that has it is taken, whatever better ones would follow."""
    scene = Scene.small()
    enough = [scene.begin(ifca(redraws=n, least_share=0.1))[0] for n in (30, 60)]
    assert differences(enough[0].centers, enough[1].centers) == []
