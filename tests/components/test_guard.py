"""A node that diverges is found before anybody hears of it: the others are as if it had never been there."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.components import Isolate, Participation
from graphcollab.components.guard import find_diverged
from graphcollab.data.samples import Pool, Split
from graphcollab.methods import (
    cga,
    cobo,
    dac,
    ditto,
    dpsgd,
    fc,
    fedavg,
    fedproto,
    flt,
    fomo,
    ifca,
    l2c,
    local,
    meta_l2c,
    panm,
    pens,
    pfedgraph,
)
from graphcollab.models import MLP
from graphcollab.testing import Scene
from tests.raising import raises, warns
from tests.testing.lockstep import begin, in_lockstep

NODES, REST = 6, [1, 2, 3, 4, 5]
STEPS = {"lr": 0.05, "batch_size": 10}
METHODS = {
    "fedavg, one step": fedavg(steps=1, **STEPS),
    "fedavg": fedavg(epochs=1, **STEPS),
    "dpsgd": dpsgd(**STEPS),
    "l2c": l2c(epochs=1, drop_round=None, **STEPS),
    "cobo": cobo(**STEPS),
    "cga": cga(**STEPS),
    "fc": fc(**STEPS),
    "ditto": ditto(epochs=1, **STEPS),
    "fomo": None,
}
KINDS = {"mse": ("mse", "mse"), "classes": ("cross_entropy", "accuracy")}


def tasks(scale, kind="mse", seed=0):
    """Nodes with inputs of one scale, but node 0's are too large."""
    draw = torch.Generator().manual_seed(seed)
    truth, nodes = torch.randn(4, 1, generator=draw), []
    for k in range(NODES):
        x = torch.randn(40, 4, generator=draw)
        y = x @ truth + 0.5 * torch.randn(40, 1, generator=draw)
        y = y if kind == "mse" else (y[:, 0] > 0).long()
        nodes.append(((scale if k == 0 else 1) * x, y))
    loss, metric = KINDS[kind]
    made = Tasks.from_samples(nodes, test=nodes, loss=loss, metric=metric)
    pools = {name: Pool(pool.inputs.double(), _double(pool.targets)) for name, pool in made.pools.items()}
    return replace(made, pools=pools)


def _double(targets):
    return targets.double() if targets.is_floating_point() else targets


def method_of(name, nodes):
    return fomo(samples=nodes - 1, epochs=1, **STEPS) if name == "fomo" else METHODS[name]


def model(kind, hidden):
    draw = torch.Generator().manual_seed(1)
    outputs = 1 if kind == "mse" else 2
    module = MLP(4, (8,), outputs) if hidden else nn.Linear(4, outputs)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return module.double()


def isolated(method, scale, kind, hidden, rounds=2):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = run(method, tasks(scale, kind), model(kind, hidden), rounds=rounds, on_nonfinite="isolate")
    return found, [str(one.message) for one in said]


@functools.cache
def without_it(name, kind, hidden):
    """Models of the others after a run of theirs alone, whose inputs are the same whatever node 0's are."""
    method = method_of(name, len(REST))
    return run(method, tasks(1, kind).select(REST), model(kind, hidden), rounds=2).stacks.part("all")


@pytest.mark.parametrize(
    ("scale", "kind", "hidden"),
    [(1e8, "mse", True), (1e8, "classes", False), (1e4, "mse", False), (1e4, "classes", True)],
)
@pytest.mark.parametrize("name", METHODS)
def test_the_others_are_as_if_the_node_had_not_been_there(name, scale, kind, hidden):
    found, said = isolated(method_of(name, NODES), scale, kind, hidden)
    assert found.history.isolated == {"node 0": 1}, found.history.isolated_because
    assert sum("node 0 was isolated in round 0 because" in one for one in said) == 1
    ours, theirs = found.stacks.part("all")[REST], without_it(name, kind, hidden)
    assert (ours - theirs).abs().max() <= 1e-12 * theirs.abs().max()
    assert torch.equal(found.stacks.part("all")[0], found.data.x_init.part("all")[0]), "its last good model"


def quick(names, chosen):
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.filterwarnings("ignore:fomo. its computed weights are all the own model's:RuntimeWarning")
@pytest.mark.parametrize("name", quick(METHODS, ("fedavg, one step", "dpsgd", "cga", "fc")))
def test_a_node_that_grows_slowly_costs_the_others_less_than_their_spread(name):
    """Inputs twelve times too large, and steps that are too large for them by a factor of three to ten only."""
    found, _ = isolated(method_of(name, NODES), 12, "mse", True, rounds=20)
    alone = run(method_of(name, len(REST)), tasks(12).select(REST), model("mse", True), rounds=20)
    assert list(found.history.isolated) == ["node 0"]
    ours, theirs = found.history.last("test_loss")[REST], alone.history.last("test_loss")
    assert abs(float(ours.mean() - theirs.mean())) < float(theirs.std())


