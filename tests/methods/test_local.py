from __future__ import annotations

import pytest

from graphcollab import get_method, methods
from graphcollab.methods import local
from tests.raising import raises


def test_nobody_hears_anybody(points):
    method = local(epochs=2, lr=0.5, weight_decay=0.0)
    data, env = points([[[4.0]], [[8.0]]]).begin(method)
    after = method.play(data, env)
    assert after.x.part("all").flatten().tolist() == pytest.approx([3.0, 6.0])
    assert after.bytes_sent.tolist() == [0.0, 0.0]
    assert after.train_loss.tolist() == pytest.approx([(8 + 2) / 2, (32 + 8) / 2])


def test_methods_are_found_by_name():
    assert get_method("local") is local
    assert all(get_method(name)().name.rpartition("→")[2] == name for name in methods.__all__)
    with raises("unknown", "method", "'FedAvgg'", "'fedavg'"):
        get_method("FedAvgg")
