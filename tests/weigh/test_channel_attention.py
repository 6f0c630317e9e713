from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab.engine import SGD, Adam
from graphcollab.exchange import Exchange
from graphcollab.nn import Mixer
from graphcollab.plane import Plane
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.typing import Env
from graphcollab.weigh import ChannelAttention

SPEC = ParamSpec.from_module(nn.Linear(2, 3))
ENV = Env(None, Plane(), 0)
NODE = torch.arange(4)
EDGES = torch.cartesian_prod(NODE, NODE).flip(1).T


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def graph(x, weigh):
    data = Data(num_nodes=4, edge_index=EDGES, node_id=NODE, bytes_sent=torch.zeros(4, dtype=torch.float64))
    data.x_init = data.x_start = Stacks.single(SPEC, torch.zeros(4, 9, dtype=torch.float64))
    data.x = Stacks.single(SPEC, x)
    data.trains = data.serves = torch.ones(4, dtype=torch.bool)
    data.isolated = torch.zeros(4, dtype=torch.bool)
    return weigh.init(data, ENV)


def test_identical_changes_weigh_the_same():
    weigh = ChannelAttention()
    data = weigh(graph(normal(1, 9, seed=0).expand(4, 9).contiguous(), weigh), ENV)
    torch.testing.assert_close(data.edge_weight, torch.full((16,), 0.25, dtype=torch.float64))


def test_weights_are_the_softmax_of_inner_products():
    weigh = ChannelAttention()
    data = weigh(graph(normal(4, 9, seed=1), weigh), ENV)
    code = data.mixer.encode(data.x.part("all"), SPEC)
    expected = (code @ code.T).softmax(1)  # [receiver, sender]
    torch.testing.assert_close(data.edge_weight, expected[EDGES[1], EDGES[0]])


@pytest.mark.parametrize(("scale", "share"), [("sum", 1.0), ("mean", 0.25)])
def test_encoders_learn_from_the_loss_of_the_mixed_models(scale, share):
    """The step equals autograd through encoder, softmax and exchange, with the updates held fixed."""
    weigh, exchange = ChannelAttention(optimizer=SGD(lr=1.0), scale=scale), Exchange("x_start", "update")
    before = weigh(graph(normal(4, 9, seed=2), weigh), ENV)
    target, update = normal(4, 9, seed=3), before.x.part("all")
    data = exchange(before, ENV)
    cotangent = data.x.part("all") - target  # of ½‖x - target‖² at every node
    after = weigh.learn(data, ENV, exchange.weight_gradient(data, ENV, cotangent))
    params = {name: tensor.clone().requires_grad_() for name, tensor in before.mixer.tensors.items()}
    code = before.mixer.with_tensors(params).encode(update, SPEC)
    mixed = (code @ code.T).softmax(1) @ update
    (share * 0.5 * (mixed - target).square().sum()).backward()
    for name, param in params.items():
        torch.testing.assert_close(before.mixer.tensors[name] - after.mixer.tensors[name], param.grad, msg=name)
    assert after.mixer_step == 1


def test_state_of_the_optimizer_is_kept_per_encoder():
    weigh = ChannelAttention(optimizer=Adam(lr=0.1))
    data = weigh(graph(normal(4, 9, seed=4), weigh), ENV)
    data = Exchange("x_start", "update")(data, ENV)
    after = weigh.learn(data, ENV, normal(16, seed=5))
    assert set(after.mixer_exp_avg.tensors) == set(after.mixer.tensors)
    assert all(float(t.abs().max()) == 0 for t in data.mixer_exp_avg.tensors.values())
    assert any(float(t.abs().max()) > 0 for t in after.mixer_exp_avg.tensors.values())


def test_bytes():
    weigh = ChannelAttention()
    data = weigh(graph(normal(4, 9, seed=6), weigh), ENV)
    assert data.bytes_sent.tolist() == [4.0 * 9 * 3] * 4  # every change to the three others
    after = weigh.learn(Exchange("x_start", "update")(data, ENV), ENV, normal(16, seed=7))
    mixed, reduced = 4.0 * 9 * 3, 4.0 * 2 * 3 / 4 * data.mixer.num_parameters
    assert after.bytes_sent.tolist() == pytest.approx([4.0 * 9 * 3 + mixed + reduced] * 4)
    frozen = ChannelAttention(pretrained=data.mixer, frozen=True)
    codes = frozen(graph(normal(4, 9, seed=6), frozen), ENV)
    assert codes.bytes_sent.tolist() == [4.0 * 15 * 3] * 4


def test_pretrained_and_frozen(tmp_path):
    mixer = Mixer.create(SPEC, seed=9)
    path = mixer.save(tmp_path / "mixer.safetensors")
    for source in (mixer, path, str(path)):
        weigh = ChannelAttention(pretrained=source, frozen=True)
        data = graph(torch.zeros(4, 9, dtype=torch.float64), weigh)
        assert (weigh.learns, weigh.needs) == (False, ())
        torch.testing.assert_close(data.mixer.tensors["model/weight1"], mixer.tensors["model/weight1"].double())
        assert "mixer_exp_avg" not in data
    assert ChannelAttention(pretrained=mixer).needs == ("val",)


def test_refusals():
    with pytest.raises(ValueError, match="scale must be 'sum' or 'mean', got 'max'"):
        ChannelAttention(scale="max")
    with pytest.raises(ValueError, match="give `pretrained`"):
        ChannelAttention(frozen=True)
    other = ChannelAttention(pretrained=Mixer.create(ParamSpec.from_module(nn.Linear(5, 3))))
    with pytest.raises(ValueError, match="layer 'model' has filters of 3 numbers"):
        graph(torch.zeros(4, 9, dtype=torch.float64), other)


def test_nodes_at_rest_send_nothing_and_weigh_nothing():
    weigh = ChannelAttention()
    data = graph(normal(4, 9, seed=8), weigh)
    data.trains = data.serves = torch.tensor([True, True, False, True])
    after = weigh(data, ENV)
    assert after.bytes_sent.tolist() == [4.0 * 9 * 2] * 2 + [0.0] + [4.0 * 9 * 2]
    code = data.mixer.encode(data.x.part("all"), SPEC)
    work = torch.tensor([0, 1, 3])
    expected = torch.eye(4, dtype=torch.float64)
    expected[work[:, None], work] = (code[work] @ code[work].T).softmax(1)
    torch.testing.assert_close(after.edge_weight, expected[EDGES[1], EDGES[0]])


@pytest.mark.parametrize(("scale", "share"), [("sum", 1.0), ("mean", 1 / 3)])
def test_isolated_nodes_neither_pay_nor_count(scale, share):
    weigh, plain = ChannelAttention(optimizer=SGD(lr=1.0), scale=scale), ChannelAttention(optimizer=SGD(lr=1.0))
    data = graph(normal(4, 9, seed=8), weigh)
    data.isolated = torch.tensor([False, False, True, False])
    data.trains = data.serves = ~data.isolated
    data = Exchange("x_start", "update")(weigh(data, ENV), ENV)
    gradient = normal(16, seed=9)
    after, full = weigh.learn(data, ENV, gradient), plain.learn(data, ENV, gradient)
    reduced = 4.0 * 2 * 2 / 3 * data.mixer.num_parameters
    assert (after.bytes_sent - data.bytes_sent).tolist() == pytest.approx([reduced, reduced, 0.0, reduced])
    for name, tensor in data.mixer.tensors.items():
        torch.testing.assert_close(tensor - after.mixer.tensors[name], share * (tensor - full.mixer.tensors[name]))
