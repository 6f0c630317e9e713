"""Processes that have nothing of each other's nodes find what one process finds, under every method."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab import Phases, methods
from graphcollab.comm import Relation
from graphcollab.components import Field, Formula, NoExchange, Participation
from graphcollab.methods.method import in_step
from graphcollab.testing import Scene
from tests.golden.cases import ELASTIC, PARTS, SIZES
from tests.methods.quick import early, quick
from tests.testing.lockstep import Lockstep, begin, in_lockstep
from tests.testing.planes import OWNERS, check_planes, hide

# Batch normalization of batches of one or two samples amplifies rounding: one process that computes other chunks at a
# time differs from itself by as much, 1e-9 to 3e-6 after three rounds.
AMPLIFIED = 1e-4
UNEVEN = [torch.tensor([0]), torch.tensor([1, 2, 4]), torch.tensor([3]), torch.tensor([5])]


def scene_of(method, **fields):
    return Scene.small(sizes=SIZES, embeds=method.embeds).replace(**fields)


def plain(name):
    method = quick(name)
    return method, scene_of(method)


def defaults(name):
    method = methods.get_method(name)()
    return method, scene_of(method)


def parts(name):
    method = quick(name)
    return method, scene_of(method, edge_index=torch.cat([PARTS, PARTS.flip(0)], 1))


def elastic(name):
    method = quick(name)
    return method, scene_of(method, participation=ELASTIC)


def phases(name):
    method = Phases(quick("local"), 1, quick(name, warmup=2, explore_rounds=2, learn_rounds=2))
    return method, scene_of(method)


def architectures(name):
    method = quick(name, part="head")
    return method, Scene.small(sizes=SIZES, shared_head=True, embeds=method.embeds)


def isolate(name):
    """Node 0 diverges, if it trains."""
    method = quick(name)
    scene = scene_of(method, isolate=True)
    pool, first = scene.tasks.pools["train"], scene.tasks.splits["train"].of(0)
    inputs = pool.inputs.index_copy(0, first, 1e6 * pool.inputs[first])
    return method, scene.replace(tasks=replace(scene.tasks, pools={"train": replace(pool, inputs=inputs)}))


def buffers(name):
    method = quick(name, buffers="average")
    scene = Scene.small(sizes=SIZES, shared_head=method.embeds, embeds=method.embeds)
    if method.embeds:  # these models normalize batches
        return method, scene.replace(modules=[scene.modules[0]], architecture=None)
    backbone = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU())
    return method, scene.replace(modules=[nn.Sequential(OrderedDict(backbone=backbone, head=nn.Linear(5, 3))).double()])


def check(method, scene, **how):
    normalizes = any(isinstance(layer, nn.BatchNorm1d) for module in scene.modules for layer in module.modules())
    rounds = 3 if isinstance(method, Phases) else 2  # in the third of phases all play what they play from then on
    check_planes(method, scene, rounds=rounds, **{"tolerance": AMPLIFIED} if normalizes else {}, **how)


KINDS = {f.__name__: f for f in (plain, defaults, parts, elastic, phases, architectures, isolate, buffers)}


ALWAYS = {"plain"}
# Of the other kinds these are played every time: they meet in the local update, through learned weights, at peers that
# are drawn, through centers, and in personal models.
REPRESENTATIVE = {"cga", "meta_l2c", "fomo", "ifca", "ditto"}


def case(*names):
    soon = not REPRESENTATIVE.isdisjoint(names) or not ALWAYS.isdisjoint(names)
    return pytest.param(*names, marks=() if soon else pytest.mark.slow)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), [case(name, kind) for kind in KINDS for name in methods.__all__])
def test_processes_find_what_one_process_finds(name, kind):
    check(*KINDS[kind](name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [case(name) for name in methods.__all__])
def test_four_processes_of_uneven_shares(name):
    """The first owns no node of the second architecture."""
    check(*architectures(name), owners=UNEVEN)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["cga", "cobo", "l2c", "mapl", "meta_l2c", "panm"])
def test_a_process_of_which_nobody_trains_at_first(name):
    """Its models are as the round found them, and those of others are not: all the same rows travel."""
    method = early(name)
    check(method, scene_of(method, participation=Participation(joins={1: 2, 2: 2, 5: 2})))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ditto", "fedavg_finetuned", "fedproto", "fedsim", "flt", "ifca", "pfedsim"])
def test_nodes_that_have_left_keep_their_models_in_every_process(name):
    method = early(name)
    check_planes(method, scene_of(method, participation=Participation(leaves={1: 1, 3: 2})), rounds=3)


@dataclass(frozen=True)
class ByLoss(Formula):
    """Weighs by what only the sender may know."""

    keeps: ClassVar[tuple[Field, ...]] = (Field("worth", "per_node", "what the loss speaks for", "phase", "owner"),)

    def init(self, data, env):
        data = copy.copy(data)
        data.worth = torch.ones(data.num_nodes, dtype=data.x.dtype)
        return data

    def weights(self, data, env):
        return data.worth[data.edge_index[0]] / 6


@dataclass(frozen=True)
class Hoard(Formula):
    """Keeps the models of all nodes, and says that they are the owners'."""

    keeps: ClassVar[tuple[Field, ...]] = (Field("hoard", "rows", "models of all", "phase", "owner"),)

    def weights(self, data, env):
        data.hoard = (env.plane.all_gather(data.x.part("all")))[0]
        return torch.full_like(data.edge_weight, 1 / 6)


