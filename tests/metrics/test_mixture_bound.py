from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from graphcollab.metrics import label_distance, mixture_bound
from graphcollab.tasks import Tasks
from tests.raising import raises

# 0 mixes itself and 1, 1 is alone, 2 mixes 0 and 1 but not itself; d + log(1 / delta) = 4, C = 0.5
EDGES = torch.tensor([[0, 1, 1, 0, 1], [0, 0, 1, 2, 2]])
WEIGHTS = torch.tensor([0.75, 0.25, 1.0, 0.5, 0.5])
INPUTS: dict[str, Any] = {
    "risk": torch.tensor([0.1, 0.2, 0.3]),
    "empirical_risk": torch.tensor([0.05, 0.15, 0.25]),
    "disagreement": torch.tensor([0.4, 0.0, 1.0]),
    "edge_distance": torch.tensor([0.0, 1.0, 0.0, 2.0, 0.5]),
    "num_samples": torch.tensor([16, 64, 4]),
    "dimension": 1.0,
    "delta": math.exp(-3),
    "constant": 0.5,
    "lipschitz": 2.0,
    "bound": 4.0,
}
# C sqrt(4 / m) is .25, .125 and .5


def test_terms_by_hand() -> None:
    total, nodes, edges = mixture_bound(EDGES, WEIGHTS, **INPUTS)
    own = [3 * 0.5625, 3.0, 0.0]  # N a_ii² with N = 3
    assert nodes[0].tolist() == pytest.approx([own[0] * 0.1, own[1] * 0.2, 0.0])
    assert nodes[1].tolist() == pytest.approx([own[0] * 0.5, own[1] * 0.25, 0.0])
    assert nodes[2].tolist() == pytest.approx([own[0] * 0.8, 0.0, 0.0])
    given = [0.0, 3 * 0.0625, 0.0, 0.75, 0.75]  # N a_ij², nothing at self-loops
    assert edges[0].tolist() == pytest.approx([0, given[1] * 0.15, 0, given[3] * 0.05, given[4] * 0.15])
    assert edges[1].tolist() == pytest.approx([0, given[1] * 0.125, 0, given[3] * 0.25, given[4] * 0.125])
    assert edges[2].tolist() == pytest.approx([0, given[1] * 4, 0, given[3] * 8, given[4] * 2])
    assert nodes.sum(0).tolist() == pytest.approx([own[0] * 1.4, own[1] * 0.45, 0.0])
    first = own[0] * 1.4 + given[1] * 4.275
    assert total.tolist() == pytest.approx([first, 1.35, 0.75 * 8.3 + 0.75 * 2.275])
    assert float(edges.sum() + nodes.sum()) == pytest.approx(float(total.sum()))


def test_number_of_models() -> None:
    paper, mixed = (mixture_bound(EDGES, WEIGHTS, **INPUTS, num_models=n)[0] for n in (None, "mixed"))
    # 2, 1 and 2 models are mixed, against 3 nodes
    assert mixed.tolist() == pytest.approx((paper * torch.tensor([2 / 3, 1 / 3, 2 / 3])).tolist())
    assert mixture_bound(EDGES, WEIGHTS, **INPUTS, num_models=6)[0].tolist() == pytest.approx((2 * paper).tolist())
    zero = torch.cat([EDGES, torch.tensor([[2], [0]])], 1), torch.cat([WEIGHTS, torch.zeros(1)])
    inputs = {**INPUTS, "edge_distance": torch.cat([INPUTS["edge_distance"], torch.ones(1)])}
    assert mixture_bound(*zero, **inputs, num_models="mixed")[0].tolist() == pytest.approx(mixed.tolist())


def test_the_bound_holds_for_linear_models_and_the_squared_hinge_loss() -> None:
    """With the risks themselves in place of their estimates, and no distance, nothing but the inequality is left."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 4, generator=generator), torch.randn(200, generator=generator).sign()
    models = torch.randn(3, 4, generator=generator)
    weight = torch.tensor([0.5, 0.3, 0.2])
    loss = (1 - y * (x @ models.t()).t()).clamp(min=0).square().mean(1)
    mixture = (1 - y * (x @ (weight @ models))).clamp(min=0).square().mean()
    zero = torch.zeros(3)
    _, nodes, edges = mixture_bound(
        torch.tensor([[0, 1, 2, 1, 2], [0, 0, 0, 1, 2]]),
        torch.cat([weight, torch.ones(2)]),
        **{**INPUTS, "risk": loss, "empirical_risk": loss, "disagreement": zero, "edge_distance": torch.zeros(5)},
    )
    assert mixture <= nodes[0, 0] + edges[0, :3].sum()


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"edge_weight": WEIGHTS * 0.9}, ("value", "edge_weight", "0.9")),
        ({"edge_weight": torch.tensor([1.25, -0.25, 1, 0.5, 0.5])}, ("range", "edge_weight", "0.25")),
        ({"delta": 1.0}, ("value", "delta", "1.0")),
        ({"num_samples": torch.tensor([1, 0, 1])}, ("too-few", "num_samples")),
        ({"risk": torch.ones(2)}, ("value", "risk")),
        ({"edge_distance": torch.ones(3)}, ("value", "edge_distance")),
        ({"disagreement": torch.tensor([1, math.nan, 1])}, ("value", "disagreement")),
        ({"num_models": 1}, ("range", "num_models")),
        ({"num_models": "all"}, ("value", "num_models", "'all'")),
    ],
)
def test_bad_inputs(change: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        mixture_bound(EDGES, **{"edge_weight": WEIGHTS, **INPUTS, **change})


def test_nodes_without_weights_are_named() -> None:
    with raises("value", "edge_weight"):
        mixture_bound(EDGES[:, [0, 1, 3, 4]], WEIGHTS[[0, 1, 3, 4]], **{**INPUTS, "edge_distance": torch.zeros(4)})


def labelled(*labels: list[int]) -> Tasks:
    return Tasks.from_samples([(torch.zeros(len(y), 1), torch.tensor(y)) for y in labels], val_fraction=0)


def test_label_distance_by_hand() -> None:
    tasks = labelled([0, 0, 0, 1], [0, 1, 1, 1, 1, 1, 1, 2], [3])
    edges = torch.tensor([[0, 1, 0, 2], [1, 0, 0, 1]])
    # (3/4, 1/4, 0) against (1/8, 3/4, 1/8)
    assert label_distance(tasks, edges).tolist() == [1.25, 1.25, 0.0, 2.0]


def test_label_distance_needs_labels() -> None:
    tasks = Tasks.from_samples([(torch.zeros(2, 1), torch.zeros(2))] * 2, val_fraction=0, loss="mse", metric="mse")
    with raises("unsupported", "tasks"):
        label_distance(tasks, torch.tensor([[0], [1]]))
    with raises("range", "edge_index"):
        label_distance(labelled([0], [1]), torch.tensor([[0], [2]]))
