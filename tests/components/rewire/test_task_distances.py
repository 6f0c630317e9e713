from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from graphcollab import Tasks
from graphcollab.components.rewire.task_distances import center_distances, code_centers
from tests.raising import raises


def tasks_of(*nodes, **fields):
    """Nodes given by (inputs, labels), all of it for training."""
    pairs = [(torch.as_tensor(x), torch.as_tensor(y)) for x, y in nodes]
    return Tasks.from_samples(pairs, val_fraction=0.0, **fields)


def rows(centers):
    """A node's centers in ascending order, without padding."""
    return [sorted(one[~one[:, 0].isnan()].tolist()) for one in centers]


THREE = [[0.0], [1.0], [10.0], [11.0], [20.0], [22.0]]


def test_as_many_centers_as_classes():
    tasks = tasks_of((THREE, [0, 0, 1, 1, 2, 2]), (THREE, [4] * 6), (THREE[:4], [0, 0, 1, 1]))
    centers = code_centers(tasks)
    assert centers.shape == (3, 3, 1)
    assert rows(centers) == [[[0.5], [10.5], [21.0]], [[pytest.approx(64 / 6)]], [[0.5], [10.5]]]


def test_labels_play_no_other_part():
    """Centers are of codes, not of classes: which sample has which label does not matter."""
    one, two = (code_centers(tasks_of((THREE, labels))) for labels in ([0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2]))
    assert rows(one) == rows(two)


def test_two_centers_where_labels_are_no_classes():
    tasks = tasks_of((THREE, [0.5] * 6), loss="mse", metric="mse")
    assert rows(code_centers(tasks)) == [[[5.5], [21.0]]]
    assert len(rows(code_centers(tasks, count=3))[0]) == 3


def test_no_more_centers_than_different_codes():
    tasks = tasks_of(([[2.0], [2.0], [3.0]], [0, 1, 2]), ([[5.0]] * 3, [0, 1, 2]))
    assert rows(code_centers(tasks)) == [[[2.0], [3.0]], [[5.0]]]


def test_only_training_samples_count():
    x, y = torch.tensor([[0.0], [4.0]]), torch.tensor([0, 1])
    tasks = Tasks.from_samples([(x, y)], val=[(x + 100, y)], test=[(x - 100, y)])
    assert rows(code_centers(tasks)) == [[[0.0], [4.0]]]


def many_tasks():
    draw = torch.Generator().manual_seed(0)
    nodes = [(torch.randn(40, 6, generator=draw), torch.arange(40) % 5) for _ in range(4)]
    return tasks_of(*nodes, node_id=torch.tensor([7, 3, 9, 1]))


def test_a_node_is_keyed_by_what_it_is_and_not_by_its_place():
    tasks, order = many_tasks(), torch.tensor([2, 0, 3, 1])
    assert torch.equal(code_centers(tasks)[order], code_centers(tasks.select(order)))
    assert torch.equal(code_centers(tasks)[2:3], code_centers(tasks.select([2])))


def test_threads_do_not_matter():
    """With several, scikit-learn sums in an order of its own every time."""
    draw = torch.Generator().manual_seed(0)
    tasks = tasks_of((torch.randn(900, 20, generator=draw), torch.arange(900) % 6))
    assert torch.equal(code_centers(tasks), code_centers(tasks))


def test_codes_of_an_encoder():
    tasks = tasks_of((THREE, [0, 0, 1, 1, 2, 2]))
    assert rows(code_centers(tasks, lambda x: torch.cat([x, -x], 1), count=1)) == [[[64 / 6, -64 / 6]]]
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Dropout(0.5))
    nn.init.constant_(module[0].weight, 2.0)
    assert rows(code_centers(tasks, module)) == [[[1.0], [21.0], [42.0]]]
    assert module.training  # the user's is left as it is


def test_samples_are_flattened_without_an_encoder():
    tasks = tasks_of((torch.ones(3, 2, 2), [0, 0, 0]))
    assert rows(code_centers(tasks)) == [[[1.0] * 4]]


@pytest.mark.parametrize(
    ("encoder", "error"),
    [
        (lambda x: x[:, 0], ("contract", "encoder", "[6, D]", "(6,)")),
        (lambda x: x[:2], ("contract", "encoder", "[6, D]", "(2, 1)")),
        (lambda x: x.tolist(), ("contract", "encoder", "[6, D]", "list")),
        (lambda x: x / 0, ("not-finite", "node 'north'")),
    ],
)
def test_bad_encoders(encoder, error):
    with raises(*error):
        code_centers(tasks_of((THREE, [0] * 6), names=["north"]), encoder)


def test_integers_are_no_codes():
    tasks = tasks_of((torch.arange(6)[:, None], [0, 0, 0, 1, 1, 1]))
    with raises("missing", "encoder"):
        code_centers(tasks)
    assert rows(code_centers(tasks, lambda x: x.float())) == [[[1.0], [4.0]]]


NAN = torch.nan


def test_distances_by_hand():
    """{0, 6} and {2, 6}: ½ (4 + 0), root 1.4142; the authors' code has √4 / 2 = 1. {0, 6} and {9}: 3, by either."""
    distance, published, spacing = center_distances(torch.tensor([[[0.0], [6.0]], [[6.0], [2.0]], [[9.0], [NAN]]]))
    assert distance.tolist() == [[0.0, 2**0.5, 3.0], [2**0.5, 0.0, 3.0], [3.0, 3.0, 0.0]]
    torch.testing.assert_close(published, torch.tensor([[0.0, 1, 3], [1, 0, 3], [3, 3, 0]]).double())
    assert spacing == pytest.approx(((36 + 16) / 2) ** 0.5)  # 6 in one, 4 in the other


def test_spacing_is_to_the_nearest_other_one():
    """Of 0, 3 and 10 these are at 3, 3 and 7."""
    _, _, spacing = center_distances(torch.tensor([[[0.0], [3.0], [10.0]]]))
    assert spacing == pytest.approx(((9 + 9 + 49) / 3) ** 0.5)


def test_no_spacing_without_two_centers():
    assert math.isnan(center_distances(torch.tensor([[[0.0]], [[1.0]]]))[2])


def test_two_principal_components():
    """What lies in a plane keeps its distances; of three directions the one with least spread is left out."""
    draw = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(6, 6, generator=draw).double())[0]
    plane = torch.randn(5, 3, 2, generator=draw).double() @ axes[:2]
    torch.testing.assert_close(center_distances(plane, "pca")[0], center_distances(plane)[0])
    thick = plane + torch.tensor([1e-3, -2e-3, 1e-3]).double()[None, :, None] * axes[2]
    torch.testing.assert_close(center_distances(thick, "pca")[0], center_distances(plane)[0], rtol=1e-4, atol=0)
    assert center_distances(torch.tensor([[[1.0, 2.0]]]), "pca")[0].tolist() == [[0.0]]


def test_a_reduction_of_ones_own():
    centers = torch.tensor([[[0.0, 1.0], [4.0, 1.0]], [[0.0, 2.0], [NAN, NAN]]])
    seen = []

    def first(values):
        seen.append(values.tolist())
        return values[:, :1]

    assert center_distances(centers, first)[0].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert seen == [[[0.0, 1.0], [4.0, 1.0], [0.0, 2.0]]]


@pytest.mark.parametrize("reduce", [lambda x: x[:1], lambda x: x[:, 0], lambda x: x * float("nan")])
def test_bad_reductions(reduce):
    with raises("contract", "reduce"):
        center_distances(torch.tensor([[[0.0]], [[1.0]]]), reduce)
