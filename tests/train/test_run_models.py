"""Models and surroundings that need care, in whole runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from graphcollab import Tasks, run
from graphcollab.methods import fedavg, l2c, local, meta_l2c
from graphcollab.models import MLP
from tests.raising import raises


def tasks():
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(n, 4, generator=draw), torch.randint(3, (n,), generator=draw)) for n in (9, 14, 6)]
    return Tasks.from_samples(samples, samples, samples)


def numbers(result):
    return result.data.x.tensors[0]


@pytest.mark.parametrize("method", [local, l2c, meta_l2c])
def test_without_gradients_around_it(method):
    module = MLP(4, 5, 3)
    expected = numbers(run(method(), tasks(), module, rounds=2))
    with torch.no_grad():
        assert torch.equal(numbers(run(method(), tasks(), module, rounds=2)), expected)
    assert torch.is_grad_enabled()


def test_inference_mode_is_refused():
    with (
        torch.inference_mode(),
        raises("state", "run", kind=RuntimeError),
    ):
        run(local(), tasks(), MLP(4, 5, 3), rounds=1)


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("make", [nn.utils.weight_norm, lambda m: prune.l1_unstructured(m, "weight", 2)])
def test_layers_that_keep_their_weight_as_an_attribute(make):
    """The old weight normalization, and pruned layers, which copy.deepcopy refuses."""
    model = nn.Sequential(make(nn.Linear(4, 5)), nn.ReLU(), nn.Linear(5, 3))
    result = run(fedavg(), tasks(), model, rounds=2)
    pool = result.tasks.pools["val"] if "val" in result.tasks.pools else next(iter(result.tasks.pools.values()))
    one, other = result.model(0), result.model(1)
    assert torch.equal(one(pool.inputs), other(pool.inputs))
    assert not torch.equal(one(pool.inputs), model(pool.inputs))


def test_hooks_on_parameters_are_kept():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    model[0].weight.register_hook(torch.zeros_like)
    result = run(local(), tasks(), model, rounds=2)
    start, end = (result.data[name].part("0") for name in ("x_init", "x"))
    decay = end[:, :20] / start[:, :20]  # the gradient is zero; what is left is weight decay, alike for every number
    torch.testing.assert_close(decay, decay[:, :1].expand_as(decay), rtol=1e-5, atol=0)
    assert not torch.allclose(end[:, 20:], start[:, 20:], rtol=1e-3)


class TiedParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(4, 4), nn.Linear(4, 4)
        self.head.weight = self.backbone.weight

    def forward(self, inputs):
        return self.head(torch.tanh(self.backbone(inputs)))


def test_models_that_are_refused_before_training():
    for method, model, message in (
        (fedavg(part="head"), TiedParts(), ("conflict", "part 'head'")),
        (local(), nn.Linear(4, 3).bfloat16(), ("contract", "model", "Float", "BFloat16")),
        (local(), nn.LazyLinear(3), ("unsupported", "parameter 'weight'")),
        (local(), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3).double()), ("mismatch", "model")),
    ):
        with raises(*message):
            run(method, tasks(), model, rounds=1)


def test_a_model_that_cannot_be_evaluated_on_one_sample():
    x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    data = Tasks.from_samples([(x, y)] * 2, test=[(x, y), (x[:1], y[:1])], names=["many", "one"], val_fraction=0.0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False))
    with raises("too-few", "split 'test'", "'one'"):
        run(local(), data, model, rounds=1)