@pytest.mark.parametrize("name", quick(METHODS, ("fedavg", "cga", "l2c")))
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_that_learn_are_left_alone(name, kind):
    result = run(method_of(name, NODES), tasks(1, kind), model(kind, True), rounds=8, on_nonfinite="isolate")
    stopped = run(method_of(name, NODES), tasks(1, kind), model(kind, True), rounds=8)
    assert result.history.isolated == {}
    assert torch.equal(result.stacks.part("all"), stopped.stacks.part("all")), "judging changes nothing"
    assert "good" not in stopped.data


def begin_with_numbers(loss, targets, weights, factor=10.0):
    """Two nodes with one sample x = 1 each, and models that are one number."""
    pool = Pool(torch.ones(2, 1).double(), torch.tensor(targets).double()[:, None])
    split = Split.from_lists("train", [torch.tensor([0]), torch.tensor([1])])
    scene = Scene(
        Tasks({"train": pool}, {"train": split}, loss=loss, metric="mse"), [nn.Linear(1, 1, bias=False).double()]
    )
    with torch.no_grad():
        scene.modules[0].weight.fill_(weights)
    data, env = scene.begin(local(steps=1, lr=0.1))
    data.x_start = data.x
    return data, env._replace(isolate=Isolate(factor))


def test_the_bound_by_hand():
    # at w = 3: (3 - 1)² = 4 and (3 - 5)² = 4; outputs of zero: 1 and 25
    data, env = begin_with_numbers("mse", [1.0, 5.0], 3.0)
    assert find_diverged(data, env)[0].loss_bound.tolist() == pytest.approx([40.0, 250.0])
    # of negative losses -3 and 0: 0 + 9 · 3; of those of node 1, -1 and 0: 0 + 9
    data, env = begin_with_numbers(lambda o, t: -(o * t).mean(), [1.0, 1 / 3], 3.0)
    assert find_diverged(data, env)[0].loss_bound.tolist() == pytest.approx([27.0, 9.0])
    data, env = begin_with_numbers("mse", [0.0, 2.0], 0.0)
    assert find_diverged(data, env)[0].loss_bound.tolist() == [math.inf, 40.0], "0 at both: there is no bound"


def test_who_is_blamed_by_hand():
    data, env = begin_with_numbers("mse", [1.0, 5.0], 3.0)
    moved = copy.copy(data)
    moved.x = data.x.like([torch.tensor([[8.0], [8.0]]).double()])  # losses 49 > 40, and 9 <= 250
    judged, why = find_diverged(moved, env)
    assert why == {0: "its model had a loss of 49 on its own data, above the bound of 40"}
    assert judged.good["x"].part("all").tolist() == [[3.0], [8.0]]
    moved.x = data.x.like([torch.tensor([[-300.0], [3.0]]).double()])  # promised 4 · 303, and the loss grew
    assert list(find_diverged(moved, env)[1]) == [0]
    started = copy.copy(data)  # others have made its model bad: (103 - 1)², and its own update helps: (50 - 1)²
    started.x_start = data.x.like([torch.tensor([[103.0], [3.0]]).double()])
    started.x = data.x.like([torch.tensor([[50.0], [3.0]]).double()])
    assert find_diverged(started, env)[1] == {}


def test_an_update_that_doubles_the_loss_is_forgiven_twice():
    data, env = begin_with_numbers("mse", [1.0, 5.0], 3.0)
    data.loss_bound = torch.tensor([40.0, 250.0]).double()
    for expected in ([], [], [0]):
        data.x_start = data.x.like([torch.tensor([[3.0], [3.0]]).double()])
        data.x = data.x.like([torch.tensor([[4.0], [3.0]]).double()])  # from 4 to 9: doubled, and by more than 0.4
        data, why = find_diverged(data, env)
        assert list(why) == expected


@pytest.mark.parametrize("factor", [1, 0.5, math.nan, math.inf, True, "10"])
def test_a_factor_is_a_number_above_1(factor):
    with raises("value", "factor"):
        Isolate(factor)


def test_a_dead_model_with_a_fine_loss_is_found():
    """At w = 1 and x = 1e4 the loss of max(w x, 0) is 1e8; a step of 0.1 leads to w = -2e7 and a loss of 1 for ever."""
    pool = Pool(torch.full((1, 1), 1e4).double(), torch.ones(1, 1).double())
    split = Split.from_lists("train", [torch.tensor([0])])
    module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU()).double()
    with torch.no_grad():
        module[0].weight.fill_(1.0)
    method = local(steps=1, lr=0.1)
    data, env = Scene(Tasks({"train": pool}, {"train": split}, loss="mse", metric="mse"), [module]).begin(method)
    after = method.play(data, env._replace(isolate=True))
    assert after.isolated_because == {
        0: "its local update was to lower its loss by 3.999e+15, and took it from 9.998e+07 to 1"
    }
    assert after.x.part("all").tolist() == [[1.0]]


