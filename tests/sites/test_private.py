"""What is told between sites: to whom the pieces say, and nothing that only an owner or a receiver may know."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from graphcollab import methods, site
from graphcollab.comm import Plane, Relation
from graphcollab.components import AdaptivePeers, Field
from graphcollab.engine import Stacks
from graphcollab.sites import connected
from graphcollab.sites.connection import Connection
from graphcollab.sites.frame import FrameError
from graphcollab.sites.hall import Hall
from graphcollab.sites.transport import Sites
from tests.raising import raises
from tests.sites.apart import early_method
from tests.sites.test_every_method import NAMES, Small, check


class Watched(Connection):
    """A connection that keeps what is said through it."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.told, self.added, self.given = list[Tensor](), list[Tensor](), list[tuple[str, Tensor]]()
        super().__init__(*args, **settings)

    def tell(self, what: str, value: Any = None, tensors: Any = (), add: bool = False, **said: Any) -> Any:
        (self.added if add else self.told).extend(one.detach().clone() for one in tensors)
        return super().tell(what, value, tensors, add, **said)

    def swap(self, what: str, give: Mapping[str, Any], take: Mapping[str, Any]) -> Any:
        self.given += [(to, one.detach().clone()) for to, some in give.items() for one in some]
        return super().swap(what, give, take)


class Telling(Small):
    """A site that compares after every round what it has told with what it knows."""

    rounds = 3  # all phases are played in two, and what is kept then is told in the third

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.public = set[float]()  # what all may know, or might know once
        self.check()

    def once(self) -> None:
        super().once()
        self.check()

    def check(self) -> None:
        here, own = self.connection, int(self.sites.nodes)
        secret = odd(*(value for name, value in self.data.to_dict().items() for value in self.secrets(name, value)))
        self.public |= odd(*(one for name, value in self.data.to_dict().items() for one in self.publics(name, value)))
        sample = odd(*(pool.inputs for pool in self.env.engine.tasks.select(self.sites.nodes).pools.values()))
        assert not odd(*here.told, *here.added, *(one for _, one in here.given)) & sample, "a sample has left its site"
        leaked = odd(*here.told) & (secret - self.public)
        assert not leaked, f"{NAMES[own]} has told everybody {sorted(leaked)[:3]} in round {self.data.round}"

    def secrets(self, name: str, value: Any) -> Iterator[Tensor]:
        for field in self.fields:
            if field.covers(name) and field.known_to != "public":
                yield from numbers_of(field, value, int(self.sites.nodes), self.data.edge_index)

    def publics(self, name: str, value: Any) -> Iterator[Tensor]:
        told = name in ("edge_weight", "last_graph") and "edge_told" in self.data  # of edges that are cut by now
        if told or any(field.covers(name) and field.known_to == "public" for field in self.fields):
            yield from tensors_in(value)


def numbers_of(field: Field, value: Any, own: int, edge_index: Tensor) -> Iterator[Tensor]:
    """Yield what a site knows of a field that not all may know."""
    if field.kind == "per_edge":
        yield value[edge_index[1] == own]
    elif field.kind == "per_node":
        yield value[own : own + 1]
    else:
        yield from tensors_in(value)


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, Stacks):
        yield from value.tensors
    elif isinstance(value, Relation):
        yield value.values
    elif hasattr(value, "tensors"):
        yield from tensors_in(value.tensors)


def odd(*tensors: Tensor) -> set[float]:
    """Return numbers that are no simple fractions, such as equal shares, which others find by themselves."""
    every = [one.detach().double().flatten() for one in tensors if one.is_floating_point()]
    numbers = torch.cat([torch.empty(0, dtype=torch.float64), *every])
    numbers = numbers[numbers.isfinite()]
    simple = torch.stack([(numbers * k - (numbers * k).round()).abs() < 1e-6 for k in range(1, 13)]).any(0)
    return {*numbers[~simple].tolist()}


def play(name: str, kind: type[Small] = Telling) -> dict[str, Any]:
    hall = Hall(NAMES, poll=0.5)

    def act(connection: Connection) -> Small:
        connection.__class__ = Watched
        connection.told, connection.added, connection.given = [], [], []  # type: ignore[attr-defined]
        return kind(hall, connection, name, {}).play()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hall.play(act, beat=5.0)


@pytest.mark.parametrize("name", methods.__all__)
def test_sites_find_what_one_process_finds_and_tell_what_is_declared(name):
    """Who reads something is who the pieces say; and nobody is told what only an owner or a receiver may know."""
    found = play(name)
    check(name, found)
    most = 4 if name == "cobo" else 3  # rows, gradients and products go from site to site; then all agree
    assert max(found["a"].exchanges) <= most
    declared = {reader for piece in early_method(name).walk() for reader in piece.told}
    told = set()
    for one in found.values():
        here = one.connection
        kinds = {"everybody": here.told, "coordinator": here.added, "listeners": here.given}
        told |= {kind for kind, some in kinds.items() if some}
    assert told == declared


