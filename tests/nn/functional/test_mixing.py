"""The mixing operator against plain dense products and against gradients by finite differences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.autograd import forward_ad

from graphcollab.nn.functional import edge_products, kernels as kernels_module, mix
from graphcollab.nn.functional.kernels import PRODUCTS, choose_product
from graphcollab.nn.functional.structure import Structure
from tests.raising import raises

KERNELS = [name for name in PRODUCTS if name != "triton"]  # which `test_triton` tries


@st.composite
def graphs(draw):
    """Draw edges [2, E] between S senders and D receivers: empty rows, duplicates, bipartite, often E == S."""
    senders, receivers = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    pair = st.tuples(st.integers(0, senders - 1), st.integers(0, receivers - 1))
    count = draw(st.one_of(st.just(senders), st.integers(0, 30)))
    edges = draw(st.lists(pair, min_size=count, max_size=count))
    return torch.tensor(edges, dtype=torch.int64).view(-1, 2).T, senders, receivers


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def dense(edges, weight, senders, receivers):
    matrix = torch.zeros(receivers, senders, dtype=torch.float64)
    for j, i, w in zip(*edges.tolist(), weight.tolist(), strict=True):
        matrix[i, j] += w
    return matrix


@pytest.mark.parametrize("kernel", KERNELS)
@given(graph=graphs(), width=st.integers(1, 5))
def test_kernels_agree_with_the_dense_product(kernel, graph, width):
    edges, senders, receivers = graph
    x, weight = normal(senders, width), normal(edges.shape[1], seed=1)
    exact = dense(edges, weight, senders, receivers) @ x.double()
    bound = dense(edges, weight.abs(), senders, receivers) @ x.double().abs()
    assert ((mix(x, weight, edges, receivers, kernel).double() - exact).abs() <= 1e-6 * bound).all()


@pytest.mark.parametrize("kernel", KERNELS)
@given(graph=graphs(), width=st.integers(1, 4))
@settings(max_examples=25)
def test_gradients_of_every_kernel(kernel, graph, width):
    edges, senders, receivers = graph
    x = normal(senders, width, dtype=torch.float64).requires_grad_()
    weight = normal(edges.shape[1], seed=1, dtype=torch.float64).requires_grad_()
    if edges.shape[1]:
        assert torch.autograd.gradcheck(lambda a, w: mix(a, w, edges, receivers, kernel), (x, weight))
    else:
        assert torch.autograd.gradcheck(lambda a: mix(a, weight, edges, receivers, kernel), (x,))


@given(graph=graphs(), width=st.integers(1, 4))
@settings(max_examples=25)
def test_edge_products_and_their_gradient(graph, width):
    edges, senders, receivers = graph
    a = normal(receivers, width, dtype=torch.float64).requires_grad_()
    b = normal(senders, width, seed=1, dtype=torch.float64).requires_grad_()
    expected = (a[edges[1]] * b[edges[0]]).sum(1)
    torch.testing.assert_close(edge_products(a, b, edges), expected, rtol=1e-12, atol=1e-12)
    if edges.shape[1]:
        assert torch.autograd.gradcheck(lambda left, right: edge_products(left, right, edges), (a, b))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("needs", [(True, False), (False, True), (False, False)])
def test_only_the_gradients_that_are_needed(kernel, needs):
    edges = torch.tensor([[0, 1, 1], [0, 0, 1]])
    x, weight = normal(2, 3).requires_grad_(needs[0]), normal(3).requires_grad_(needs[1])
    out = mix(x, weight, edges, kernel=kernel)
    assert out.requires_grad is any(needs)
    if any(needs):
        out.sum().backward()
    assert (x.grad is not None, weight.grad is not None) == needs


def test_sparse_paths_cut_columns_and_edges_into_blocks(monkeypatch):
    monkeypatch.setattr(kernels_module, "BLOCK_BYTES", 4 * 256 * 12)
    monkeypatch.setattr(kernels_module, "SCATTER_NUMBERS", (0, 0))
    senders, receivers, width = 40, 30, 700
    edges = torch.stack([torch.arange(90) % senders, (torch.arange(90) * 7) % receivers])
    x, weight = normal(senders, width), normal(90, seed=1)
    exact = dense(edges, weight, senders, receivers) @ x.double()
    bound = dense(edges, weight.abs(), senders, receivers) @ x.double().abs()
    for kernel in KERNELS:
        assert ((mix(x, weight, edges, receivers, kernel) - exact).abs() <= 1e-6 * bound).all(), kernel
    a = normal(receivers, width, seed=2)
    expected = (a[edges[1]].double() * x[edges[0]].double()).sum(1)
    torch.testing.assert_close(edge_products(a, x, edges).double(), expected, rtol=1e-4, atol=1e-4)


def test_weights_take_the_models_number_type():
    edges = torch.tensor([[0, 1], [0, 0]])
    assert mix(torch.ones(2, 3, dtype=torch.float64), torch.ones(2), edges).dtype == torch.float64


@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_half_precision_mixes(kernel):
    edges = torch.tensor([[0, 1], [0, 1]])
    x = torch.tensor([[1.0], [2.0]], dtype=torch.bfloat16)
    assert mix(x, torch.tensor([2.0, 3.0]), edges, kernel=kernel).tolist() == [[2.0], [6.0]]
    assert mix(x, torch.tensor([2.0, 3.0]), edges, kernel=kernel).dtype == torch.bfloat16


def test_the_rule_that_chooses():
    few = Structure.from_edges(torch.tensor([[0], [1]]), (100, 4))
    sparse = Structure.from_edges(torch.tensor([[0], [1]]), (100, 100))
    node = torch.arange(100)
    full = Structure.from_edges(torch.cartesian_prod(node, node).T, (100, 100))
    x = torch.zeros(100, 2)
    usual = "compiled" if "compiled" in PRODUCTS else "csr"
    dense = "compiled" if usual == "compiled" else "dense"
    assert (choose_product(few, x), choose_product(sparse, x), choose_product(full, x)) == (dense, usual, dense)
    assert (choose_product(few, x.half()), choose_product(full, x.half())) == ("dense", "dense")
    assert choose_product(sparse, x.bfloat16()) == usual
    assert choose_product(sparse, x.half()) == "csr"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"edges": torch.tensor([[0, 2], [0, 1]])}, ("range", "edge_index")),
        ({"edges": torch.tensor([[0, -1], [0, 1]])}, ("range", "edge_index")),
        ({"x": torch.zeros(2)}, ("shape", "x")),
        ({"weight": torch.zeros(3)}, ("shape", "weight")),
        ({"kernel": "magic"}, ("unknown", "kernel", "'magic'", "'csr'", "'dense'", "'scatter'")),
    ],
)
def test_mix_refuses(change, wanted):
    given = {"x": torch.zeros(2, 1), "weight": torch.zeros(2), "edges": torch.tensor([[0, 1], [0, 1]]), **change}
    with raises(*wanted):
        mix(**given)


def test_edge_products_refuse_vectors_that_do_not_fit():
    with raises("shape", "vectors"):
        edge_products(torch.zeros(2, 3), torch.zeros(2, 4), torch.tensor([[0], [1]]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_numbers_that_are_not_finite_reach_only_those_who_hear_them(kernel, bad):
    """In a dense product 0 · ∞ is NaN: without care one diverging model would reach everybody."""
    edges = torch.tensor([[0, 1, 0, 1, 2, 3, 4], [0, 0, 1, 1, 2, 3, 3]])
    weight = torch.tensor([0.3, 0.7, 0.6, 0.4, 1.0, 0.1, 0.9])
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    fine = mix(x, weight, edges, 4, kernel)
    spoilt = x.clone()
    spoilt[0, 1] = bad
    found = mix(spoilt, weight, edges, 4, kernel)
    assert not found[:2, 1].isfinite().any()
    assert torch.equal(found[2:], fine[2:])
    assert torch.equal(found[:2, [0, 2]], fine[:2, [0, 2]])


def by_loops(x, weight, edges, base, against):
    """b_i - (sum of w) a_i + sum of w x_j, over the edges that there are, in double precision."""
    rows = base.double().clone()
    for i in edges[1].unique().tolist():
        rows[i] -= weight[edges[1] == i].double().sum() * against[i].double()
    for j, i, w in zip(*edges.tolist(), weight.tolist(), strict=True):
        rows[i] += w * x[j].double()
    return rows


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@given(graph=graphs(), seed=st.integers(0, 2**20))
@settings(max_examples=25, deadline=None)
def test_kernels_agree_on_numbers_that_are_not_finite(dtype, graph, seed):
    """Also where a receiver has no edges, and where an edge has weight 0; with and without gradients."""
    (edges, senders, receivers), draw = graph, torch.Generator().manual_seed(seed)

    def spoilt(*shape):
        values, bad = torch.randn(shape, generator=draw), torch.tensor([torch.inf, -torch.inf, torch.nan])
        odd = bad[torch.randint(3, shape, generator=draw)]
        return torch.where(torch.rand(shape, generator=draw) < 0.1, odd, values).to(dtype)

    x, base, against = spoilt(senders, 20), spoilt(receivers, 20), spoilt(receivers, 20)
    weight = torch.rand(edges.shape[1], generator=draw) * (torch.rand(edges.shape[1], generator=draw) < 0.7)
    expected, close = by_loops(x, weight, edges, base, against), 0.05 if dtype.itemsize == 2 else 1e-4
    for kernel in [None, *({*KERNELS} - ({"compiled"} if dtype == torch.float16 else set()))]:
        for learns in (False, True):
            found = mix(x, weight.clone().requires_grad_(learns), edges, receivers, kernel, base, against)
            torch.testing.assert_close(found.double(), expected, rtol=close, atol=close, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_gradients_of_gradients(kernel, dtype):
    if dtype.is_complex and kernel == "compiled":
        pytest.skip("compiled kernels are for real numbers")
    for senders, receivers, count in [(4, 3, 7), (12, 11, 2)]:
        edges = torch.stack([torch.arange(count) * 5 % senders, torch.arange(count) * 3 % receivers])
        shapes = (senders, 2), (count,), (receivers, 2), (receivers, 2)
        given = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
        mixed = lambda x, w, b, a, edges=edges, receivers=receivers: mix(x, w, edges, receivers, kernel, b, a)  # noqa: E731
        products = lambda a, b, edges=edges: edge_products(a, b, edges)  # noqa: E731
        for function, values in ((mixed, given), (products, (given[2], given[0]))):
            assert torch.autograd.gradcheck(function, values, fast_mode=True)
            assert torch.autograd.gradgradcheck(function, values, fast_mode=True)


def test_second_derivatives_are_not_nothing():
    """The gradient of |∂/∂w (Σ_i |y_i|²)|² with respect to x, of which `torch.autograd.grad` once said None."""
    edges, w = torch.tensor([[0, 1, 1], [0, 0, 1]]), torch.tensor([0.5, 0.25, 2.0], requires_grad=True)
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)

    def second(mixed):
        (to_w,) = torch.autograd.grad(mixed.square().sum(), w, create_graph=True)
        return torch.autograd.grad(to_w.square().sum(), x, allow_unused=True)[0]

    assert torch.allclose(second(mix(x, w, edges)), second(torch.zeros(2, 2).index_put((edges[1], edges[0]), w) @ x))


@pytest.mark.slow
def test_forward_derivatives_are_refused():
    x, weight, edges = torch.ones(2, 3), torch.ones(2), torch.tensor([[0, 1], [1, 0]])
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        mix(forward_ad.make_dual(x, x), weight, edges, base=x)


@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_edges_of_32_bits_are_edges(kernel):
    edges, x, weight = torch.tensor([[0, 2, 1], [1, 1, 0]]), normal(3, 200), normal(3, seed=1)
    expected = mix(x, weight, edges, kernel=kernel)
    assert torch.equal(mix(x, weight, edges.int(), kernel=kernel), expected)
    assert torch.equal(edge_products(x, x, edges.int()), edge_products(x, x, edges))


def test_rows_that_cannot_be_mixed_are_refused():
    edges, x, weight = torch.tensor([[0], [1]]), torch.ones(2, 3), torch.ones(1)
    for grad in (False, True):
        for terms in ({"base": x.double()}, {"against": x.bfloat16()}):
            with raises("mismatch", "rows"):
                mix(x.clone().requires_grad_(grad), weight, edges, **terms)
    with raises("mismatch", "rows"):
        edge_products(x.double(), x, edges)
    with raises("shape", "x"):
        mix(x.long(), weight, edges)


def test_nobody_may_be_there_to_receive():
    assert mix(torch.ones(4, 3), torch.empty(0), torch.empty(2, 0, dtype=torch.int64), num_receivers=0).shape == (0, 3)


@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_gradients_of_halves(kernel):
    """Weights in single precision get gradients in it, and rows of half precision in theirs."""
    edges = torch.tensor([[0, 1, 1], [0, 0, 1]])
    x = normal(2, 3, dtype=torch.bfloat16).requires_grad_()
    base, against = normal(2, 3, seed=2, dtype=torch.bfloat16), normal(2, 3, seed=3, dtype=torch.bfloat16)
    weight = normal(3, seed=1).requires_grad_()
    mixed = mix(x, weight, edges, kernel=kernel, base=base, against=against)
    mixed.sum().backward()
    assert (mixed.dtype, x.grad.dtype, weight.grad.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    exact = x.detach().double().sum(1)[edges[0]] - against.double().sum(1)[edges[1]]
    torch.testing.assert_close(weight.grad.double(), exact, rtol=2e-2, atol=2e-2)