def test_nobody_is_blamed_for_a_personal_model_that_others_made_bad():
    """Node 0's targets are large: its own model is as it should be, and what others are pulled towards is not."""
    usual = tasks(1)
    pool, split = usual.pools["train"], usual.splits["train"]
    large = pool.targets.index_copy(0, split.of(0), 1e4 * pool.targets[split.of(0)])
    given = replace(usual, pools={**usual.pools, "train": Pool(pool.inputs, large)})
    method = ditto(epochs=1, lr=0.02, batch_size=5)
    with warns("diverged", "models"):
        found = run(method, given, model("mse", False), rounds=15, on_nonfinite="isolate")
    assert not {f"node {k}" for k in REST} & found.history.isolated.keys()


def spoiling(method):
    """The method, after whose local update node 0's model is not finite in every round, whether it trains or not."""

    def call(self, data, env):
        data = copy.copy(type(method.local).__call__(self, data, env))
        spoilt = torch.arange(data.num_nodes) == 0
        data.x = data.x.where(spoilt, data.x.map(lambda rows: rows * torch.nan))
        return data

    piece = type("Spoils", (type(method.local),), {"__call__": call})
    return method.replace(local=piece(**vars(method.local)))


SPREADS = (fedavg, meta_l2c, l2c, dpsgd, pfedgraph, fedproto, ifca)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("make", SPREADS)
def test_a_node_that_goes_on_with_values_that_are_not_finite_is_left_behind_alone(make, processes):
    """0 times NaN would be NaN in a sum of all; others find what they find where nobody hears node 0."""
    method = make()
    scene = Scene.small(embeds=method.embeds).replace(isolate=True)
    pairs = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES)).T
    among = pairs[:, (pairs[0] != pairs[1]) & (pairs != 0).all(0)]
    other, _ = scene.replace(edge_index=among).play(method, 3)

    def play(transport=None):
        data, env = begin(scene, spoiling(method), transport)
        for _ in range(3):
            data = spoiling(method).play(data, env)
        return data

    owners = [torch.tensor([0, 3]), torch.tensor([1, 4]), torch.tensor([2, 5])]
    found = [play()] if processes == 1 else in_lockstep(owners, play)[0]
    for data in found:
        assert data.isolated.tolist() == [True, *[False] * 5]
        for node in set(data.x.nodes.tolist()) - {0}:
            torch.testing.assert_close(data.x.row(node)[1], other.x.row(node)[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", [fedavg, l2c])
def test_a_node_at_rest_with_values_that_are_not_finite_is_left_behind(make):
    """It has not joined yet, and the others are as they would be without it."""
    scene = Scene.small().replace(isolate=True, participation=Participation(joins={0: 2}))
    data, _ = scene.play(spoiling(make()), 3)
    assert data.isolated_because == {0: "its model was not finite, while it was at rest"}
    assert all(bool(torch.isfinite(data.x.row(k)[1]).all()) for k in range(NODES))


def test_losses_below_those_of_the_beginning_may_double():
    """Both began at a loss of 4 or more: from 0.25 to 1 (node 0), and from 4 to 9 (node 1), which began at 25."""
    data, env = begin_with_numbers("mse", [1.0, 5.0], 3.0)
    data.loss_bound = torch.tensor([40.0, 250.0]).double()
    for _ in range(5):
        data.x_start = data.x.like([torch.tensor([[1.5], [7.0]]).double()])
        data.x = data.x.like([torch.tensor([[2.0], [8.0]]).double()])
        data, why = find_diverged(data, env)
        assert why == {}


@pytest.mark.filterwarnings("ignore:.*never played")
@pytest.mark.parametrize("method", [pens, panm, dac])
def test_large_steps_of_nodes_that_learn_are_no_divergence(method):
    draw = torch.Generator().manual_seed(0)
    labels, means = torch.arange(40) % 4, torch.randn(4, 10, generator=draw)
    nodes = [(means[labels] + torch.randn(40, 10, generator=draw), labels) for _ in range(5)]
    model = lambda: nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))  # noqa: E731
    settings = {"rounds": 9, "on_nonfinite": "isolate"}
    result = run(method(lr=0.2), Tasks.from_samples(nodes, names=list("abcde")), model, **settings)
    assert result.history.isolated == {}, result.history.isolated_because


def test_tasks_are_compared_again_without_a_node_that_is_isolated_later():
    """Of two groups its large inputs make one; when it has grown above its bound the others make two."""
    method = flt(groups=2, centers=2, lr=0.013, steps=1, batch_size=10)
    found, _ = isolated(method, 12, "mse", False, rounds=5)
    assert found.history.isolated == {"node 0": 4}
    alone = run(method, tasks(12).select(REST), model("mse", False), rounds=1)
    theirs = {tuple(edge[:2]) for edge in alone.graph().named_edges()}
    assert {tuple(edge[:2]) for edge in found.graph().named_edges()} - {("node 0",) * 2} == theirs
