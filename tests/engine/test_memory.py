"""What a forward pass keeps outside parameters and buffers: refused, warned of, or left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Tasks
from graphcollab.engine import SGD, Engine, LocalSteps, Rows, Stacks
from graphcollab.engine.choice import make_plan
from graphcollab.engine.losses import as_objective
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises, warns

CROSS_ENTROPY = as_objective("cross_entropy")


class Holds(nn.Module):
    """A linear layer in which a function of (layer, inputs) makes a factor of the inputs with what the layer keeps."""

    def __init__(self, factor, kept):
        super().__init__()
        self.head, self.kept, self.factor = nn.Linear(4, 3), kept, [factor]

    def forward(self, inputs):
        return self.head(inputs * self.factor[0](self, inputs))


def count_anew(layer, inputs):
    if layer.training:
        layer.kept = layer.kept + 1
    return torch.where(layer.kept > 100, 2.0, 1.0)


def count_in_place(layer, inputs):
    if layer.training:
        layer.kept += 1
    return torch.where(layer.kept > 100, 2.0, 1.0)


def count_in_a_list(layer, inputs):
    if layer.training:
        layer.kept[0] += 1
    return 2.0 if layer.kept[0] > 100 else 1.0


def scale_of_the_first_batch(layer, inputs):
    if "scale" not in layer.kept:
        layer.kept["scale"] = inputs.detach().abs().mean()
    return layer.kept["scale"]


def running_mean(layer, inputs):
    if layer.training:
        layer.kept["mean"] = 0.99 * layer.kept.get("mean", 0.0) + 0.01 * inputs.detach().mean(0)
    return 1.0


def activations(layer, inputs):
    layer.kept.append(inputs.detach())
    return 1.0


def in_evaluation(layer, inputs):
    if not layer.training:
        layer.kept[0] += 1
    return 1.0


def count(layer, inputs):
    layer.kept += 1
    return 1.0


def count_that_matters(layer, inputs):
    layer.kept += 1
    return 2.0 if layer.kept > 5 else 1.0


def filled_once(layer, inputs):
    width = inputs.shape[-1]
    if width not in layer.kept:
        layer.kept[width] = 2 * inputs.new_ones(width)
    return layer.kept[width]


def filled_by_length(layer, inputs):
    if len(inputs) not in layer.kept:
        layer.kept[len(inputs)] = 2 * torch.ones(len(inputs), 1)
    return layer.kept[len(inputs)]


def last_activation(layer, inputs):
    layer.kept = inputs.detach().tanh()
    return 1.0


@pytest.fixture
def sample():
    draw = torch.Generator().manual_seed(0)
    return torch.randn(5, 4, generator=draw), torch.tensor([0, 1, 2, 0, 1])


def plan(module, sample, backend="auto"):
    return make_plan(module, ParamSpec.from_module(module), sample, CROSS_ENTROPY, backend)


@pytest.mark.parametrize("backend", ["auto", "loop"])
@pytest.mark.parametrize(
    ("factor", "kept"),
    [
        (count_anew, torch.zeros(())),
        (count_in_place, torch.zeros(())),
        (count_in_a_list, [0]),
        (scale_of_the_first_batch, {}),
        (running_mean, {}),
        (activations, []),
        (in_evaluation, [0]),
        (count_that_matters, 0),
    ],
)
def test_memory_is_refused_by_name(factor, kept, sample, backend):
    module = nn.Sequential(Holds(factor, kept))
    with raises("contract", "attribute '0.kept'", "Sequential", "buffer"):
        plan(module, sample, backend)


def test_a_number_that_nothing_depends_on_is_mentioned(sample):
    with warns("contract", "attribute 'kept'", "Holds"):
        plan(Holds(count, 0), sample)


@pytest.mark.parametrize("factor", [filled_once, filled_by_length])
def test_a_cache_that_all_nodes_fill_alike_is_mentioned(factor, sample):
    """It is computed by the loop, as under vmap the cache would hold a tensor of the stacked pass."""
    module = Holds(factor, {})
    with warns("contract", "attribute 'kept'", "Holds"):
        chosen = plan(module, sample)
    assert chosen.backend == "loop"
    assert module.kept == {}
    with raises("unsupported", "backend"), warns("contract", "attribute 'kept'"):
        plan(module, sample, "vmap")


def test_a_cache_gives_what_plain_training_gives(sample):
    nodes = [sample, (sample[0][:2], sample[1][:2])]
    tasks = Tasks.from_samples(nodes, val=nodes)
    module = Holds(filled_once, {})
    spec = ParamSpec.from_module(module)
    with warns("contract", "attribute 'kept'"):
        engine = Engine(tasks, [module], [spec])
    models = Stacks.single(spec, spec.flatten(module).repeat(2, 1))
    steps = LocalSteps(optimizer=SGD(lr=0.1), batch_size=9)
    trained = engine.fit(Rows.own(models), steps, seed=0, round_=0).models.tensors[0]
    for inputs, targets, row in [(*nodes[0], trained[0]), (*nodes[1], trained[1])]:
        plain = spec.load_into(Holds(filled_once, {}), models.tensors[0][0])
        nn.functional.cross_entropy(plain(inputs), targets).backward()
        torch.optim.SGD(plain.parameters(), lr=0.1).step()
        torch.testing.assert_close(row, spec.flatten(plain))


def test_what_every_pass_makes_anew_is_no_memory(sample):
    chosen = plan(Holds(last_activation, None), sample)
    assert chosen.backend == "loop"
    assert "'kept'" in chosen.reason


def test_what_was_kept_before_is_the_same_for_all_nodes(sample):
    module = Holds(scale_of_the_first_batch, {"scale": torch.tensor(2.0)})
    assert plan(module, sample).backend == "vmap"
