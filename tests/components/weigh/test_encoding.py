"""Meta-L2C is the same where the encoding of changes is replayed."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Phases, Tasks, run
from graphcollab.engine import standing, static_steps
from graphcollab.methods import meta_l2c
from graphcollab.models import MLP
from tests.replays import trace


@pytest.fixture
def traced(monkeypatch):
    return trace(monkeypatch)


def learned(**settings):
    """Return the models and encoders after some rounds."""
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(12, 4, generator=draw), torch.randint(3, (12,), generator=draw)) for _ in range(4)]
    method = meta_l2c(lr=0.1, mixer_lr=0.1, steps=2, batch_size=3, **settings)
    result = run(method, Tasks.from_samples(samples), lambda: MLP(4, 5, 3), rounds=5)
    return [*result.data.x.tensors, *result.data.mixer.tensors.values(), result.data.edge_weight]


@pytest.mark.parametrize(
    ("settings", "within"), [({}, 0.0), ({"own": "softmax", "score": "product", "normalize": False}, 1e-4)], ids=str
)
def test_a_replayed_encoding_gives_the_same(traced, monkeypatch, settings, within):
    """Without cosines up to rounding: gradients of codes lie otherwise in memory."""
    plain = learned(**settings)
    monkeypatch.setattr(static_steps, "REPLAYED", {"cpu"})
    for one, other in zip(plain, learned(**settings), strict=True):
        torch.testing.assert_close(one, other, rtol=within, atol=within)
    assert len(traced) == 2  # codes and their gradients
    monkeypatch.setattr(standing, "LARGEST", 8)
    assert all(map(torch.equal, plain, learned(**settings)))
    assert len(traced) == 2


@pytest.mark.parametrize("other", [{"hidden": 20}, {"hidden": 1}, {"out": 7}, {"out": 1}], ids=str)
def test_encoders_of_two_sizes_in_one_run(traced, monkeypatch, other):
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(12, 4, generator=draw), torch.randint(3, (12,), generator=draw)) for _ in range(4)]
    steps = {"lr": 0.1, "steps": 2, "batch_size": 3}

    def played():
        method = Phases(meta_l2c(**steps), 3, meta_l2c(**steps, **other))
        return run(method, Tasks.from_samples(samples), lambda: MLP(4, 5, 3), rounds=6).data.x.tensors

    plain = played()
    monkeypatch.setattr(static_steps, "REPLAYED", {"cpu"})
    assert all(map(torch.equal, plain, played()))
    assert len(traced) == 4
