from __future__ import annotations

import pytest
import torch

from graphcollab.methods import fedavg

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
    data, env = (
        points([[[0.0]], [[4.0]]], edges=[[], []])
        .scene.replace(edge_index=torch.empty(2, 0, dtype=torch.int64))
        .begin(method)
    )
    assert method.play(data, env).num_edges == 0
