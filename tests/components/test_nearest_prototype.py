from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, strategies as st
from torch import nn
from torch.nn import functional as F

from graphcollab import Method, Tasks
from graphcollab._base.typing import Embedded
from graphcollab.components import Fit, PrototypeAverage, PrototypeDistance
from graphcollab.components.judge import NearestPrototype, prototype_head
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from tests.raising import raises

METHOD = Method("m", Fit(objective=PrototypeDistance()), exchange=PrototypeAverage(), judge=NearestPrototype())


def logits(prototypes, known, latent):
    classes, width = prototypes.shape
    weight, bias = prototype_head(prototypes, known).split([classes * width, classes])
    return F.linear(latent, weight.view(classes, width), bias)


def test_by_hand():
    """Of z = (1, 0): 2 c z - ‖c‖² of (1, 0) is 1, of (0, 2) is -4; mean -1.5, less 1 + 4 for the class without."""
    prototypes = torch.tensor([[1.0, 0.0], [9.0, 9.0], [0.0, 2.0]])
    known = torch.tensor([True, False, True])
    assert prototype_head(prototypes, known).tolist() == [2.0, 0.0, 1.0, 2.0, 0.0, 4.0, -1.0, -7.5, -4.0]
    assert logits(prototypes, known, torch.tensor([1.0, 0.0])).tolist() == [1.0, -6.5, -4.0]


numbers = st.floats(-100, 100, width=32)


@given(st.data(), st.integers(1, 5), st.integers(1, 4))
def test_the_nearest_of_the_known_ones_wins(data, classes, width):
    def draw(*shape):
        count = torch.Size(shape).numel()
        values = data.draw(st.lists(numbers, min_size=count, max_size=count))
        return torch.tensor(values, dtype=torch.float64).view(shape)

    prototypes, latent = draw(classes, width), draw(3, width) * data.draw(st.sampled_from([1.0, 1e-3, 1e4]))
    known = torch.tensor(data.draw(st.lists(st.booleans(), min_size=classes, max_size=classes)))
    assume(bool(known.any()))
    out = logits(prototypes, known, latent)
    assert torch.isfinite(out).all()
    distance = torch.cdist(latent, prototypes, compute_mode="donot_use_mm_for_euclid_dist").square()
    distance = distance.masked_fill(~known, torch.inf)
    chosen = out.argmax(1)
    assert known[chosen].all()
    error = 1e-12 * (1 + latent.square().sum(1) + prototypes.square().sum())
    assert (distance.gather(1, chosen[:, None])[:, 0] <= distance.amin(1) + error).all()
    square = latent.square().sum(1, keepdim=True)
    torch.testing.assert_close(out[:, known], (square - distance)[:, known], rtol=0, atol=float(error.max()))
    least = 1 + prototypes[known].square().sum(1).max()
    assert (out.amax(1, keepdim=True) - out[:, ~known] >= least - error.max()).all()


def test_prototypes_that_are_all_zero():
    out = logits(torch.zeros(3, 2), torch.tensor([True, False, True]), torch.ones(1, 2))
    assert out.tolist() == [[0.0, -1.0, 0.0]]


def test_many_nodes_at_once():
    draw = torch.Generator().manual_seed(0)
    prototypes, known = torch.randn(4, 3, 2, generator=draw), torch.rand(4, 3, generator=draw) < 0.6
    known[:, 0] = True
    heads = prototype_head(prototypes, known)
    for k in range(4):
        torch.testing.assert_close(heads[k], prototype_head(prototypes[k], known[k]))


@pytest.mark.parametrize("shared_head", [False, True])
def test_the_model_that_is_served_names_the_nearest(shared_head):
    scene = Scene.small(shared_head=shared_head, embeds=True)
    data, env = scene.play(METHOD.replace(local=Fit(batch_size=20, objective=PrototypeDistance())), rounds=2)
    served = METHOD.models(data, env)
    inputs = scene.tasks.pools["train"].inputs
    for k in range(6):
        module = copy.deepcopy(scene.modules[k % 2 if shared_head else 0])
        own = data.x.specs[k % 2 if shared_head else 0].load_into(module, data.x.row(k)[1]).eval()
        latent = own(inputs, embed=True).latent.detach()
        spec, row = served.row(k)
        out = spec.load_into(module, row).eval()(inputs)
        distance = (latent[:, None] - data.prototypes[k]).square().sum(2)
        assert torch.equal(out.argmax(1), distance.argmin(1))
        torch.testing.assert_close(out, latent.square().sum(1, keepdim=True) - distance, rtol=0, atol=1e-10)
    for spec, old, new in zip(data.x.specs, data.x.tensors, served.tensors, strict=True):
        assert torch.equal(old[:, spec.columns("backbone")], new[:, spec.columns("backbone")])
        assert torch.equal(old[:, spec.num_parameters :], new[:, spec.num_parameters :])


def test_own_head_before_the_first_exchange_and_of_nodes_that_know_nothing():
    scene = Scene.small(embeds=True)
    data, env = scene.begin(METHOD)
    assert torch.equal(METHOD.models(data, env).tensors[0], data.x.tensors[0])
    data = METHOD.play(data, env)
    data.prototype_known = data.prototype_known.clone().index_fill_(0, torch.tensor([2]), False)
    same = (METHOD.models(data, env).tensors[0] == data.x.tensors[0]).all(1)
    assert same.tolist() == [False, False, True, False, False, False]


def scene_of(model, classes=2):
    samples = [(torch.ones(3, 4), torch.arange(3) % classes)]
    return Scene(Tasks.from_samples(samples, samples), [model])


class Bent(SplitModel):
    """Its head sees other numbers than its latents."""

    def forward(self, inputs, embed=False):
        latent = self.backbone(inputs)
        out = self.head(latent.relu() - 1)
        return Embedded(out, latent, latent) if embed else out


def with_head(head):
    model = SplitModel(nn.Linear(4, 5), (4,), 2)
    model.head = head
    return model


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (with_head(nn.Linear(5, 2, bias=False)), ("((2, 5), (2,))", "((2, 5),)")),
        (with_head(nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2))), ("((3, 5), (3,), (2, 3), (2,))",)),
        (Bent(nn.Linear(4, 5), (4,), 2), ("'node 0'",)),
    ],
)
def test_heads_that_prototypes_cannot_replace(model, facts):
    with raises("contract", "part 'head'", *facts):
        scene_of(model).begin(METHOD)


def test_a_part_that_is_not_there():
    with raises("unknown", "part 'classifier'", kind=KeyError):
        Scene.small(embeds=True).begin(METHOD.replace(judge=NearestPrototype("classifier")))


def test_nothing_collects_prototypes():
    with raises("missing", "exchange"):
        Scene.small(embeds=True).begin(Method("m", Fit(), judge=NearestPrototype()))
