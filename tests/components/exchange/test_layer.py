"""`Layer`: models are mixed by layers of PyTorch Geometric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, MessagePassing, SAGEConv

from graphcollab import Method, run
from graphcollab._base.errors import OtherRunError
from graphcollab.components import (
    Exchange,
    Exchanger,
    Fit,
    KeepWeights,
    Layer,
    LearnedLogits,
    NoExchange,
    ThroughServer,
    Uniform,
)
from graphcollab.nn import MixConv
from graphcollab.testing import Scene, check_contract
from graphcollab.transforms import Ring, WithSelfLoops
from tests.raising import raises

FIT = Fit(steps=2, batch_size=4)


def averaging(exchange, weigh=None):
    return Method("own", FIT, weigh or Uniform(), exchange, prepare=WithSelfLoops())


@pytest.mark.parametrize("weigh", [Uniform(), LearnedLogits()])
@pytest.mark.parametrize(("base", "message"), [("zero", "x"), ("x_start", "update"), ("update", "x_start")])
def test_the_built_in_layer_is_the_built_in_exchange(weigh, base, message):
    scene = Scene.small()
    one, _ = scene.play(averaging(Layer(MixConv(), base, message), weigh), rounds=3)
    two, _ = scene.play(averaging(Exchange(base, message), weigh), rounds=3)
    torch.testing.assert_close(one.x.part("all"), two.x.part("all"), rtol=0, atol=1e-12)
    torch.testing.assert_close(one.edge_weight, two.edge_weight, rtol=0, atol=1e-12)
    assert one.bytes_sent.equal(two.bytes_sent)


class Median(MessagePassing):
    """The median of the models that arrive, whatever their weights."""

    def __init__(self):
        super().__init__(aggr="median")

    def forward(self, x, edge_index, edge_weight):
        return self.propagate(edge_index, x=x)


def test_a_median_of_neighbors():
    after, _ = Scene.small().replace(edge_index=Ring()).play(averaging(Layer(Median())), rounds=1)
    alone, _ = Scene.small().play(Method("alone", FIT), rounds=1)
    x = alone.x.part("all")
    assert after.x.part("all").equal(torch.stack([x.roll(-1, 0), x, x.roll(1, 0)]).median(0).values)


def test_edges_of_weight_0_are_left_out_and_a_node_without_others_keeps_its_model():
    """Node 0 receives node 1, node 1 nobody: its edge weighs 0."""
    graph = Data(edge_index=torch.tensor([[1, 0, 2], [0, 1, 0]]), edge_weight=torch.tensor([1.0, 0.0, 0.0]))
    graph.num_nodes = 6
    after, _ = (
        Scene.small().replace(edge_index=graph).play(Method("own", FIT, KeepWeights(), Layer(Median())), rounds=1)
    )
    alone, _ = Scene.small().play(Method("alone", FIT), rounds=1)
    x = alone.x.part("all")
    assert after.x.part("all").equal(x[[1, 1, 2, 3, 4, 5]])
    assert after.bytes_sent.tolist() == [0.0, 4.0 * x.shape[1], 0.0, 0.0, 0.0, 0.0]


def attention(width, **settings):
    draw = torch.Generator().manual_seed(0)
    layer = GATConv(width, width, edge_dim=1, bias=False, **settings).double().requires_grad_(False)
    for value in layer.parameters():
        value.copy_(0.1 * torch.randn(value.shape, generator=draw))
    layer.lin.weight.copy_(torch.eye(width))
    return layer


@pytest.mark.parametrize("loops", [True, False])
def test_attention_over_models_learns_its_weights(loops):
    scene = Scene.small()
    width = scene.begin(Method("alone", FIT))[0].x.part("all").shape[1]
    method = averaging(Layer(attention(width, add_self_loops=loops)), LearnedLogits())
    assert scene.play(method, rounds=3)[0].edge_logit.abs().max() > 0


def test_weight_gradients_are_those_of_plain_autograd():
    scene = Scene.small()
    exchange = Layer(attention(scene.begin(Method("alone", FIT))[0].x.part("all").shape[1], add_self_loops=False))
    method = averaging(exchange, LearnedLogits())
    data, env = scene.begin(method)
    data.edge_weight = torch.rand(data.num_edges, dtype=torch.float64) + 0.1
    after = exchange(data, env)
    cotangent = torch.randn(after.x.part("all").shape, dtype=torch.float64)
    x, w = data.x.part("all"), data.edge_weight.clone().requires_grad_()
    sender, receiver = data.edge_index
    a, b = (x * exchange.layer.att_src[0]).sum(1), (x * exchange.layer.att_dst[0]).sum(1)
    logit = a[sender] + b[receiver] + w * (exchange.layer.lin_edge.weight[:, 0] * exchange.layer.att_edge[0, 0]).sum()
    share = torch.exp(torch.nn.functional.leaky_relu(logit, 0.2))
    share = share / torch.zeros(6, dtype=torch.float64).index_add(0, receiver, share)[receiver]
    mixed = torch.zeros_like(x).index_add(0, receiver, share[:, None] * x[sender])
    torch.testing.assert_close(after.x.part("all"), mixed.detach())
    (expected,) = torch.autograd.grad(mixed, w, cotangent)
    torch.testing.assert_close(exchange.weight_gradient(after, env, cotangent), expected)


def test_the_contract_holds():
    check_contract(averaging(Layer(Median())))
    check_contract(averaging(Layer(MixConv()), LearnedLogits()))


@pytest.mark.parametrize(
    ("layer", "facts"),
    [
        (SAGEConv(45, 45).requires_grad_(False), ("SAGEConv", "edge_weight", "edge_attr")),
        (GATConv(3, 3, edge_dim=1).double().requires_grad_(False), ("GATConv", "RuntimeError")),
        (nn.Bilinear(2, 2, 2).requires_grad_(False), ("Bilinear",)),
    ],
)
def test_layers_that_cannot_mix_are_refused_at_the_start(layer, facts):
    with raises("contract", "layer", *facts):
        Scene.small().begin(averaging(Layer(layer)))


def test_parameters_that_nothing_trains_are_refused():
    with raises("contract", "layer", "'att_src'"):
        Layer(GATConv(4, 4))


def test_a_layer_without_weights_cannot_learn_them():
    method = averaging(Layer(Median()), LearnedLogits())
    with raises("unsupported", "layer"):
        Scene.small().begin(method)


@dataclass(frozen=True)
class Own(Exchanger):
    along_edges: ClassVar[bool] = True

    def __call__(self, data, env):
        return data


@pytest.mark.parametrize("exchange", [Own(), NoExchange(), Exchange("x_start", "update", route=ThroughServer())])
def test_weights_that_get_no_gradient_are_not_learned(exchange):
    with raises("unsupported", "exchange", "LearnedLogits", type(exchange).__name__):
        averaging(exchange, LearnedLogits())


@pytest.mark.parametrize("exchange", [Layer(Median()), Exchange("x_start", "update")])
def test_models_are_not_mixed_without_weights(exchange):
    with raises("missing", "weigh", type(exchange).__name__):
        Method("m", FIT, exchange=exchange)


def test_an_exchange_says_whether_it_goes_along_edges():
    @dataclass(frozen=True)
    class Forgets(Exchanger):
        def __call__(self, data, env):
            return data

    with pytest.raises(TypeError, match="along_edges"):
        Forgets()


def test_another_layer_is_another_run(tmp_path):
    scene = Scene.small(torch.float32)
    settings = {"rounds": 1, "checkpoint": tmp_path}
    play = lambda layer, **more: run(averaging(Layer(layer)), scene.tasks, scene.modules, **{**settings, **more})  # noqa: E731
    play(MixConv())
    play(MixConv(), rounds=2)
    with raises("other-run", "method.exchange.layer", kind=OtherRunError):
        play(Median(), rounds=3)
