from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import MessagePassing

from graphcollab.nn import MixConv
from tests.pretend import DEVICE, Accelerator


class Plain(MessagePassing):
    """The same sum by message passing that builds every message."""

    def __init__(self):
        super().__init__(aggr="add")

    def forward(self, x, edge_index, edge_weight, size=None):
        return self.propagate(edge_index, x=x, edge_weight=edge_weight, size=size)

    def message(self, x_j, edge_weight):
        return edge_weight[:, None] * x_j


def example(senders, receivers, count, seed):
    draw = torch.Generator().manual_seed(seed)
    edges = torch.stack([torch.randint(n, (count,), generator=draw) for n in (senders, receivers)])
    x = torch.randn(senders, 3, generator=draw, dtype=torch.float64)
    return x, edges, torch.randn(count, generator=draw, dtype=torch.float64)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 20), st.integers(0, 100))
def test_bipartite_equals_message_passing(senders, receivers, count, seed):
    x, edges, weight = example(senders, receivers, count, seed)
    expected = Plain()((x, None), edges, weight, (senders, receivers))
    torch.testing.assert_close(MixConv()((x, None), edges, weight, (senders, receivers)), expected)
    torch.testing.assert_close(MixConv()((x, torch.zeros(receivers, 1)), edges, weight), expected)


@pytest.mark.parametrize("count", [5, 12])  # 5: as many edges as nodes
def test_explanations_see_messages_and_the_same_result(count):
    x, edges, weight = example(5, 5, count, 0)
    layer = MixConv()
    fused = layer(x, edges, weight)
    seen = []
    layer.register_message_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    set_masks(layer, torch.ones(count), edges, apply_sigmoid=False)
    torch.testing.assert_close(layer(x, edges, weight), fused)
    assert seen == [(count, 3)]
    mask = (torch.arange(count) > 0).double()  # without the first edge
    set_masks(layer, mask, edges, apply_sigmoid=False)
    torch.testing.assert_close(layer(x, edges, weight), MixConv()(x, edges, weight * mask))
    clear_masks(layer)
    torch.testing.assert_close(layer(x, edges, weight), fused)
    assert len(seen) == 3  # a hook sees messages without an explanation, too


def test_gradients_flow_to_models_and_weights():
    x, edges, weight = example(4, 4, 9, 1)
    layer, plain = MixConv(), Plain()
    grads = []
    for run in (layer, plain):
        a, w = x.clone().requires_grad_(), weight.clone().requires_grad_()
        run(a, edges, w).square().sum().backward()
        grads.append((a.grad, w.grad))
    torch.testing.assert_close(grads[0], grads[1])


def test_no_message_is_built():
    """100 nodes, all pairs, 10,000 columns: messages would take 400 MB; the largest tensor is the result."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.layout == torch.strided:
                largest = max(largest, out.numel())
            return out

    node = torch.arange(100)
    edges = torch.cartesian_prod(node, node).T
    with Watch():
        MixConv()(torch.ones(100, 10_000), edges, torch.full((10_000,), 0.01))
    assert largest == 100 * 10_000


def test_repr_shows_the_kernel():
    assert repr(MixConv("csr")) == "MixConv(kernel='csr')"


@pytest.mark.parametrize("hook", ["register_message_forward_hook", "register_aggregate_forward_hook"])
def test_a_base_and_rows_that_are_subtracted(hook):
    """y_i = b_i + Σ w_ij (x_j - a_i), fused and by messages that a hook looks at."""
    draw = torch.Generator().manual_seed(3)
    edges, weight = torch.tensor([[0, 1, 2, 0], [0, 0, 1, 1]]), torch.tensor([0.5, 2.0, 1.0, -1.0])
    x, base, against = (torch.randn(n, 2, generator=draw) for n in (3, 2, 2))
    expected = base + torch.stack(
        [0.5 * (x[0] - against[0]) + 2 * (x[1] - against[0]), x[2] - against[1] - (x[0] - against[1])]
    )
    layer, seen = MixConv(), []
    for _ in range(2):
        torch.testing.assert_close(layer((x, base), edges, weight, base=base, against=against), expected)
        getattr(layer, hook)(lambda *given: seen.append(given))
    assert len(seen) == 1


def test_a_message_of_a_subclass_counts():
    class Doubled(MixConv):
        def message(self, x_j, edge_weight):
            return 2 * edge_weight[:, None] * x_j

    x, edges, weight = example(4, 4, 9, 1)
    torch.testing.assert_close(Doubled()(x, edges, weight), 2 * MixConv()(x, edges, weight))


@pytest.mark.parametrize("edges_there", [False, True])
@pytest.mark.parametrize("weights_there", [False, True])
def test_edges_and_weights_may_be_on_the_device_of_the_models(edges_there, weights_there):
    edges, weight = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 0]]), torch.tensor([0.1, 0.2, 0.3, 0.4], requires_grad=True)
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    expected = MixConv()(x, edges, weight)
    to_weight = torch.autograd.grad(expected.square().sum(), weight)[0]
    with Accelerator():
        edges, weight = edges.to(DEVICE) if edges_there else edges, weight.to(DEVICE) if weights_there else weight
        found = MixConv()(x.to(DEVICE), edges, weight)
        grad = torch.autograd.grad(found.square().sum(), weight)[0]
        assert (found.device.type, grad.device) == (DEVICE.type, weight.device)
        torch.testing.assert_close(found.cpu(), expected)
        torch.testing.assert_close(grad.cpu(), to_weight)


def test_an_aggregation_of_a_subclass_counts():
    class Halved(MixConv):
        def aggregate(self, inputs, index, dim_size=None):
            return super().aggregate(inputs, index, dim_size=dim_size) / 2

    x, edges, weight = example(4, 4, 9, 1)
    torch.testing.assert_close(Halved()(x, edges, weight), MixConv()(x, edges, weight) / 2)