def test_what_only_others_know_is_poisoned():
    with pytest.raises(AssertionError, match="models differ"):
        check_planes(methods.dpsgd().replace(weigh=ByLoss()), rounds=1)


def test_rows_of_others_are_found():
    with pytest.raises(AssertionError, match="'hoard' has 6 rows, this process owns 3 nodes"):
        check_planes(methods.dpsgd().replace(weigh=Hoard()))


@dataclass(frozen=True)
class MeetsAll(Formula):
    """Compares all pairs, whoever hears whom."""

    def weights(self, data, env):
        x, every = data.x.part("all"), torch.arange(data.num_nodes)
        env.plane.distances(x, x, torch.cartesian_prod(every, every).T)
        return torch.full_like(data.edge_weight, 0.5)


@pytest.mark.parametrize("edge_index", [None, torch.cat([PARTS, PARTS.flip(0)], 1)])
def test_who_hears_others_than_those_drawn_is_found(edge_index):
    method = methods.random_peers(samples=1)
    scene = scene_of(method, edge_index=edge_index)
    check_planes(method, scene)
    with pytest.raises(AssertionError, match="which are no edges of the round"):
        check_planes(method.replace(weigh=MeetsAll()), scene)


class Generous(Lockstep):
    """Brings a row that nobody asked for."""

    def fetch(self, rows, nodes, edge_index):
        every, asked = torch.arange(len(self.owner)), len(self.wanted(edge_index)[self.process])
        return super().fetch(rows, nodes, torch.cartesian_prod(every, every).T)[:asked]


def test_who_is_given_more_rows_than_its_nodes_hear_is_found(monkeypatch):
    monkeypatch.setattr("tests.testing.lockstep.Lockstep", Generous)
    with pytest.raises(AssertionError, match=r"was given rows of \[1, 2, 5\], and its nodes hear \[1\]"):
        check_planes(methods.dpsgd(), scene_of(methods.dpsgd(), edge_index=torch.tensor([[1, 0], [0, 1]])))


def state(**fields):
    edges = torch.tensor([[1, 0, 2], [0, 1, 1]])
    return Data(num_nodes=3, edge_index=edges, **fields)


def declared(kind, known_to):
    return [
        Field("num_nodes", "scalar", ""),
        Field("edge_index", "per_edge", ""),
        Field("it", kind, "", "run", known_to),
    ]


@pytest.mark.parametrize(
    ("kind", "known_to", "known"),
    [
        ("per_node", "public", [0, 1, 2]),
        ("per_node", "owner", [0]),
        ("per_edge", "receiver", [0]),
        ("per_edge", "ends", [0, 1]),
    ],
)
def test_who_knows_an_entry(kind, known_to, known):
    found = hide(state(it=torch.ones(3)), declared(kind, known_to), torch.tensor([0])).it
    assert found.isfinite().nonzero().flatten().tolist() == known


def test_memories_of_others_are_found():
    edges = state().edge_index
    with pytest.raises(AssertionError, match="'it' has edges that only other processes' receivers know"):
        hide(state(it=Relation(edges, torch.ones(3), (3, 3))), declared("relation", "receiver"), torch.tensor([0]))
    own = state(it=Relation(edges[:, :1], torch.ones(1), (3, 3)))
    assert hide(own, declared("relation", "receiver"), torch.tensor([0])).it.values.tolist() == [1]


def test_who_knows_a_field_is_declared_once():
    twice = [*declared("per_node", "owner"), *declared("per_node", "public")]
    with pytest.raises(AssertionError, match="the declarations of 'it' differ"):
        hide(state(it=torch.ones(3)), twice, torch.tensor([0]))


@dataclass(frozen=True)
class Fails(Formula):
    """Fails where it computes for node 4, who alone knows why."""

    late: bool = False

    def weights(self, data, env):
        weight = torch.full_like(data.edge_weight, 1 / 6)
        if not self.late:
            env.plane.mix(data.x.part("all"), weight, data.edge_index)
        if bool(env.plane.is_local(torch.tensor(4))):
            raise ValueError(f"{env.engine.tasks.names[4]} has no sample that can be looked at")
        return weight


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("exchange", [None, NoExchange()])
def test_what_fails_in_one_process_fails_in_all(late, exchange):
    """Whether others come to another verb after it or not; the error names the node."""
    method = methods.dpsgd().replace(weigh=Fails(late))
    method = method if exchange is None else method.replace(exchange=exchange)

    def play(transport):
        data, env = begin(Scene.small(), method, transport)
        try:
            return method.play(data, env)
        except ValueError as error:
            return error

    found, meeting = in_lockstep(OWNERS, play)
    assert [str(error) for error in found] == ["node 4 has no sample that can be looked at"] * 2
    assert meeting.failure is None, "nobody was stopped by force"


def test_what_fails_in_all_processes_is_the_first_ones_error():
    def play(transport):
        data, env = begin(Scene.small(), methods.dpsgd(), transport)
        try:
            return in_step(fail)(transport.process, data, env)
        except ValueError as error:
            return error

    def fail(process, data, env):
        raise ValueError(f"process {process}")

    found, _ = in_lockstep(OWNERS, play)
    assert [str(error) for error in found] == ["process 0"] * 2
