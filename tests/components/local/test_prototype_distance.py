from __future__ import annotations

import pytest
import torch

from graphcollab.components import PrototypeDistance
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context, FirstView, Reads
from tests.raising import raises

CROSS_ENTROPY = as_objective("cross_entropy")

OUTPUTS = torch.zeros(1, 2)


def context(latent, prototypes, known, **fields):
    given = {"prototypes": torch.tensor(prototypes), "prototype_known": torch.tensor(known)}
    return Context(fields.pop("weight", None), {}, latent=torch.as_tensor(latent), given=given, **fields)


@pytest.mark.parametrize(
    ("latent", "expected"),
    [([1.0, 1.0], 0.0), ([1.0, 4.0], 4.5), ([3.0, 1.0], 2.0), ([0.0, 0.0], 1.0)],
)
def test_mean_square_of_the_components(latent, expected):
    """To (1, 1), the mean of two nodes' prototypes (0, 2) and (2, 0)."""
    seen = context([latent], [[1.0, 1.0]], [True])
    assert PrototypeDistance()(OUTPUTS, torch.tensor([0]), seen).item() == expected
    assert (0.5 * PrototypeDistance(3.0))(OUTPUTS, torch.tensor([0]), seen).item() == 1.5 * expected


def test_classes_without_a_prototype_count_as_zero_of_the_whole_batch():
    seen = context([[2.0], [5.0], [9.0]], [[0.0], [1.0]], [True, False])
    assert PrototypeDistance()(OUTPUTS, torch.tensor([0, 1, -100]), seen).item() == pytest.approx(4 / 3)
    assert PrototypeDistance()(OUTPUTS, torch.tensor([1, 1, 2]), seen).item() == 0


def test_nobody_has_a_prototype():
    latent = torch.tensor([[2.0], [5.0]], requires_grad=True)
    loss = PrototypeDistance()(OUTPUTS, torch.tensor([0, 1]), context(latent, [[0.0], [0.0]], [False, False]))
    loss.backward()
    assert loss.item() == 0
    assert latent.grad.tolist() == [[0.0], [0.0]]


def test_padding_weighs_nothing():
    weight = torch.tensor([0.5, 0.5, 0.0])
    seen = context([[2.0], [4.0], [100.0]], [[0.0]], [True], weight=weight)
    assert PrototypeDistance()(OUTPUTS, torch.tensor([0, 0, 0]), seen).item() == 10


def test_gradient_is_of_the_latents_only():
    """d/dz of ((z - c)² mean) = 2 (z - c) / (B d_z)."""
    latent = torch.tensor([[3.0, 1.0], [1.0, 1.0]], requires_grad=True)
    PrototypeDistance(2.0)(OUTPUTS, torch.tensor([0, 0]), context(latent, [[1.0, 1.0]], [True])).backward()
    assert latent.grad.tolist() == [[2.0, 0.0], [0.0, 0.0]]


def test_many_nodes_at_once_have_prototypes_of_their_own():
    draw = torch.Generator().manual_seed(0)
    latent, prototypes = torch.randn(3, 5, 2, generator=draw), torch.randn(3, 4, 2, generator=draw)
    targets, known = torch.randint(4, (3, 5), generator=draw), torch.rand(3, 4, generator=draw) < 0.7
    together = Context(None, {}, latent=latent, given={"prototypes": prototypes, "prototype_known": known})
    losses = PrototypeDistance().rows(torch.zeros(3, 5, 4), targets, together)
    for k in range(3):
        terms = [
            float((latent[k, q] - prototypes[k, y]).square().mean()) if known[k, y] else 0.0
            for q, y in enumerate(targets[k].tolist())
        ]
        assert losses[k].item() == pytest.approx(sum(terms) / 5, rel=1e-5)


def test_it_says_what_it_reads():
    objective = CROSS_ENTROPY + PrototypeDistance()
    assert objective.reads == Reads(latents=True, fields=("prototypes", "prototype_known"))
    assert objective.embeds
    assert FirstView(PrototypeDistance()).reads == objective.reads


def test_bad_input():
    for lam in (-0.1, float("inf"), float("nan")):
        with raises("value", "lam"):
            PrototypeDistance(lam)
    latent = torch.zeros(1, 2)
    for seen in (Context(None, {}, latent=latent), Context(None, {}, given={})):
        with raises("missing", "prototypes"):
            PrototypeDistance()(OUTPUTS, torch.tensor([0]), seen)
