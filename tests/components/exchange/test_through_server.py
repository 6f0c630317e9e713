"""What `ThroughServer` does beside plain averaging; that is tested with the other routes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.components import Exchange, ThroughServer
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises


class Parts(nn.Module):
    """Three scalars, each a part, and a buffer."""

    def __init__(self):
        super().__init__()
        self.parts = {name: [name] for name in "abc"}
        for name in "abc":
            self.register_parameter(name, nn.Parameter(torch.zeros(1)))
        self.register_buffer("running", torch.zeros(1))


@pytest.fixture
def three_parts(make_graph):
    """Nodes with 1 and 3 samples, parts a, b, c and a buffer; the round began at 1 for all."""
    data = make_graph([[0.0], [0.0]])
    spec = ParamSpec.from_module(Parts())
    data.x_start = Stacks.single(spec, torch.ones(2, 4))
    data.x = Stacks.single(spec, torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]))
    return data


def server(part="all", buffers="average", scale=1.0):
    """A server's average; one whose step size is not 1 goes from where the round began."""
    formula = ("zero", "x") if scale == 1 else ("x_start", "update")
    return Exchange(*formula, part, buffers, scale=scale, route=ThroughServer())


def averaged(exchange, data, env):
    return exchange(exchange.init(data, env), env)


@pytest.mark.parametrize("part", ["a+c", "c+a"])
def test_parts_that_do_not_lie_side_by_side(three_parts, make_env, part):
    after = averaged(server(part, buffers="keep"), three_parts, make_env([1, 3]))
    assert after.x.tensors[0].tolist() == [[4.0, 2.0, 6.0, 4.0], [4.0, 6.0, 6.0, 8.0]]
    assert after.bytes_sent.tolist() == [16.0, 16.0]
    after = averaged(server(part), three_parts, make_env([1, 3]))
    assert after.x.tensors[0].tolist() == [[4.0, 2.0, 6.0, 7.0], [4.0, 6.0, 6.0, 7.0]]
    assert after.bytes_sent.tolist() == [24.0, 24.0]


def test_step_size_of_the_server(three_parts, make_env):
    """From 1, half the way to the mean; buffers are averaged all the same."""
    after = averaged(server(scale=0.5), three_parts, make_env([1, 3]))
    assert after.x.tensors[0].tolist() == [[2.5, 3.0, 3.5, 7.0]] * 2
    after = averaged(server(scale=2.0), three_parts, make_env([1, 3]))
    assert after.x.tensors[0].tolist() == [[7.0, 9.0, 11.0, 7.0]] * 2
    assert after.bytes_sent.tolist() == [32.0, 32.0]


def test_nodes_at_rest_get_the_step_of_those_at_work(three_parts, make_env):
    three_parts.trains = torch.tensor([True, False])
    after = averaged(server("b+c", scale=0.5, buffers="keep"), three_parts, make_env([1, 3]))
    assert after.x.tensors[0].tolist() == [[1.0, 1.5, 2.0, 4.0], [5.0, 1.5, 2.0, 8.0]]
    assert after.bytes_sent.tolist() == [16.0, 0.0]


@pytest.mark.parametrize("part", ["a+a", "all+a"])
def test_parts_named_twice(part):
    with raises("duplicate", "part", "'all'"):
        server(part)


@pytest.mark.parametrize("lr", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_step_sizes(lr):
    with raises("value", "scale"):
        server(scale=lr)


def test_the_base_is_averaged_too(three_parts, make_env):
    """Nodes whose round began at different models meet: at the mean of 1 and 5, weighted 1 : 3, and half the step."""
    three_parts.x_start = Stacks.single(three_parts.x.specs[0], torch.tensor([[1.0] * 4, [5.0] * 4]))
    after = averaged(server("a", "keep", 0.5), three_parts, make_env([1, 3]))
    assert after.x.part("a").tolist() == [[4.0]] * 2  # (1 + 3 · 5) / 4, and nobody has moved
    after = averaged(server("c", "keep", 0.5), three_parts, make_env([1, 3]))
    assert after.x.part("c").tolist() == [[5.0]] * 2  # 4 + ((3 - 1) + 3 (7 - 5)) / 4 / 2


@pytest.mark.parametrize("base", ["x", "x_start"])
def test_pulls_through_a_server_are_those_of_the_mean(three_parts, make_env, base):
    pull = Exchange(base, "x", "a+b+c", against="x_start", scale=0.5, route=ThroughServer())
    mean = torch.tensor([4.0, 5.0, 6.0])
    expected = (mean if base == "x" else torch.ones(3)) + 0.5 * (mean - 1)
    after = averaged(pull, three_parts, make_env([1, 3]))
    assert after.x.tensors[0][:, :3].tolist() == [expected.tolist()] * 2


def test_no_gradient_reaches_edges(three_parts, make_env):
    data = averaged(server(), three_parts, make_env([1, 3]))
    assert not server().along_edges
    assert server().weight_gradient(data, make_env([1, 3]), torch.ones(2, 3)).eq(0).all()
