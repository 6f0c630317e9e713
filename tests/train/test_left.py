"""A node that has left keeps the model it had then, and is in no mean, wherever one is shown."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Phases, Tasks, compare, join, methods, run
from graphcollab.components import Participation
from graphcollab.methods import fedavg
from graphcollab.report import results_table, site_table
from graphcollab.testing import Scene
from tests.methods.quick import early

DRAW = torch.Generator().manual_seed(0)
Y = torch.arange(20) % 4
CENTERS = torch.randn(4, 5, generator=DRAW)
NODES = [(torch.randn(20, 5, generator=DRAW), Y)]  # noise, so that a mean with it is a worse one
NODES += [(CENTERS[Y] + torch.randn(20, 5, generator=DRAW), Y) for _ in range(3)]
TASKS = Tasks.from_samples(NODES, test=NODES, names=list("abcd"), val_fraction=0)
LEAVES = Participation(leaves={"a": 2})


def model():
    net = nn.Linear(5, 4)
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    return net


def averaging():
    return fedavg(lr=0.5, steps=1, batch_size=100, weight_decay=0.0)


def run_averaging(rounds, **settings):
    return run(averaging(), TASKS, model, rounds=rounds, **settings)


def by_hand(rounds, present):
    """FedAvg by plain gradient descent: the models of all nodes after every round."""
    held, after = [[torch.zeros(4, 5), torch.zeros(4)]] * 4, []
    for round_ in range(rounds):
        new = {}
        for k in present(round_):
            weight, bias = (one.clone().requires_grad_() for one in held[k])
            x, y = NODES[k]
            steps = torch.autograd.grad(F.cross_entropy(F.linear(x, weight, bias), y), (weight, bias))
            new[k] = [one.detach() - 0.5 * step for one, step in zip((weight, bias), steps, strict=True)]
        mean = [torch.stack(each).mean(0) for each in zip(*new.values(), strict=True)]
        held = [mean if k in new else held[k] for k in range(4)]
        after.append(held)
    return after


def accuracy(held, k):
    x, y = NODES[k]
    return float((F.linear(x, *held[k]).argmax(1) == y).double().mean())


def test_a_node_that_left_keeps_its_model_and_is_in_no_mean():
    result = run_averaging(6, participation=LEAVES)
    states = by_hand(6, lambda round_: (0, 1, 2, 3) if round_ < 2 else (1, 2, 3))
    for k, name in enumerate("abcd"):
        torch.testing.assert_close(result.model(name).weight.detach(), states[-1][k][0])
        torch.testing.assert_close(result.graph().x[k], result.stacks.part("all")[k])
    assert not torch.equal(result.model("a").weight, result.model("b").weight)
    everyone = [accuracy(states[-1], k) for k in range(4)]
    mean = sum(everyone[1:]) / 3
    assert mean > sum(everyone) / 4 + 0.05
    scores, summary = result.scores(), result.summary()
    assert scores["accuracy"].tolist() == pytest.approx(everyone)
    assert (scores.mean("accuracy"), scores.nodes("accuracy")) == (pytest.approx(mean), 3)
    assert scores.mean("accuracy", weighted=True) == pytest.approx(mean)
    assert (summary["mean"], summary["nodes"], summary["ignored"]) == (pytest.approx(mean), 3, 1)
    assert repr(result).endswith(f"mean test accuracy {mean:.4g} (3 of 4 nodes))")
    curve = result.history.mean("test_metric")
    for t, state in enumerate(states):  # it counts in the rounds that it took part in
        there = range(4) if t < 2 else range(1, 4)
        assert curve[t] == pytest.approx(sum(accuracy(state, k) for k in there) / len(there))


def test_tables_have_the_same_mean_and_say_over_how_many_nodes():
    result = run_averaging(6, participation=LEAVES)
    mean = f"{100 * result.summary()['mean']:.1f}"
    table = str(site_table(result, resamples=20))
    [own] = re.findall(r"^a +20 +(\S+)", table, re.MULTILINE)
    assert own == f"{100 * float(result.scores()['accuracy'][0]):.1f}"
    assert re.search(rf"^mean +{mean} \(3 of 4 sites\)", table, re.MULTILINE)
    assert re.search(rf"^mean, by samples +60 +{mean} \(3 of 4 sites\)", table, re.MULTILINE)
    assert "left the collaboration, so in no mean, and judged by the model of then: a" in table
    found = compare({"fedavg": averaging}, lambda seed: TASKS, model, seeds=[0], rounds=6, participation=LEAVES)
    assert re.search(rf"{mean}.* 3 of 4", str(results_table(found)))
    assert found.values("fedavg")[0] == pytest.approx(result.summary()["mean"])


def test_a_node_that_never_joined_has_no_score_and_one_that_joins_begins_with_the_average():
    result = run_averaging(3, participation=Participation(joins={"a": 5, "b": 2}))
    scores = result.scores()
    assert scores["accuracy"].isnan().tolist() == [True, False, False, False]
    assert scores.nodes("accuracy") == result.summary()["nodes"] == 3
    assert scores.mean("accuracy") == pytest.approx(result.summary()["mean"])
    assert "no value: a" in str(site_table(result, resamples=20))

    def present(round_):
        return (2, 3) if round_ < 2 else (1, 2, 3)

    states = by_hand(2, present)
    states[-1][1] = states[-1][2]  # what the server sends reaches it before it joins
    torch.testing.assert_close(
        run_averaging(2, participation=result.env.participation).model("b").weight.detach(), states[-1][2][0]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.__all__)
def test_what_a_node_is_judged_by_stays_as_it_was_when_it_left(name):
    scene = Scene.small(embeds=early(name).embeds)
    scene = scene.replace(participation=Participation(leaves={1: 2}))
    method = early(name)
    data, env = scene.begin(method)
    judged = []
    for _ in range(4):
        data = method.play(data, env)
        judged.append(method.models(data, env).part("all"))
    for later in judged[2:]:
        assert torch.equal(later[1], judged[1][1])
    assert not torch.equal(judged[3], judged[1])


def test_newcomers_hear_nobody_who_is_not_there():
    result = run_averaging(6, participation=Participation(leaves={"a": 2}, joins={"d": 9}))
    found = join(result, Tasks.from_samples([NODES[1]], names=["new"], val_fraction=0), warmup=0, finetune=0)
    assert {sender for sender, _, _ in found.graph().named_edges()} == {"b", "c"}
    torch.testing.assert_close(found.model("new").weight, result.model("b").weight)  # the average


def test_a_node_that_left_keeps_its_model_in_later_phases_and_after_a_checkpoint(tmp_path):
    def go(rounds, folder=None):
        method = Phases(methods.ditto(lr=0.1), 3, methods.ifca(lr=0.1))
        kind = lambda: nn.Linear(5, 4)  # noqa: E731
        return run(method, TASKS, kind, rounds=rounds, participation=LEAVES, checkpoint=folder)

    left = go(2, tmp_path).model("a").weight
    for result in (go(5, tmp_path), go(5)):
        assert torch.equal(result.model("a").weight, left)
    assert not math.isnan(result.scores()["accuracy"][0])
