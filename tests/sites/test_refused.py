"""Values that no model has are found where they arrive: their sender counts as away, and nobody else is blamed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphcollab import Tasks, methods, run, site
from graphcollab.comm.transport import NUMBERS
from graphcollab.components import Participation
from graphcollab.components.exchange.servers import places
from graphcollab.components.state import LOOP
from graphcollab.engine import NonFiniteLossError
from graphcollab.sites import connected
from graphcollab.sites.connection import Connection
from graphcollab.sites.frame import FrameError
from graphcollab.sites.hall import Hall
from graphcollab.sites.transport import Presence, Sites
from graphcollab.testing import Scene
from graphcollab.train import Callback, Result
from tests.data.rooms import prepared
from tests.raising import raises, warns
from tests.sites.apart import early_method
from tests.sites.test_every_method import Scripted
from tests.testing.lockstep import begin
from tests.testing.planes import hide

NAMES = tuple("abcdef")
ROUNDS, LIAR = 4, 3
SPOILT: dict[str, Callable[[Tensor], Tensor]] = {
    "nan": lambda one: one * torch.nan,
    "one number": lambda one: one.clone().flatten().index_fill(0, torch.tensor([0]), torch.inf).view_as(one),
    "large": lambda one: one * 1e200,
    "within bounds": lambda one: one * 9e3,
    "within bounds of a sum": lambda one: one * 1e140,
}


class Liar(Connection):
    """A site whose models, or summands of models, are spoilt in some rounds."""

    round_, spoil, when = 0, staticmethod(SPOILT["nan"]), (1,)

    def swap(self, what: str, give: Mapping[str, Sequence[Tensor]], take: Any) -> Any:
        if what.startswith(("models", "gradients")) and self.round_ in self.when:
            give = {to: [self.spoil(one) for one in some] for to, some in give.items()}
        return super().swap(what, give, take)

    def tell(self, what: str, value: Any = None, tensors: Sequence[Tensor] = (), add: bool = False, **said: Any) -> Any:
        if add and self.round_ in self.when:
            tensors = [self.spoil(one) for one in tensors]
        return super().tell(what, value, tensors, add, **said)


def play(name: str, when: Sequence[int], spoil: str = "nan", **settings: Any) -> dict[str, Any]:
    """Play a method between sites of which d lies in some rounds; what each of them has in the end."""
    hall, method = Hall(NAMES, poll=0.5), early_method(name, **settings)
    fields = (*LOOP, *method.fields)

    def act(connection: Connection) -> Any:
        if connection.name == NAMES[LIAR]:
            connection.__class__ = Liar
            connection.spoil, connection.when = SPOILT[spoil], when
        sites = Sites(connection, torch.arange(len(NAMES)))
        scene = Scene.small(embeds=method.embeds).replace(participation=Presence(), isolate=True)
        data, env = begin(scene, method, sites)
        refused = []

        def once() -> None:
            nonlocal data
            connection.round_ = data.round
            new = method.play(hide(data, fields, sites.nodes), env)
            sites.commit()
            refused.append({*env.plane.refused})
            data = new

        for _ in range(ROUNDS):
            sites.play(once, lambda: b"", lambda content: None)
        return data, refused

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hall.play(act, beat=1.0)


def alone(name: str, away: Sequence[int]) -> Any:
    """Play a method in one process in which d is away in some rounds."""
    method = early_method(name)
    there = tuple(tuple(not (k == LIAR and r in away) for k in range(len(NAMES))) for r in range(ROUNDS))
    scene = Scene.small(embeds=method.embeds).replace(participation=Scripted(there=there), isolate=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scene.play(method, ROUNDS)[0]


def require_as_if_away(name: str, when: Sequence[int], spoil: str = "nan") -> dict[str, Any]:
    """Check that the honest sites find what they find where d is away in the rounds in which it lies."""
    found, want = play(name, when, spoil), alone(name, when)
    for k, one in enumerate(NAMES):
        data, _ = found[one]
        assert not bool(data.isolated.any())
        if k != LIAR:
            torch.testing.assert_close(data.x.row(k)[1], want.x.row(k)[1], rtol=1e-9, atol=1e-9)
    return found


LAST = (1, 2, 3)
SHOWN = ("dpsgd", "l2c", "meta_l2c", "pfedgraph", "cobo", "cga", "fedavg")
# In `local` nobody hears anybody; the second phase of `directed` begins with what came of all in a round before it.
REST = sorted({*methods.__all__} - {*SHOWN, "local", "directed"})


@pytest.mark.parametrize("name", [*SHOWN, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)])
def test_a_site_that_sends_no_models_is_away_for_the_others(name):
    """From the second round on all that d sends is NaN."""
    require_as_if_away(name, LAST)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["one number", "large"])
@pytest.mark.parametrize("name", ["dpsgd", "fedavg"])
def test_values_that_no_model_has(name, spoil):
    found = require_as_if_away(name, LAST, spoil)
    assert [[*refused] for refused in found["a"][1]][:2] == [[], [LIAR]]


def test_a_site_whose_summand_is_refused_works_again_in_the_next_round():
    """The coordinator's finding counts for all: the round is played again, and d is back in the next one."""
    found, want = play("fedavg", (1,)), alone("fedavg", (1,))
    for k, one in enumerate(NAMES):
        torch.testing.assert_close(found[one][0].x.row(k)[1], want.x.row(k)[1], rtol=1e-9, atol=1e-9)
        assert [[*refused] for refused in found[one][1]] == [[], [LIAR], [], []]