def test_a_leak_would_be_found(monkeypatch):
    """DAC's memory, told to everybody as it was once."""

    def digest(self, data, env):
        env.plane.transport.all_gather_lists(data.memory.edge_index[1], data.memory.values)
        return inner(self, data, env)

    inner = AdaptivePeers.digest
    monkeypatch.setattr(AdaptivePeers, "digest", digest)
    with pytest.raises(AssertionError, match="has told everybody"):
        play("dac")


def test_no_verb_tells_everybody_a_model():
    """Whatever a piece may try: models go along edges, which are watched, or into sums."""

    def act(sites):
        models = Stacks((Spec(),), (torch.rand(1, 4),), (sites.nodes,))
        with raises("contract", "method", sites.party):
            Plane(3, sites).whole(models)
        return True

    for done, connection in exchange(act).values():
        assert done
        assert not connection.told


class Spec:
    num_columns = 4


def exchange(act, owners=None):
    hall = Hall(("a", "b", "c"), poll=0.5)

    def work(connection):
        connection.__class__ = Watched
        connection.told, connection.added, connection.given = [], [], []
        owner = torch.tensor((owners or {}).get(connection.name, [0, 1, 2]))
        return act(Sites(connection, owner)), connection

    return hall.play(work, beat=5.0)


def test_entries_are_passed_on_along_edges():
    """Along b → a and c → a, a gets the one entry of b and both of c; a has one that nobody hears."""
    entries = {0: [0.5], 1: [1.5], 2: [2.5, 2.75]}

    def act(sites):
        own = int(sites.nodes)
        mine = torch.tensor(entries[own], dtype=torch.float64)
        edges = torch.tensor([[1, 2], [0, 0]])
        return sites.neighbor_all_gather(torch.full((len(mine),), own), edges, 10 * torch.arange(len(mine)), mine)

    found = exchange(act)
    owner, places, values = found["a"][0]
    assert owner.tolist() == [1, 2, 2]
    assert places.tolist() == [0, 0, 10]
    assert values.tolist() == [1.5, 2.5, 2.75]
    for name in "bc":
        assert [len(one) for one in found[name][0]] == [0, 0, 0]
        assert {to for to, _ in found[name][1].given} == {"a"}
        assert found[name][1].told == []


def test_a_site_that_speaks_for_another_is_refused():
    """Site b says that node 2 is its own, and tells a what that node knows."""

    def act(sites):
        nodes = sites.nodes[-1:]
        return sites.neighbor_all_gather(nodes, torch.tensor([[1, 2], [0, 0]]), torch.ones(1))

    with raises("damaged", "site 'b'", kind=FrameError):
        exchange(act, {"b": [0, 2, 1]})


TABLES = {name: {"age": [k + 0.5 * n for n in range(20)], "ill": [0, 1] * 10} for k, name in enumerate(NAMES[:4])}


def run_with(listeners, method):
    """Play a round among four sites with who may listen to each, and return what every one has sent to whom."""
    hall = Hall(NAMES[:4], poll=0.5)

    def act(connection):
        one = site(connection.name, TABLES[connection.name], target="ill", listeners=listeners.get(connection.name))
        with connected(connection):
            one.run(method, lambda tasks: torch.nn.Linear(*tasks.input_shape, 2), rounds=1)
        return {to for _, to in connection.delivery.sent if to != "coordinator"}

    return hall.play(act, beat=5.0)


def test_models_go_to_listeners_only():
    sent = run_with({"a": ["b"], "c": []}, methods.l2c(lr=0.1))
    assert sent == {"a": {"b"}, "b": {"a", "c", "d"}, "c": set(), "d": {"a", "b", "c"}}


@pytest.mark.filterwarnings("ignore")
def test_a_site_keeps_its_models_whatever_others_say(monkeypatch):
    """Whoever relays what sites say of their listeners adds one."""
    tell = Connection.tell

    def said(self, what, value=None, *args, **settings):
        values, tensors = tell(self, what, value, *args, **settings)
        return {k: ["b", "d"] if k == "a" and v == ["b"] else v for k, v in values.items()}, tensors

    monkeypatch.setattr(Connection, "tell", said)
    with raises("conflict", "listeners"):
        run_with({"a": ["b"]}, methods.l2c(lr=0.1))


@pytest.mark.filterwarnings("ignore")
def test_averages_of_groups_that_may_not_hear_each_other_are_refused():
    listeners = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}
    with raises("conflict", "listeners"):
        run_with(listeners, methods.fedavg(lr=0.1))
