"""Rounds over faulty links come out as those of one process in which the same sites were there."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from graphcollab.sites import SiteLostError, delivery
from graphcollab.sites.connection import Connection
from graphcollab.sites.coordinator import Coordinator
from graphcollab.sites.hall import Hall
from graphcollab.sites.transport import Sites
from tests.raising import raises
from tests.sites.faults import FaultyDoor

NAMES = ("Basel", "Bern", "Chur", "Genf")
DEADLINE = 0.5  # where sites are to be lost
LONG = 60.0  # where they are not, however slow the machine is
TICK = 0.01


@pytest.fixture(autouse=True)
def tried_again_soon(monkeypatch):
    monkeypatch.setattr(delivery, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(delivery, "LONGEST_PAUSE", 0.1)


class Clock:
    """Seconds that pass tick by tick while others may act, so that they are longer where the machine is slow."""

    def __init__(self) -> None:
        self.now, self.due = 0.0, list[tuple[float, Callable[[], None]]]()

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while."""
        self.due.append((self.now + seconds, act))

    @contextmanager
    def running(self, hall: Hall) -> Iterator[None]:
        """Let time pass, in which the coordinator of a hall watches."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(TICK):
                self.now += TICK
                for one in [one for one in self.due if one[0] <= self.now]:
                    self.due.remove(one)
                    one[1]()
                hall.coordinator.watch()

        running = threading.Thread(target=run, daemon=True)
        running.start()
        try:
            yield
        finally:
            ended.set()
            running.join()


class Small:
    """A site whose model is one number; a round averages it with that of the site before, and adds up all numbers."""

    def __init__(self, door: FaultyDoor, rounds: int) -> None:
        self.door, self.rounds, self.name = door, rounds, door.name
        self.connection = Connection(door, patience=60.0, beat=0.03)
        self.sites = Sites(self.connection, torch.arange(len(NAMES)))
        self.value, self.round = float(NAMES.index(self.name)), 0
        self.there: list[list[str]] = []  # who worked in every round
        self.total: list[float] = []
        self.slow: Callable[[Small], None] = lambda small: None

    def play(self) -> Small:
        """Play all rounds."""
        self.sites.begin(self.round, True, lambda: None, self.snapshot, self.restore)
        while self.round < self.rounds:
            self.sites.play(self.once, self.snapshot, self.restore)
            self.sites.play(self.look, self.snapshot, self.restore, again=True)
        self.connection.finish()
        return self

    def once(self) -> None:
        """Play one."""
        self.slow(self)
        working = self.sites.working
        edges = torch.stack([torch.arange(4), (torch.arange(4) + 1) % 4])
        edges = edges[:, working[edges].all(0)]
        own = self.sites.nodes
        value = self.value
        heard = self.sites.fetch(torch.tensor([[value]]), own, edges)
        told = torch.tensor([value if k in own.tolist() else 0.0 for k in range(4)])
        back = self.sites.broadcast(told, torch.arange(4), (torch.arange(4) + 1) % 4)  # the same number, another way
        if len(heard):
            assert back[own - 1].item() == heard.item()
            value = (value + heard.item()) / 2
        (total,) = self.sites.all_reduce(torch.tensor([self.value]) * working[own])
        assert self.sites.all_gather_object(self.round) == [self.round] * len(self.connection.present)
        self.sites.commit()
        self.value, self.round = value, self.round + 1
        self.there.append([name for name, works in zip(NAMES, working.tolist(), strict=True) if works])
        self.total.append(total.item())

    def look(self) -> None:
        """Evaluate it."""
        found = self.sites.all_gather(torch.tensor([self.value]))[0]
        assert found[self.sites.nodes].item() == self.value
        there = [name in self.connection.present for name in NAMES]
        assert found.isnan().tolist() == [not one for one in there]

    def snapshot(self) -> bytes:
        """Return what all know."""
        return json.dumps([self.round, self.there, self.total]).encode()

    def restore(self, content: bytes) -> None:
        """Take over what was missed."""
        self.round, self.there, self.total = json.loads(content)


def expected(there: list[list[str]]) -> tuple[list[float], list[float]]:
    """Return the last numbers and all totals, computed in one place from who worked when."""
    values, totals = [0.0, 1.0, 2.0, 3.0], []
    for names in there:
        works = [name in names for name in NAMES]
        totals.append(sum(value for value, at_work in zip(values, works, strict=True) if at_work))
        values = [
            (values[k] + values[k - 1]) / 2 if works[k] and works[k - 1] else values[k] for k in range(len(values))
        ]
    return values, totals


def play(
    rounds: int, rate: float = 0.0, seed: int = 0, deadline: float = LONG, **slow: Callable[[Small], None]
) -> dict[str, Small]:
    clock = Clock()
    hall = Hall(NAMES, deadline=deadline, poll=0.1, lost=0.1, clock=clock)
    small = {name: Small(FaultyDoor(hall, name, seed, rate), rounds) for name in NAMES}
    for name, act in slow.items():
        small[name].slow = act
    with warnings.catch_warnings(), clock.running(hall), ThreadPoolExecutor(len(NAMES)) as threads:
        warnings.simplefilter("ignore")
        acts = [threads.submit(one.play) for one in small.values()]
        for one in acts:
            one.exception()
    for one in acts:
        one.result()
    return small


def check(small: dict[str, Small]) -> None:
    histories = {json.dumps([one.there, one.total]) for one in small.values()}
    assert len(histories) == 1
    there = small["Bern"].there
    values, totals = expected(there)
    assert small["Bern"].total == totals
    assert [small[name].value for name in NAMES] == values


def test_rounds_without_faults():
    small = play(20)
    check(small)
    assert small["Bern"].there == [list(NAMES)] * 20


@pytest.mark.parametrize("seed", range(5))
def test_faulty_links_harm_nobody(seed):
    small = play(12, rate=0.15, seed=seed)
    check(small)
    assert small["Bern"].there == [list(NAMES)] * 12


def falls_silent(at: int, seconds: float) -> Callable[[Small], None]:
    """Let a site be cut off for a while, when it begins a round."""
    done = []

    def act(small: Small) -> None:
        if small.round == at and not done:
            done.append(True)
            small.door.silent.set()
            small.door.hall.coordinator._clock.after(seconds, small.door.silent.clear)

    return act


def waits_for_all(*rounds: int) -> Callable[[Small], None]:
    """Let rounds wait until whoever was lost wants to come back."""

    def act(small: Small) -> None:
        coordinator, end = small.door.hall.coordinator, time.monotonic() + 30
        while small.round in rounds and time.monotonic() < end:
            if {*coordinator.present, *coordinator._wanting} == {*NAMES}:
                return
            time.sleep(0.01)

    return act


def test_a_site_that_is_cut_off_is_left_behind_and_comes_back():
    small = play(20, deadline=DEADLINE, Genf=falls_silent(5, 2 * DEADLINE), Bern=waits_for_all(10))
    check(small)
    there = small["Genf"].there
    without = [k for k, names in enumerate(there) if "Genf" not in names]
    assert without[0] == 5
    assert without == [*range(5, without[-1] + 1)]
    assert without[-1] < 14


def test_two_sites_come_and_go_while_messages_are_lost():
    slow = {"Genf": falls_silent(3, 2 * DEADLINE), "Basel": falls_silent(8, 2 * DEADLINE), "Bern": waits_for_all(6, 15)}
    small = play(20, rate=0.05, seed=7, deadline=DEADLINE, **slow)
    check(small)
    assert any("Genf" not in names for names in small["Bern"].there)
    assert "Basel" in small["Bern"].there[-1]


def test_a_short_silence_is_waited_for():
    small = play(10, Genf=falls_silent(5, 0.3))
    check(small)
    assert all("Genf" in names for names in small["Genf"].there)


def test_a_site_that_never_answers_again_hears_that_the_run_has_ended():
    clock = Clock()
    hall = Hall(NAMES, deadline=DEADLINE, poll=0.1, clock=clock)
    small = {name: Small(FaultyDoor(hall, name, 0, 0.0), 10) for name in NAMES}
    small["Genf"].slow = falls_silent(9, 3 * DEADLINE)
    with clock.running(hall), ThreadPoolExecutor(len(NAMES)) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        acts = {name: threads.submit(one.play) for name, one in small.items()}
        with raises("lost", "site 'Genf'", kind=SiteLostError):
            acts["Genf"].result()
    assert small["Bern"].round == 10


def test_the_coordinator_never_sees_what_goes_from_site_to_site():
    seen: list[bytes] = []
    answer = Coordinator.answer

    def listen(self: Coordinator, site: str, content: bytes) -> bytes:
        seen.append(content)
        return answer(self, site, content)

    hall = Hall(NAMES)
    hall.coordinator.answer = listen.__get__(hall.coordinator)
    secret = torch.tensor([[1234567.0, 7654321.0]])

    def act(connection: Connection) -> None:
        sites = Sites(connection, torch.arange(4))
        sites.fetch(secret, sites.nodes, torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        sites.broadcast(torch.full((4, 2), 1234567.0), torch.arange(4), torch.tensor([1, 2, 3, 0]))

    hall.play(act)
    assert seen
    assert not any(secret.numpy().tobytes()[:4] in content for content in seen)


def test_a_site_that_is_lost_before_the_first_round_is_named():
    hall = Hall(NAMES, deadline=DEADLINE, poll=0.1)

    def act(connection: Connection) -> list[object]:
        if connection.name == "Genf":
            connection.leave("has no room on its disk")
            return []
        return [*connection.tell("values", 1)[0]]

    with raises("lost", "sites", "Genf has no room on its disk", kind=SiteLostError):
        hall.play(act)
