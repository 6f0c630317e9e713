"""The hand case of L2C: a = (0, ln 2, 0), Δ = ((1,0), (0,1), (-1,0)), L = ½‖θ - (0,-2)‖²."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.utils import softmax

from graphcollab.components import Exchange, LearnedLogits
from graphcollab.engine import SGD, Adam, AdamW
from graphcollab.transforms import DropWeakest
from tests.raising import raises

LN2 = math.log(2)
START, LOCAL = torch.zeros(3, 2, dtype=torch.float64), [[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0]]
EDGES = [[0, 1, 2], [0, 0, 0]]
TARGET = torch.tensor([0.0, -2.0], dtype=torch.float64)


@pytest.fixture
def hand_case(make_graph, make_env):
    def make(optimizer, own="softmax"):
        weigh = LearnedLogits(optimizer, own)
        data = make_graph(START, torch.tensor(LOCAL, dtype=torch.float64), EDGES)
        data = weigh.init(data, make_env())
        assert data.edge_logit.tolist() == [0.0, 0.0, 0.0]
        data.edge_logit = torch.tensor([0.0, LN2, 0.0], dtype=torch.float64)
        return weigh, weigh(data, make_env())

    return make


def learned(hand_case, make_env, optimizer, own="softmax"):
    weigh, data = hand_case(optimizer, own)
    exchange, env = Exchange("x_start", "update"), make_env()
    data = exchange(data, env)
    cotangent = torch.zeros(3, 2, dtype=torch.float64)
    cotangent[0] = data.x.part("all")[0] - TARGET
    return data, weigh.learn(data, env, exchange.weight_gradient(data, env, cotangent))


def test_weights(hand_case):
    _, data = hand_case(SGD(lr=1.0))
    assert data.edge_weight.tolist() == pytest.approx([0.25, 0.5, 0.25])


def test_gradient_is_the_closed_form_autograd_and_finite_difference(hand_case, make_env):
    before, after = learned(hand_case, make_env, SGD(lr=1.0))
    gradient = before.edge_logit - after.edge_logit
    assert gradient.tolist() == pytest.approx([0.1875, -0.375, 0.1875])
    assert float(gradient.sum()) == pytest.approx(0, abs=1e-12)
    delta = START - torch.tensor(LOCAL, dtype=torch.float64)

    def loss(logit):
        return 0.5 * (START[0] - softmax(logit, torch.zeros(3, dtype=torch.int64)) @ delta - TARGET).square().sum()

    logit = before.edge_logit.clone().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(loss(logit), logit)[0])
    step = 1e-5
    finite = [
        (loss(before.edge_logit + step * e) - loss(before.edge_logit - step * e)) / (2 * step)
        for e in torch.eye(3, dtype=torch.float64)
    ]
    torch.testing.assert_close(gradient, torch.stack(finite), rtol=1e-6, atol=1e-8)


def test_first_adam_step(hand_case, make_env):
    before, after = learned(hand_case, make_env, Adam(lr=0.1))
    assert after.edge_logit.tolist() == pytest.approx([-0.1, LN2 + 0.1, -0.1], abs=1e-6)
    assert after.weigher_step == 1
    assert before.edge_logit.tolist() == pytest.approx([0.0, LN2, 0.0])
    assert before.edge_logit_exp_avg.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_steps_equal_those_of_torch(hand_case, make_env, kind):
    optimizer = {"Adam": Adam, "AdamW": AdamW}[kind](lr=0.1, weight_decay=0.01)
    weigh, data = hand_case(optimizer)
    logit = data.edge_logit.clone().requires_grad_()
    torch_optimizer = getattr(torch.optim, kind)([logit], lr=0.1, weight_decay=0.01)
    draw = torch.Generator().manual_seed(0)
    for _ in range(5):
        data = weigh(data, make_env())
        gradient = torch.randn(3, generator=draw, dtype=torch.float64)
        logit.grad = torch.autograd.grad(softmax(logit, data.edge_index[1]) @ gradient, logit)[0]
        torch_optimizer.step()
        data = weigh.learn(data, make_env(), gradient)
    torch.testing.assert_close(data.edge_logit, logit.detach())


def test_gradients_sum_to_zero_at_every_receiver(make_graph, make_env):
    edges = torch.tensor([[0, 1, 2, 0, 1, 2, 2], [0, 0, 0, 1, 1, 1, 2]])
    weigh = LearnedLogits(SGD(lr=1.0), own="softmax")
    data = weigh.init(make_graph(START, edges=edges), make_env())
    data.edge_logit = torch.randn(7, dtype=torch.float64)
    data = weigh(data, make_env())
    step = data.edge_logit - weigh.learn(data, make_env(), torch.randn(7, dtype=torch.float64)).edge_logit
    sums = torch.zeros(3, dtype=torch.float64).index_add_(0, edges[1], step)
    torch.testing.assert_close(sums, torch.zeros(3, dtype=torch.float64))


def test_dropped_neighbors_weigh_nothing_and_rows_sum_to_one_again(make_graph, make_env):
    node = torch.arange(4)
    edges = torch.cartesian_prod(node, node).flip(1).T
    weigh = LearnedLogits(Adam(lr=0.1))
    data = weigh.init(make_graph(torch.zeros(4, 1), edges=edges), make_env())
    data.edge_logit = torch.linspace(-2, 2, 16)
    data = DropWeakest(count=2)(weigh(data, make_env()))
    data = weigh(data, make_env())
    matrix = torch.zeros(4, 4).index_put((data.edge_index[1], data.edge_index[0]), data.edge_weight)
    torch.testing.assert_close(matrix.sum(1), torch.ones(4))
    assert (matrix == 0).sum(1).tolist() == [2, 2, 2, 2]
    assert (matrix.diagonal() > 0).all()
    # logits grow with the sender, so everyone's strongest neighbor is the last other node
    assert [row.nonzero().flatten().tolist() for row in matrix] == [[0, 3], [1, 3], [2, 3], [2, 3]]
    assert len(data.edge_logit) == len(data.edge_logit_exp_avg) == 8


def test_the_own_logit_is_raised_to_the_largest(hand_case, make_env):
    """Steps of 1 along (0.1875, -0.375, 0.1875): (-0.1875, ln 2 + 0.375, -0.1875), of which the second is largest."""
    before, after = learned(hand_case, make_env, SGD(lr=1.0), "largest")
    assert before.edge_weight.tolist() == pytest.approx([0.25, 0.5, 0.25])  # the first weights are as they were given
    largest = LN2 + 0.375
    assert after.edge_logit.tolist() == pytest.approx([largest, largest, -0.1875])
    after = LearnedLogits(own="largest")(after, make_env())
    total = 2 * math.exp(largest) + math.exp(-0.1875)
    assert after.edge_weight.tolist() == pytest.approx([math.exp(largest) / total] * 2 + [math.exp(-0.1875) / total])


def test_the_first_step_of_adam_raises_it_too(hand_case, make_env):
    _, after = learned(hand_case, make_env, AdamW(lr=0.1, weight_decay=0.01), "largest")
    # decay by 1 - 0.1 · 0.01, and a step of 0.1
    largest = 0.999 * LN2 + 0.1
    assert after.edge_logit.tolist() == pytest.approx([largest, largest, -0.1], abs=1e-6)
    # moments are those of the gradient, whatever is raised
    assert after.edge_logit_exp_avg.tolist() == pytest.approx([0.01875, -0.0375, 0.01875])


def test_an_own_logit_that_is_larger_stays(hand_case, make_env):
    weigh, data = hand_case(SGD(lr=1e-3), "largest")
    data.edge_logit = torch.tensor([3.0, LN2, -1.0], dtype=torch.float64)
    data = weigh(data, make_env())
    gradient = torch.tensor([0.5, -0.25, 1.0], dtype=torch.float64)
    one, other = (LearnedLogits(SGD(lr=1e-3), own).learn(data, make_env(), gradient) for own in ("largest", "softmax"))
    assert torch.equal(one.edge_logit, other.edge_logit)


def everybody(make_graph, make_env, weigh, count=4):
    node = torch.arange(count)
    edges = torch.cartesian_prod(node, node).flip(1).T
    return weigh.init(make_graph(torch.zeros(count, 1), edges=edges), make_env())


def test_nobody_gives_another_more_than_itself(make_graph, make_env):
    weigh, draw = LearnedLogits(), torch.Generator().manual_seed(0)
    data = everybody(make_graph, make_env, weigh)
    raised = 0
    for _ in range(20):
        data = weigh.learn(weigh(data, make_env()), make_env(), torch.randn(16, generator=draw))
        logit = data.edge_logit.view(4, 4)  # [receiver, sender]
        assert torch.equal(logit.diagonal(), logit.max(1).values)
        raised += int((logit == logit.max(1, keepdim=True).values).sum() > 4)
        weight = weigh(data, make_env()).edge_weight.view(4, 4)
        assert (weight.diagonal() >= weight.max(1).values).all()
    assert raised > 5


def test_nodes_at_rest_keep_their_logits(make_graph, make_env):
    """Node 1 does not train, and node 2 does not serve: its logits at others stay, and its own at them too."""
    weigh = LearnedLogits()
    data = everybody(make_graph, make_env, weigh)
    data.edge_logit = torch.linspace(-1, 1, 16)  # of 0 to 3, largest for node 3: own logits are not raised yet
    data.trains, data.serves = torch.tensor([True, False, True, True]), torch.tensor([True, True, False, True])
    after = weigh.learn(weigh(data, make_env()), make_env(), torch.randn(16))
    logit, old = after.edge_logit.view(4, 4), data.edge_logit.view(4, 4)
    assert torch.equal(logit[1], old[1])
    assert torch.equal(logit[[0, 3], 2], old[[0, 3], 2])
    for i in (0, 2, 3):
        learned = [j for j in range(4) if j != 2 or i == 2]
        assert (logit[i, learned] != old[i, learned]).all()
        assert float(logit[i, i]) == float(logit[i, learned].max())


def test_a_neighbor_at_rest_may_have_the_largest(make_graph, make_env):
    """Its logit has not moved, and the own one is raised to what it is: not to what a step would have made of it."""
    weigh = LearnedLogits(SGD(lr=1.0))
    data = weigh.init(make_graph(START, edges=EDGES), make_env())
    data.edge_logit = torch.tensor([0.0, LN2, 0.0], dtype=torch.float64)
    data.serves = torch.tensor([True, False, True])
    for push in (-1.0, 1.0):
        gradient = torch.tensor([0.0, push, 0.0], dtype=torch.float64)
        after = weigh.learn(weigh(data, make_env()), make_env(), gradient)
        assert after.edge_logit[:2].tolist() == pytest.approx([LN2, LN2])


def test_decay_beside_the_step_keeps_what_was_learned(make_graph, make_env):
    """With Adam's, weights become uniform again once gradients are gone, which is L2C's decay over long runs.

    Over 100 rounds of zero gradients, AdamW leaves (1 - 0.1 · 0.01)^100 = 0.905 of every logit.
    """
    weights = {}
    for name, optimizer in (("beside", LearnedLogits().optimizer), ("coupled", Adam(lr=0.1, weight_decay=0.01))):
        weigh = LearnedLogits(optimizer, own="softmax" if name == "coupled" else "largest")
        data = everybody(make_graph, make_env, weigh)
        start = torch.tensor([[2.0, 1.0, -1.0, -2.0]] * 4)
        start[[0, 1, 2, 3], [0, 1, 2, 3]] = 2.0
        data.edge_logit = start.flatten()
        for _ in range(100):
            data = weigh.learn(weigh(data, make_env()), make_env(), torch.zeros(16))
        weights[name] = weigh(data, make_env()).edge_weight.view(4, 4)
        if name == "beside":
            torch.testing.assert_close(data.edge_logit.view(4, 4), start * 0.999**100)
    torch.testing.assert_close(weights["beside"], (start * 0.999**100).softmax(1))
    assert float(weights["beside"][0, 0] - weights["beside"][0, 3]) > 0.5
    torch.testing.assert_close(weights["coupled"], torch.full((4, 4), 0.25), rtol=0, atol=0.01)


def test_it_needs_validation_samples():
    assert (LearnedLogits().learns, LearnedLogits().needs) == (True, ("val",))
    assert LearnedLogits().optimizer == AdamW(lr=0.1, weight_decay=0.01)
    assert LearnedLogits().own == "largest"
    with raises("value", "own", "'largest'", "'softmax'", "'gate'"):
        LearnedLogits(own="gate")