def test_what_a_receiver_finds_counts_for_it_alone(monkeypatch):
    """Site d lies to a only: the others use its models, so a cannot have it excluded, nor d be excluded by a word."""
    inner = Connection.swap

    def swap(self: Connection, what: str, give: Mapping[str, Sequence[Tensor]], take: Any) -> Any:
        if self.name == NAMES[LIAR] and what.startswith("models"):
            give = {to: [one * torch.nan if to == "a" else one for one in some] for to, some in give.items()}
        return inner(self, what, give, take)

    monkeypatch.setattr(Connection, "swap", swap)
    found, honest = play("dpsgd", ()), alone("dpsgd", ())
    for one in NAMES:
        assert [[*refused] for refused in found[one][1]] == [[LIAR] * (one == "a")] * ROUNDS
    monkeypatch.undo()
    assert not torch.equal(found["a"][0].x.row(0)[1], honest.x.row(0)[1])


TABLE = {"age": [k % 13 for k in range(40)], "ill": [0, 1, 1, 0] * 10}
FOUR = NAMES[:4]


def sites_run(make: Callable[[], Any], mode: str) -> dict[str, Result]:
    """Let four sites play two rounds of which d spoils the second."""

    def act(connection: Connection) -> Result:
        rounds = Rounds(connection)
        if connection.name == "d":
            connection.__class__ = Liar
        with connected(connection):
            here = site(connection.name, TABLE, target="ill")
            return here.run(make(), linear, rounds=2, on_nonfinite=mode, callbacks=[rounds])

    return Hall(FOUR, poll=0.3).play(act)


