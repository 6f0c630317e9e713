"""A site whose process is killed and started again goes on from its own checkpoint, and comes back into the run."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import Tasks, methods, run
from graphcollab.components import Env, Participation
from graphcollab.sites import SiteLostError, connected, tasks_of_site
from graphcollab.sites.connection import Connection
from graphcollab.sites.hall import Door, Hall
from graphcollab.train import Callback, Checkpoint, Result
from tests.raising import raises

NAMES = ("Basel", "Bern", "Chur")
METHODS = {name: getattr(methods, name)(epochs=1) for name in ("fedavg", "l2c", "meta_l2c", "dac")}
METHODS["cobo"] = methods.cobo()
PLAYED = (2, 10)  # rounds of the two runs
KILLS = [2, 6]  # in the second one; others wait in the next round, in the one after it listens, and then it works
DEADLINE = 60.0  # a site that is started again is known to have been lost at once


CHECKPOINTS = True
FIRST: list[Callback] = []  # callbacks of the first run


class Killed(BaseException):
    """The process has ended, without a word to anybody."""


class Kill(Callback):
    """Ends the process in rounds, when it has trained and sent nothing yet; in those after them others wait for it."""

    def __init__(self, rounds: list[int], hall: Hall) -> None:
        self.rounds, self.coordinator, self.working = rounds, hall.coordinator, dict[int, list[bool]]()
        self.judged: dict[int, list[bool]] = {}  # who was there when a round was evaluated

    def before_evaluate(self, models: Any, env: Env) -> None:
        self.judged[max(self.working)] = env.plane.there.tolist()

    def before_mixing(self, data: Data, env: Env) -> None:
        if self.rounds and data.round == self.rounds[0]:
            self.rounds.pop(0)
            raise Killed
        self.working[data.round] = env.plane.transport.working.tolist()
        end = time.monotonic() + 30
        while data.round - 1 in KILLS and self.comes_back():
            assert time.monotonic() < end, "it does not come back"
            time.sleep(0.01)

    def comes_back(self) -> bool:
        """Tell whether somebody was started again, and is not back yet."""
        lost = self.coordinator.lost.items()
        return any(why == "was started again" and site not in self.coordinator._wanting for site, why in lost)


@dataclass(frozen=True)
class Scripted(Participation):
    """Nodes are there as a table says, [rounds][K]."""

    there: tuple[tuple[bool, ...], ...] = ()

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        there = torch.tensor(self.there[data.round])
        return there, there


def samples(name: str) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(len(name) + NAMES.index(name))
    inputs = torch.randn(40, 3, generator=draw)
    return inputs, (inputs.sum(1) > 0).long()


def script(connection: Connection, method: str, folder: Path, kill: Kill) -> list[Result]:
    """Two runs after one another, as a site plays them."""
    settings: dict[str, Any] = {}
    found = []
    with connected(connection):
        for number, callbacks in enumerate((FIRST, [kill])):
            company = _Meeting(connection)
            tasks = tasks_of_site(company, connection.name, samples(connection.name), test_fraction=0.2)
            place = folder / connection.name / str(number)
            settings |= {"checkpoint": Checkpoint(place, every=1) if CHECKPOINTS else None}
            settings |= {"callbacks": callbacks, "rounds": PLAYED[number]}
            found.append(run(METHODS[method], tasks, lambda: torch.nn.Linear(3, 2), **settings))
    return found


class _Meeting:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def all_gather_object(self, value: Any) -> list[Any]:
        return [*self.connection.tell("values", value)[0].values()]


def play(method: str, folder: Path, rounds: list[int]) -> tuple[dict[str, list[Result]], dict[str, Kill]]:
    hall = Hall(NAMES, deadline=DEADLINE, poll=0.2)
    kills = {name: Kill(rounds if name == "Chur" else [], hall) for name in NAMES}

    def life(name: str) -> list[Result]:
        while True:
            connection = Connection(Door(hall, name), beat=0.1, past=folder / name / "past")
            try:
                found = script(connection, method, folder, kills[name])
            except Killed:
                connection.delivery.close()
                continue
            except SiteLostError as error:
                connection.leave(str(error))
                raise
            connection.finish()
            return found

    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            hall.coordinator.watch()

    threading.Thread(target=watch, daemon=True).start()
    with ThreadPoolExecutor(len(NAMES)) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        acts = {name: threads.submit(life, name) for name in NAMES}
        for one in acts.values():
            one.exception()
    ended.set()
    return {name: one.result() for name, one in acts.items()}, kills


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("l2c", "meta_l2c"))) for name in METHODS]
)
def test_a_site_that_is_started_again_comes_back(method, tmp_path):
    found, kills = play(method, tmp_path, [*KILLS])
    working = [tuple(kills["Bern"].working[t]) for t in range(PLAYED[1])]
    away = [not row[2] for row in working]
    assert all(away[kill] for kill in KILLS)
    assert not any(away[: KILLS[0]])
    assert not away[KILLS[1] - 1]
    assert not away[-1]
    every = map(torch.cat, zip(*map(samples, NAMES), strict=True))
    pooled = Tasks.from_arrays(*every, [name for name in NAMES for _ in range(40)], test_fraction=0.2)
    for number, attend in enumerate((None, Scripted(there=tuple(working)))):
        settings = {"rounds": PLAYED[number], "participation": attend}
        alone = run(METHODS[method], pooled, lambda: torch.nn.Linear(3, 2), **settings)
        for k, name in enumerate(NAMES):
            own = found[name][number]
            assert own.history.rounds == alone.history.rounds
            assert torch.allclose(own.stacks.row(k)[1], alone.stacks.row(k)[1], atol=1e-5), (number, name)
    told = torch.stack(found["Bern"][1].history.values["test_metric"])
    there = torch.tensor([kills["Bern"].judged[t] for t in range(PLAYED[1])])
    assert torch.equal(told.isnan(), ~there)  # where it was not back yet, as it is if a machine has much to do
    assert bool(there[:, :2].all())


class Watch(Callback):
    """Might end a run, and never does."""

    def should_stop(self, data: Data, history: Any) -> bool:
        return False


def test_a_site_comes_back_after_a_run_that_a_callback_might_have_ended(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "FIRST", [Watch()])
    found, _ = play("fedavg", tmp_path, [KILLS[0]])
    for name in NAMES:
        assert [own.history.rounds[-1] for own in found[name]] == [*PLAYED]


def test_a_run_without_checkpoints_cannot_be_mistaken_for_another(tmp_path, monkeypatch):
    """A site that begins its script again comes to its first run, and the others are in the second one."""
    monkeypatch.setitem(globals(), "CHECKPOINTS", False)
    with raises("lost", "site 'Chur'", kind=SiteLostError):
        play("fedavg", tmp_path, [2])
