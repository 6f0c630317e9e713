from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch_geometric.data import Data

from graphcollab.comm import Plane
from graphcollab.components.weigh.classifiers import check_head, head_cosines
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises

ENV = SimpleNamespace(plane=Plane())
EDGES = [[0, 1, 2, 1, 0], [0, 0, 0, 2, 1]]


class Model(nn.Module):
    def __init__(self, width, bias, classes=2):
        super().__init__()
        self.backbone, self.head = nn.Linear(1, width), nn.Linear(2, classes, bias=bias)


def graph(heads, biases=None, edges=EDGES, dtype=torch.float64):
    """Nodes with some classifiers [K, C, 2], of two architectures in turn that differ in their backbones."""
    heads = torch.as_tensor(heads, dtype=dtype)
    count, classes = heads.shape[:2]
    rows = heads.flatten(1)
    if biases is not None:
        rows = torch.cat([rows, torch.as_tensor(biases, dtype=dtype)], 1)
    kinds = [torch.arange(first, count, 2) for first in (0, 1) if first < count]
    specs = [ParamSpec.from_module(Model(3 + a, biases is not None, classes)) for a in range(len(kinds))]
    tensors = [
        torch.cat([torch.full((len(m), 2 * (3 + a)), 7.0, dtype=dtype), rows[m]], 1) for a, m in enumerate(kinds)
    ]
    data = Data(num_nodes=count, edge_index=torch.as_tensor(edges))
    data.x = Stacks(tuple(specs), tuple(tensors), tuple(kinds))
    return data


# Rows at 0, 90 and 180 degrees of those of node 0; with biases, all of the same length.
HEADS = [[[3.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [0.0, 5.0]], [[-1.0, 0.0], [0.0, 1.0]]]


def test_class_by_class_by_hand():
    """(0, 0): 1; (1, 0): (0 + 1) / 2; (2, 0): (-1 + 1) / 2; (1, 2): (0 + 1) / 2; (0, 1): as (1, 0)."""
    data = graph(HEADS, biases=[[1.0, 0.0], [-1.0, 3.0], [0.0, 9.0]])  # which play no part
    got = head_cosines(data, ENV, "head", per_class=True)
    assert got.dtype == torch.float64
    assert got.tolist() == pytest.approx([1.0, 0.5, 0.0, 0.5, 0.5])


def test_whole_heads_by_hand():
    """(3, 0, 0, 1 | 0), (0, 2, 0, 5 | 0) and (-1, 0, 0, 1 | 0): 5 / (√10 √29), -2 / (√10 √2), 5 / (√29 √2)."""
    for biases in (None, [[0.0, 0.0]] * 3):
        got = head_cosines(graph(HEADS, biases), ENV, "head")
        assert got.tolist() == pytest.approx([1.0, 0.293610, -0.447214, 0.656532, 0.293610], abs=1e-6)
    with_bias = head_cosines(graph(HEADS, [[0.0, 3.0], [1.0, 0.0], [0.0, -1.0]]), ENV, "head")
    assert with_bias[2].item() == pytest.approx(-5 / (19 * 3) ** 0.5)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**31))
def test_against_numpy(count, classes, seed):
    """All pairs, with classes of zeros among them; scaling a classifier, or a class of it, changes nothing."""
    draw = np.random.default_rng(seed)
    heads, biases = draw.normal(size=(count, classes, 2)), draw.normal(size=(count, classes))
    heads[draw.random((count, classes)) < 0.2] = 0
    edges = np.stack([draw.permutation(count).repeat(count), np.tile(draw.permutation(count), count)])

    def cosine(a, b):
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        return a @ b / lengths if lengths else 0.0

    data = graph(heads, biases, edges)
    by_class = [np.mean([cosine(heads[i, c], heads[j, c]) for c in range(classes)]) for j, i in edges.T]
    np.testing.assert_allclose(head_cosines(data, ENV, "head", per_class=True), by_class, atol=1e-9)
    flat = np.concatenate([heads.reshape(count, -1), biases], 1)
    whole = [cosine(flat[i], flat[j]) for j, i in edges.T]
    np.testing.assert_allclose(head_cosines(data, ENV, "head"), whole, atol=1e-7)
    factors = draw.uniform(0.1, 10, size=(count, classes, 1))
    scaled = graph(heads * factors, biases, edges)
    np.testing.assert_allclose(head_cosines(scaled, ENV, "head", per_class=True), by_class, atol=1e-9)
    scaled = graph(heads * factors[:, :1], biases * factors[:, 0], edges)
    np.testing.assert_allclose(head_cosines(scaled, ENV, "head"), whole, atol=1e-7)


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("per_class", [False, True])
def test_classifiers_of_zeros_or_no_numbers_are_like_nobody(bad, per_class):
    heads = torch.tensor(HEADS)
    heads[1] = bad
    got = head_cosines(graph(heads, [[1.0, 1.0], [bad, bad], [1.0, 1.0]]), ENV, "head", per_class)
    whole = (-3 + 1 + 1 + 1) / (12 * 4) ** 0.5  # of nodes 2 and 0, (-1, 0, 0, 1 | 1, 1) and (3, 0, 0, 1 | 1, 1)
    assert got.tolist() == pytest.approx([1.0, 0.0, 0.0 if per_class else whole, 0.0, 0.0])


def test_single_precision_models_are_compared_in_double():
    heads = torch.tensor([[[1.0, 1e-5]], [[1.0, 0.0]]])
    got = head_cosines(graph(heads, edges=[[1], [0]], dtype=torch.float32), ENV, "head", per_class=True)
    assert 1 - got.item() == pytest.approx(0.5e-10, rel=1e-3)


@pytest.mark.parametrize("per_class", [False, True])
def test_no_gradient_and_no_change(per_class):
    data = graph(HEADS)
    before = [t.clone() for t in data.x.tensors]
    for tensor in data.x.tensors:
        tensor.requires_grad_()
    assert not head_cosines(data, ENV, "head", per_class).requires_grad
    assert all(torch.equal(a, b) for a, b in zip(data.x.tensors, before, strict=True))


def test_no_edges():
    data = graph(HEADS, edges=np.zeros((2, 0), dtype=np.int64))
    for per_class in (False, True):
        assert head_cosines(data, ENV, "head", per_class).shape == (0,)


def test_size_of_a_head():
    assert check_head(graph(HEADS), "head") == 4
    assert check_head(graph(HEADS, [[0.0, 0.0]] * 3), "head") == 6


class Heads(nn.Module):
    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)


@pytest.mark.parametrize(
    "head",
    [
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)),
        nn.Conv2d(1, 2, 3),
        nn.LayerNorm(4),
        nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(2)),  # a bias of another size behind
    ],
    ids=repr,
)
def test_parts_that_are_not_one_linear_layer_are_refused(head):
    spec = ParamSpec.from_module(Heads(head=head))
    data = Data(x=Stacks.single(spec, torch.zeros(2, spec.num_columns)))
    with raises("contract", "part 'head'"):
        check_head(data, "head")


def test_heads_of_different_sizes_are_refused():
    specs = tuple(ParamSpec.from_module(Model(1, True, classes)) for classes in (2, 3))
    tensors = tuple(torch.zeros(1, spec.num_columns) for spec in specs)
    data = Data(x=Stacks(specs, tensors, (torch.tensor([0]), torch.tensor([1]))))
    with raises("mismatch", "part 'head'"):
        check_head(data, "head")
    with raises("unknown", "part 'classifier'", kind=KeyError):
        check_head(data, "classifier")