class Rounds(Callback):
    """Tells a liar which round it is."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def on_round(self, data: Any, history: Any) -> None:
        self.connection.round_ = data.round


def linear(tasks: Tasks) -> nn.Module:
    return nn.Linear(*tasks.input_shape, 2)


@pytest.mark.parametrize("make", [methods.l2c, methods.fedavg])
def test_a_run_goes_on_without_what_is_not_finite_and_names_its_sender(make):
    with warns("diverged", "node 'd'"):
        found = sites_run(make, "isolate")
    tasks = prepared(dict.fromkeys(FOUR, TABLE), target="ill")
    want = run(make(), tasks, linear, rounds=2, participation=Participation(leaves={"d": 1}), on_nonfinite="isolate")
    for name in "abc":
        history = found[name].history
        assert history.refused == {"d": [2]}
        assert history.isolated == {}
        for field in ("val_loss", "test_loss"):
            torch.testing.assert_close(history.last(field)[:3], want.history.last(field)[:3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [methods.l2c, methods.fedavg])
def test_a_run_that_stops_names_the_sender(make):
    """And no receiver, and no smaller step size."""
    with raises("diverged", "node 'd'", "1", kind=NonFiniteLossError) as told:
        sites_run(make, "stop")
    assert "step size" not in str(told.value)


def test_weights_that_are_told_lie_between_0_and_1(monkeypatch):
    """In CoBo one end of a pair tells the other what it weighs: a weight that is none leaves the one from before."""
    inner = Connection.tell

    def tell(self: Connection, what: str, value: Any = None, tensors: Sequence[Tensor] = (), **said: Any) -> Any:
        if self.name == NAMES[LIAR] and what.startswith(NUMBERS):
            tensors = [one * torch.nan if one.is_floating_point() else one for one in tensors]
        return inner(self, what, value, tensors, **said)

    monkeypatch.setattr(Connection, "tell", tell)
    monkeypatch.setattr(Liar, "tell", tell)
    for k, (data, _) in enumerate(play("cobo", (), sampling="all").values()):
        assert not bool(data.isolated.any())
        assert bool(torch.isfinite(data.x.part("all")).all())
        weight = data.edge_weight[(data.edge_index == k).any(0)]
        assert bool(((weight >= 0) & (weight <= 1)).all())


@pytest.mark.parametrize(("name", "spoil"), [("dpsgd", "within bounds"), ("fedavg", "within bounds of a sum")])
def test_nobody_is_isolated_for_what_others_have_sent(name, spoil):
    """Such models are not found where they arrive; whoever is ruined by them keeps its own, and d isolates itself."""
    for k, (data, _) in enumerate(play(name, LAST, spoil).values()):
        assert not bool(data.isolated[:LIAR].any() | data.isolated[LIAR + 1 :].any())
        if k != LIAR:
            assert float(data.x.part("all").abs().max()) < 10


@pytest.mark.slow
@pytest.mark.parametrize("said", [999, -7])
def test_a_center_that_there_is_not_is_the_nearest_number(said, monkeypatch):
    """In IFCA every site tells which center it has chosen."""
    inner = Connection.tell

    def tell(self: Connection, what: str, value: Any = None, tensors: Sequence[Tensor] = (), **more: Any) -> Any:
        if self.name == NAMES[LIAR] and what == f"{NUMBERS} (int64 [])":
            tensors = [torch.full_like(one, said) for one in tensors]
        return inner(self, what, value, tensors, **more)

    monkeypatch.setattr(Connection, "tell", tell)
    monkeypatch.setattr(Liar, "tell", tell)
    for k, (data, _) in enumerate(play("ifca", ()).values()):
        assert int(places(data.server)[LIAR]) == (1 if said > 0 else 0)
        assert bool(data.x.row(k)[1].isfinite().all())


@pytest.mark.parametrize("settings", [{}, {"centers": 2}])
def test_more_cluster_centers_than_a_node_can_have_name_who_says_so(settings, monkeypatch):
    """In FLT every site makes room for as many as another one says that it has."""
    inner = Connection.tell

    def tell(self: Connection, what: str, value: Any = None, tensors: Sequence[Tensor] = (), **more: Any) -> Any:
        if self.name == NAMES[LIAR]:
            value = 10**15 if type(value) is int else value
            tensors = [torch.full_like(one, 10**15) for one in tensors] if what == f"{NUMBERS} (int64 [])" else tensors
        return inner(self, what, value, tensors, **more)

    monkeypatch.setattr(Connection, "tell", tell)
    monkeypatch.setattr(Liar, "tell", tell)
    with raises("too-many", "node 'node 3'", "10"):
        play("flt", (), **settings)


def test_similarities_that_are_not_finite_name_who_tells_them(monkeypatch):
    """Sites of DAC tell those who hear them what they know of others, by which these draw whom to hear next."""
    inner = Connection.swap

    def swap(self: Connection, what: str, give: Mapping[str, Sequence[Tensor]], take: Any) -> Any:
        if self.name == NAMES[LIAR] and what.startswith("what it knows of others"):
            give = {
                to: [one * torch.nan if one.is_floating_point() else one for one in some] for to, some in give.items()
            }
        return inner(self, what, give, take)

    monkeypatch.setattr(Connection, "swap", swap)
    monkeypatch.setattr(Liar, "swap", swap)
    with raises("damaged", "site 'd'", kind=FrameError):
        play("dac", ())
