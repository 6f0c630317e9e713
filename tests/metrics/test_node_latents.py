from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import nn

from graphcollab import metrics
from graphcollab.engine import Engine
from graphcollab.models import MLP, SplitModel
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.tasks import Tasks
from graphcollab.typing import Embedded
from tests.raising import raises


class Found(NamedTuple):
    values: torch.Tensor
    node: torch.Tensor
    target: torch.Tensor


def node_latents(*args, **kwargs):
    return Found(*metrics.node_latents(*args, **kwargs))


class Doubled(nn.Module):
    """Latents are the inputs times a factor, projections the latents plus 1, logits their sum and 0."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, inputs, embed=False):
        latent = self.factor * inputs
        logits = torch.stack([latent.sum(1), torch.zeros_like(latent[:, 0])], 1)
        return Embedded(logits, latent, latent + 1) if embed else logits


def scene(sizes=(3, 1, 2), backend="auto", chunk=None):
    """Node k has samples k + 0.1, k + 0.2, … in two columns, of classes 0, 1, 0, …, and the factor k + 1."""
    samples = []
    for node, size in enumerate(sizes):
        x = node + 0.1 * torch.arange(1, size + 1.0)
        samples.append((torch.stack([x, -x], 1), torch.arange(size) % 2))
    tasks, module = Tasks.from_samples(samples, val=samples), Doubled()
    spec = ParamSpec.from_module(module)
    models = Stacks.single(spec, torch.arange(1.0, len(sizes) + 1)[:, None])
    return Engine(tasks, [module], [spec], backend=backend, chunk=chunk), models, samples


@pytest.mark.parametrize(("backend", "chunk"), [("vmap", None), ("vmap", 2), ("loop", None)])
def test_every_nodes_model_on_its_own_samples(backend, chunk):
    engine, models, _ = scene(backend=backend, chunk=chunk)
    found = node_latents(engine, models, "train")
    assert found.node.tolist() == [0, 0, 0, 1, 2, 2]
    assert found.target.tolist() == [0, 1, 0, 0, 0, 1]
    expected = torch.tensor([0.1, 0.2, 0.3, 2 * 1.1, 3 * 2.1, 3 * 2.2])
    torch.testing.assert_close(found.values, torch.stack([expected, -expected], 1))
    projected = node_latents(engine, models, "train", of="projection")
    torch.testing.assert_close(projected.values, found.values + 1)


def test_some_samples_of_every_node():
    engine, models, _ = scene(sizes=(40, 3, 40))
    found = node_latents(engine, models, "train", per_node=5)
    assert found.node.bincount().tolist() == [5, 3, 5]
    every = node_latents(engine, models, "train")
    for node in range(3):
        drawn = found.values[found.node == node, 0].tolist()
        assert drawn == sorted(set(drawn))  # no sample twice, in the order of the samples
        assert set(drawn) <= set(every.values[every.node == node, 0].tolist())
    positions = [(found.values[found.node == k, 0] / (k + 1) - k).mul(10).round().tolist() for k in (0, 2)]
    assert positions[0] != positions[1]
    other = node_latents(engine, models, "train", per_node=5, seed=1)
    assert not torch.equal(other.values, found.values)


def test_relabelled_nodes_keep_their_samples():
    engine, models, _ = scene(sizes=(20, 30, 10))
    order = torch.tensor([2, 0, 1])
    spec = models.specs[0]
    turned = Engine(engine.tasks.select(order), [Doubled()], [spec])
    one = node_latents(engine, models, "train", per_node=4)
    two = node_latents(turned, Stacks.single(spec, models.tensors[0][order]), "train", per_node=4)
    for place, node in enumerate(order.tolist()):
        assert torch.equal(two.values[two.node == place], one.values[one.node == node])


def test_architectures_of_common_size_and_nodes_without_samples():
    x, y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
    nothing = (x[:0], y[:0])
    tasks = Tasks.from_samples([(x, y)] * 3, val=[(x, y)] * 3, test=[(x[:2], y[:2]), nothing, (x[3:], y[3:])])
    modules = [SplitModel(MLP(4, widths, 5), (4,), 2, norm="layer") for widths in ((6,), ())]
    specs = [ParamSpec.from_module(module) for module in modules]
    rows = [spec.flatten(module) for spec, module in zip(specs, modules, strict=True)]
    models = Stacks(tuple(specs), (rows[0][None], rows[1].expand(2, -1)), (torch.tensor([2]), torch.tensor([0, 1])))
    found = node_latents(Engine(tasks, modules, specs), models)
    assert found.node.tolist() == [0, 0, 2, 2, 2]
    torch.testing.assert_close(found.values[:2], modules[1].eval()(x[:2], embed=True).latent)
    torch.testing.assert_close(found.values[2:], modules[0].eval()(x[3:], embed=True).latent)
    with raises("empty", "split 'dev'"):
        node_latents(Engine(tasks, modules, specs), models, "dev")


def test_refusals():
    engine, models, samples = scene()
    with raises("value", "of", "'latent'", "'projection'", "'logits'"):
        node_latents(engine, models, "train", of="logits")
    with raises("value", "per_node"):
        node_latents(engine, models, "train", per_node=0)
    with raises("empty", "split 'test'"):
        node_latents(engine, models)
    plain = nn.Linear(2, 2)
    spec = ParamSpec.from_module(plain)
    rows = Stacks.single(spec, spec.flatten(plain).expand(3, -1))
    with raises("missing", "node 'node 0'"):
        node_latents(Engine(engine.tasks, [plain], [spec]), rows, "train")
    modules = [SplitModel(MLP(2, (), width), (2,), 2, norm="layer") for width in (5, 7)]
    specs = tuple(ParamSpec.from_module(module) for module in modules)
    flat = [spec.flatten(module) for spec, module in zip(specs, modules, strict=True)]
    mixed = Stacks(specs, (flat[0].expand(2, -1), flat[1][None]), (torch.tensor([0, 2]), torch.tensor([1])))
    with raises("mismatch", "latent", "'node 0'"):
        node_latents(Engine(Tasks.from_samples(samples, val=samples), modules, specs), mixed, "train")
