"""The checks find methods that break the contract."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch

from graphcollab import Method, Phases
from graphcollab.components import Exchange, Fit, Judge, Metropolis, NoExchange
from graphcollab.engine import SupervisedContrast, Views
from graphcollab.methods import dpsgd, fedavg, local
from graphcollab.models import MLP, SplitModel
from graphcollab.testing import Scene, check_contract, differences
from graphcollab.testing.claims import NotApplicable, leaves
from graphcollab.testing.contract import (
    CONTRACT,
    check_absent_nodes,
    check_declared,
    check_input_untouched,
    check_keeps_dtype,
    check_membership,
    check_relabeling,
    check_resume,
    check_runs,
    check_sends,
    check_stragglers,
    check_two_architectures,
)
from graphcollab.testing.edge_checks import (
    check_alone_equals_local,
    check_direction,
    check_forbidden_edges,
    check_reach,
)
from tests.raising import raises


@dataclass(frozen=True)
class Broken(NoExchange):
    """An exchange that does what it is told to the models [K, P]."""

    change: object = None

    def __call__(self, data, env):
        data = copy.copy(data)
        data.x = data.x.with_part("all", self.change(data.x.part("all"), data))
        return data


def broken(change, **slots):
    return local(lr=0.1).replace(exchange=Broken(change=change), **slots)


@dataclass(frozen=True)
class Serve(Judge):
    """Serves models of its own making."""

    change: object

    def __call__(self, data, env):
        return data.x.map(self.change)


@dataclass(frozen=True)
class Latents(Serve):
    """Reads latents, and says so."""

    embeds = True


def serving(change):
    return local(lr=0.1).replace(judge=Serve(change))


def count_in_place(x, data):
    data.bytes_sent.add_(1)
    return x


def stalls(x, data):
    return x / (data.trains & data.serves).all()


def sends(x, data):
    data.bytes_sent = data.bytes_sent + 1
    return x


def notes(x, data):
    data.diary = 1
    return x


@dataclass(frozen=True)
class Chatty(NoExchange):
    """Sends something, and does not say what."""

    def __call__(self, data, env):
        return env.plane.charge(super().__call__(data, env), data.node_id, 1.0)


class Memory:
    """State that is not in the data."""

    rounds = 0

    def __call__(self, x, data):
        Memory.rounds += 1
        return x + Memory.rounds


def averages(x, data):
    """A server that heeds no edges."""
    return x.mean(0).expand_as(x)


def back(x, data):
    """Influence along edges, and against them."""
    sender, receiver = data.edge_index
    return x.index_add(0, sender, 0.1 * x[receiver]).index_add(0, receiver, 0.1 * x[sender])


def two_edges(x, data):
    """Models that go on to their receivers' receivers within a round."""
    for _ in range(2):
        x = x.index_add(0, data.edge_index[1], 0.1 * x[data.edge_index[0]])
    return x


@dataclass(frozen=True)
class ServeMeans(Judge):
    """Nodes are judged by everybody's mean, though they keep their own models."""

    def __call__(self, data, env):
        return data.x.map(lambda rows: rows.mean(0).expand_as(rows))


serving_means = local(lr=0.1).replace(judge=ServeMeans())
twice = broken(two_edges)


@pytest.mark.parametrize(
    ("check", "method", "message"),
    [
        (check_runs, serving(lambda tensor: tensor * float("nan")), "models is not finite after 2 rounds"),
        (check_runs, local(lr=0.0, weight_decay=0.0), "no model has changed"),
        (check_keeps_dtype, serving(torch.Tensor.double), "models of torch.float32 have become"),
        (check_input_untouched, broken(count_in_place), r"changed its input in place: \['data.0.bytes_sent'"),
        (check_relabeling, broken(lambda x, data: x + torch.arange(6.0)[:, None]), "models of relabeled nodes"),
        (check_alone_equals_local, broken(averages), "node without neighbors differ"),
        (check_alone_equals_local, broken(sends), "bytes_sent of a node without neighbors is 2"),
        (check_forbidden_edges, broken(averages), "models of nodes that are not connected to those whose data changed"),
        (check_forbidden_edges, serving_means, "models that are served of nodes that are not connected"),
        (check_direction, broken(back), "models of nodes to which no path leads differ"),
        (check_reach, twice, "models of nodes 3 edges away, after 2 rounds, differ"),
        (check_resume, broken(Memory()), "differs from an uninterrupted one in"),
        (check_absent_nodes, broken(lambda x, data: x + 0.1), "x of a node that was absent has changed"),
        (check_stragglers, broken(stalls), "x is not finite where nodes are absent"),
        (check_declared, broken(notes), r"\['diary'\] are in the data, and no piece declares them"),
        (check_sends, local().replace(exchange=Chatty()), r"\['Chatty'\] cause bytes, and do not say in `travels`"),
        (check_membership, broken(sends), "a node that is not there has sent something"),
        (check_two_architectures, dpsgd(part="head").replace(exchange=Exchange("zero", "x", "backbone")), "shape"),
    ],
)  # fmt: skip
def test_broken_methods_are_found(check, method, message):
    with pytest.raises((AssertionError, ValueError), match=message):
        check(method)


