"""Methods between sites find what they find in one process where sites are lost and come back, too."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import Phases, methods
from graphcollab.components import Env, Participation
from graphcollab.components.state import LOOP
from graphcollab.persistence import History
from graphcollab.sites import SiteLostError
from graphcollab.sites.connection import Connection
from graphcollab.sites.hall import Hall
from graphcollab.sites.transport import Presence, Sites
from graphcollab.testing import Scene
from graphcollab.train.missed import hand_over, take_over
from tests.sites.apart import early_method
from tests.testing.lockstep import begin
from tests.testing.planes import hide

NAMES = tuple("abcdef")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Scripted(Participation):
    """Nodes are there as a table says, [rounds][K]."""

    there: tuple[tuple[bool, ...], ...] = ()

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        there = torch.tensor(self.there[data.round])
        return there, there


def lose(hall: Hall, name: str) -> None:
    """Leave a site behind, as if it had been silent."""
    with hall.coordinator._change:
        hall.coordinator._leave_behind([name], "was cut off")


def wait_for(hall: Hall, name: str, seconds: float = 60.0) -> None:
    """Wait until a site that was left behind asks to come back: rounds as short as these may all be over before."""
    end = time.monotonic() + seconds
    while name not in hall.coordinator._wanting:
        assert time.monotonic() < end, f"{name} has not asked to come back"
        time.sleep(0.002)


class Small:
    """A site of the small scene.

    Args:
        hall: Where sites meet.
        connection: The site's.
        name: Of the method.
        losses: The site that loses its connection in a round, when it has trained.

    Attributes:
        rounds: How many are played.
        fields: What the loop and the method keep.
    """

    rounds = 5  # as many as a site needs to be lost and to come back

    def __init__(self, hall: Hall, connection: Connection, name: str, losses: dict[int, str]) -> None:
        self.hall, self.connection, self.losses = hall, connection, dict(losses)
        self.method = early_method(name)
        self.fields = (*LOOP, *self.method.fields)
        self.sites = Sites(connection, torch.arange(len(NAMES)))
        scene = Scene.small(embeds=self.method.embeds).replace(participation=Presence())
        self.data, self.env = begin(scene, self.method, self.sites)
        self.history, self.there = History(NAMES), list[tuple[bool, ...]]()
        self.exchanges, self.why = list[int](), ""

    def once(self) -> None:
        loser = self.losses.get(self.data.round)
        if loser == self.connection.name:
            del self.losses[self.data.round]
            lose(self.hall, loser)
        elif loser in self.hall.coordinator.lost:
            wait_for(self.hall, loser)
        data = hide(self.data, self.fields, self.sites.nodes)
        there, before = tuple(self.sites.working.tolist()), self.connection.exchanges
        data = self.method.play(data, self.env)
        self.sites.commit()
        self.data = data
        self.there.append(there)
        self.exchanges.append(self.connection.exchanges - before)

    def restore(self, content: bytes) -> None:
        self.data, self.history = take_over(content, self.data, self.fields)

    def play(self) -> Small:
        self.sites.begin(self.data.round, True, lambda: None, self.snapshot, self.restore)
        while self.data.round < self.rounds:
            try:
                self.sites.play(self.once, self.snapshot, self.restore)
            except SiteLostError as error:
                self.why = str(error)
                self.connection.leave(self.why)
                break
        return self

    def snapshot(self) -> bytes:
        return hand_over(self.data, self.history, self.fields)


def play(name: str, losses: dict[int, str]) -> dict[str, Small]:
    hall = Hall(NAMES, poll=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hall.play(lambda connection: Small(hall, connection, name, losses).play(), beat=0.2)


def check(name: str, found: dict[str, Small]) -> None:
    longest: Sequence[tuple[bool, ...]] = max((one.there for one in found.values()), key=len)
    rounds = found["a"].rounds
    assert len(longest) == rounds
    method = early_method(name)
    scene = Scene.small(embeds=method.embeds).replace(participation=Scripted(there=tuple(longest)))
    data, env = scene.play(method, rounds)
    judged = method.models(data, env)
    for k, site in enumerate(NAMES):
        own = found[site]
        if own.data.round < rounds:
            assert "another phase" in own.why
            assert isinstance(method, Phases)
            continue
        models = own.method.models(own.data, own.env)
        for what, alone, other in (("models", data.x, own.data.x), ("judged", judged, models)):
            one, many = alone.row(k)[1], other.row(k)[1]
            assert torch.allclose(one, many, rtol=TOLERANCE, atol=TOLERANCE), (what, site, (one - many).abs().max())
        back = torch.tensor([one.data.round == rounds for one in found.values()])  # others are not heard of any more
        edges = [one.edge_index[:, back[one.edge_index].all(0)] for one in (data, own.data)]
        assert torch.equal(*edges)
        weights = [one.edge_weight[(one.edge_index[1] == k) & back[one.edge_index[0]]] for one in (data, own.data)]
        assert torch.allclose(*weights, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True), weights


SHOWN = ("fedavg", "ditto", "l2c", "meta_l2c", "cobo", "dac")
# In `local` nobody waits for anybody. The second phase of `directed` begins with what was received from all, and who is
# lost then is not received from.
LOST = sorted({*methods.__all__} - {*SHOWN, "local", "directed"})


@pytest.mark.parametrize("name", [*SHOWN, *(pytest.param(name, marks=pytest.mark.slow) for name in LOST)])
def test_sites_that_are_lost_are_away(name):
    """A site that loses its connection in a round comes back, but not into another phase of the method."""
    found = play(name, {1: "c"})
    check(name, found)
    there = [site["c"] for site in [dict(zip(NAMES, one, strict=True)) for one in found["a"].there]]
    back = [True, False, False, True, True]
    assert there == back or (isinstance(early_method(name), Phases) and there == [True, False, False, False, False])
