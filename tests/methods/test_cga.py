from __future__ import annotations

import pytest
import torch

from graphcollab.engine import SGD
from graphcollab.methods import cga, dpsgd
from graphcollab.testing import Scene
from tests.raising import raises

PLAIN = {"weight_decay": 0.0, "batch_size": 1}


def test_round_by_hand(points):
    """At (0, 0) node 0 has the gradient (.5, 0), and node 1's data (-.5, .25): u = .8, so it steps along (.1, .2).

    Node 1: ⟨g, m⟩ = -.25 again, ‖m‖² = .25, so u = 1 and the direction is (0, .25).
    """
    method = cga(lr=1.0, momentum=0.0, **PLAIN)
    data, env = points([[[-0.5, 0.0]], [[0.5, -0.25]]]).begin(method, [[0.0, 0.0]] * 2)
    after = method.play(data, env)
    assert after.x.part("all").tolist() == [pytest.approx([-0.1, -0.2]), pytest.approx([0.0, -0.25])]
    assert after.edge_weight.tolist() == [0.5] * 4
    assert after.bytes_sent.tolist() == [4.0 * (2 + 2)] * 2  # the model once, to be mixed and tried, and the gradient


def test_mixing_and_step_are_taken_at_the_same_models(points):
    """x = (0, 2), g = (1, 6), no conflict: W x = 1, minus a tenth of the gradient."""
    method = cga(lr=0.1, momentum=0.0, **PLAIN)
    data, env = points([[[-1.0]], [[-4.0]]]).begin(method, [[0.0], [2.0]])
    assert method.play(data, env).x.part("all").flatten().tolist() == pytest.approx([0.9, 0.4])


@pytest.mark.parametrize(("nesterov", "expected"), [(False, (0.9, 0.72)), (True, (0.81, 0.5751))])
def test_velocity_goes_on_from_round_to_round(points, nesterov, expected):
    """Both at 1, targets 0, β = .9: v = -.1, then -.09 - .09; Nesterov's form steps by g + β m, with m = βm + g."""
    method = cga(batch_size=1, optimizer=SGD(lr=0.1, momentum=0.9, nesterov=nesterov))
    data, env = points([[[0.0]], [[0.0]]]).begin(method, [[1.0], [1.0]])
    for value in expected:
        data = method.play(data, env)
        assert data.x.part("all").flatten().tolist() == pytest.approx([value] * 2)


def test_it_is_dpsgd_where_nothing_conflicts(points):
    """Targets to the same side of all models."""
    targets = [[[5.0, 9.0]], [[7.0, 8.0]], [[9.0, 6.0]]]
    one, two = (
        points(targets).scene.play(m, rounds=4)[0].x.part("all") for m in (cga(momentum=0.0, **PLAIN), dpsgd(**PLAIN))
    )
    torch.testing.assert_close(one, two)


def test_directions_go_against_nobody():
    """In the paper's form, to first order no neighbor's loss rises; a step along the own gradient raises some."""
    scene = Scene.small(sizes=(4,) * 6)
    method = cga(momentum=0.0, batch_size=100)
    data, env = scene.play(method, rounds=5)
    seen = []
    combine = method.local.combine
    object.__setattr__(method.local, "combine", lambda *given: seen.append((*given, combine(*given))) or seen[-1][-1])
    method.play(data, env)
    assert seen
    conflicts = 0
    for own, others, _, _, (direction, _) in seen:
        scale = others.norm(dim=2) * own.norm(dim=1, keepdim=True)
        conflicts += int(((others @ own[..., None])[..., 0] < 0).sum())
        assert float(((others @ direction[..., None])[..., 0] / scale).min()) > -1e-9
    assert conflicts > 5


def test_refusals(points):
    with raises("value", "weights", "'metropolis'", "'uniform'", "'equal'"):
        cga(weights="equal")
    with raises("disconnected", "node 'node 1'"):
        points([[[0.0]], [[0.0]]], edges=[[0], [1]]).begin(cga())
    with raises("value", "margin"):
        cga(margin=-1.0)