def test_the_message_names_method_and_check():
    with pytest.raises(AssertionError, match=r"^local, check_runs: no model has changed"):
        check_contract(local(lr=0.0, weight_decay=0.0))


def test_every_check_but_that_of_two_architectures_is_in_the_contract():
    from graphcollab.testing import contract, edge_checks

    checks = {name for module in (contract, edge_checks) for name in vars(module) if name.startswith("check_")}
    assert checks - {"check_contract", "check_two_architectures"} == {check.__name__ for check in CONTRACT}


def test_scenes_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    one, two = Scene.small(), Scene.small()
    assert torch.equal(before, torch.get_rng_state())
    assert differences(one.tasks, two.tasks) == []
    assert one.models(local()).dtype == torch.float64
    assert isinstance(one.replace(seed=1), Scene)


def test_leaves_and_differences():
    value = {"a": torch.tensor([1.0, float("nan")]), "b": [1, (2, "x")]}
    assert [name for name, _ in leaves(value, "v")] == ["v.a", "v.b.0", "v.b.1.0", "v.b.1.1"]
    assert differences(value, {"a": torch.tensor([1.0, float("nan")]), "b": [1, (2, "x")]}) == []
    assert differences(value, {"a": torch.tensor([1.0, 2.0]), "b": [1, (2, "y")], "c": 0}) == [
        "data.a", "data.b.1.1", "data.c"]  # fmt: skip
    assert differences(torch.ones(1), torch.ones(1, dtype=torch.float64)) == ["data"]
    assert isinstance(local(), Method)


def contrasting():
    """Averages heads, and reads latents."""
    fit = Fit(epochs=1, batch_size=4, objective=SupervisedContrast(), views=Views(count=2))
    return dpsgd(part="head").replace(local=fit)


def test_checks_that_say_nothing_are_counted():
    assert check_contract(local(lr=0.1)) == {}
    skipped = check_contract(fedavg(epochs=1, lr=0.1))
    assert [*skipped] == ["check_direction", "check_reach", "check_absent_nodes"]
    assert "fedavg refuses paths: a server would average" in skipped["check_direction"]
    assert "fedavg has global state, which may reach nodes that are away" in skipped["check_absent_nodes"]
    with pytest.raises(NotApplicable, match="has global state, which reaches all"):
        check_reach(fedavg(incomplete="average").replace(weigh=Metropolis()))
    with pytest.raises(NotApplicable, match="refuses edges that lead one way"):
        check_direction(dpsgd())


@pytest.mark.parametrize("check", [*CONTRACT, check_two_architectures], ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", [contrasting(), Phases(local(), 1, contrasting())], ids=["method", "phases"])
def test_methods_that_read_latents_are_put_to_it_too(method, check):
    check(method)


def test_scenes_have_the_models_a_method_needs():
    assert contrasting().embeds
    assert Phases(local(), 1, contrasting()).embeds
    assert Phases(contrasting(), 1, local()).embeds
    assert local().replace(judge=Latents(None)).embeds
    assert not local().embeds
    assert not Phases(local(), 1, fedavg()).embeds
    assert [type(module) for module in Scene.small().modules] == [MLP]
    scene = Scene.small(shared_head=True, embeds=True)
    assert [type(module) for module in scene.modules] == [SplitModel, SplitModel]
    data, _ = scene.begin(contrasting())
    assert [data.x.part(part).shape for part in ("head", "prototypes")] == [(6, 3 * 5 + 3), (6, 3 * 4)]
    with raises("mismatch", "part 'backbone'"):
        data.x.part("backbone")
    with raises("missing", "node 'node 0'"):
        Scene.small().begin(contrasting())
