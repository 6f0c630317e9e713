"""Hospitals that are lost, come back, or start again come out as those that were away for a while."""

from __future__ import annotations

import errno
import re
import shutil
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import methods, run
from graphcollab.components import Env, Participation
from graphcollab.persistence import History
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.persistence.lock import hold_folder
from graphcollab.persistence.saver import Saver
from graphcollab.sites import SiteLostError
from graphcollab.sites.hall import Hall
from graphcollab.train import Callback, Checkpoint, Result
from tests.raising import warns
from tests.sites.in_threads import NAMES, meet, pooled_tasks, small

LOST, STOPPED, ROUNDS = 2, 4, 6  # after how many rounds Long Beach stops, all others do, and the run is over
ROUNDING = {"rtol": 1e-5, "atol": 1e-6}
pytestmark = pytest.mark.filterwarnings("ignore:.*(goes on without|waits to be let in|back$|is damaged|has played)")


class PowerCut(BaseException):
    """A site stops at once."""


@dataclass(frozen=True)
class Stops(Callback):
    """Stops a site in the middle of a round, when it has trained."""

    round: int

    def before_mixing(self, data: Data, env: Env) -> None:
        if data.round == self.round:
            raise PowerCut


@dataclass(frozen=True)
class Aborted(Callback):
    """Ends a site's job before or after a round's evaluation is in its history, as when an admin aborts it."""

    round: int
    evaluates: bool

    def before_mixing(self, data: Data, env: Env) -> None:
        if data.round == self.round:
            raise PowerCut

    def on_evaluate(self, data: Data, history: History) -> None:
        if history.rounds[-1] == self.round and not self.evaluates:
            raise SiteLostError("job", "the job was aborted")


@dataclass
class CutOff(Callback):
    """Lets the coordinator leave a site behind after a round, as if it had been silent; notes when Long Beach works."""

    hall: Hall
    name: str
    round: int
    at_work: dict[int, bool]

    def before_mixing(self, data: Data, env: Env) -> None:
        self.at_work[data.round] = bool(data.trains[NAMES.index("va")])

    def on_round(self, data, history) -> None:
        if data.round == self.round and self.name:
            with self.hall.coordinator._change:
                self.hall.coordinator._leave_behind([self.name], "was cut off")
            self.name = ""


@dataclass(frozen=True)
class Away(Participation):
    """Long Beach is away in some rounds."""

    rounds: tuple[int, ...] = ()

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        there = torch.ones(len(NAMES), dtype=torch.bool)
        there[NAMES.index("va")] = data.round not in self.rounds
        return there, there


AWAY = Away(rounds=(*range(LOST, STOPPED), STOPPED))  # it listens for a round before it works again


def require_models(alone: Result, found: dict[str, Result], names=NAMES) -> None:
    for name in names:
        assert isinstance(found[name], Result), found[name]
        k = NAMES.index(name)
        torch.testing.assert_close(found[name].stacks.row(k)[1], alone.stacks.row(k)[1], **ROUNDING)


def stopped(method, folder: Path) -> None:
    """Play until Long Beach stops, and two rounds later all others."""

    def act(here):
        stops = Stops(LOST if here.name == "va" else STOPPED)
        kept = {"checkpoint": Checkpoint(folder / here.name, every=1), "callbacks": [stops]}
        return here.run(method, small, rounds=ROUNDS, **kept)

    found = meet(act)
    assert all(isinstance(one, BaseException) for one in found.values()), found
    saved = {name: max(path.name for path in (folder / name).glob("round-*")) for name in NAMES}
    assert saved == {name: f"round-{LOST if name == 'va' else STOPPED:06d}" for name in NAMES}


def resumed(method, folder: Path):
    return meet(lambda here: here.run(method, small, rounds=ROUNDS, checkpoint=Checkpoint(folder / here.name, every=1)))


@pytest.mark.parametrize("name", ["l2c", "fedavg"])
def test_sites_go_on_from_checkpoints_of_different_rounds(name, tmp_path):
    """Who has missed rounds listens for one, and works again."""
    method = getattr(methods, name)(epochs=1)
    stopped(method, tmp_path)
    with warns("other-run", "site 'va'", f"{LOST} rounds"):
        found = resumed(method, tmp_path)
    require_models(run(method, pooled_tasks(), small, rounds=ROUNDS, participation=AWAY), found)
    missed = found["cleveland"].history.table("test_metric")[:, NAMES.index("va")].isnan().tolist()
    assert missed == [LOST <= round_ < STOPPED for round_ in range(ROUNDS)]
    for one in found.values():
        assert one.history.rounds == [*range(1, ROUNDS + 1)]
        torch.testing.assert_close(
            one.history.table("test_metric"), found["cleveland"].history.table("test_metric"), equal_nan=True
        )
    again = resumed(method, tmp_path)  # every site has saved its own last state
    for name in NAMES:
        assert torch.equal(again[name].stacks.row(NAMES.index(name))[1], found[name].stacks.row(NAMES.index(name))[1])


@pytest.mark.parametrize("evaluated", [["cleveland"], ["hungarian", "switzerland", "va"]])
def test_a_job_that_was_aborted_when_some_had_evaluated_the_last_round(evaluated, tmp_path):
    """What not all have is made again by all, so they go on in step, and as if nothing had happened."""
    method, kept = methods.l2c(epochs=1), {"rounds": ROUNDS}

    def act(here):
        ends = [Aborted(STOPPED, here.name in evaluated)]
        return here.run(method, small, checkpoint=Checkpoint(tmp_path / here.name, every=1), callbacks=ends, **kept)

    assert all(isinstance(one, BaseException) for one in meet(act).values())
    last = {name: load_checkpoint(max((tmp_path / name).glob("round-*"))) for name in NAMES}
    assert {data.round for data, *_ in last.values()} == {STOPPED}
    assert [name for name in NAMES if last[name][1].rounds[-1] == STOPPED] == evaluated
    found, alone = resumed(method, tmp_path), run(method, pooled_tasks(), small, rounds=ROUNDS)
    require_models(alone, found)
    for one in found.values():
        assert one.history.rounds == alone.history.rounds
        torch.testing.assert_close(one.history.table("test_metric"), alone.history.table("test_metric"))


def test_a_site_that_has_lost_its_checkpoints_goes_on_in_the_second_of_two_runs(tmp_path):
    method = methods.fedavg(epochs=1)

    def act(here, stops=()):
        for number in range(2):
            kept = {"checkpoint": Checkpoint(tmp_path / here.name / str(number), every=1)}
            callbacks = stops if number else ()
            result = here.run(method, small, rounds=4, seed=number, callbacks=callbacks, **kept)
        return result

    assert not any(isinstance(one, Result) for one in meet(lambda here: act(here, [Stops(2)])).values())
    shutil.rmtree(tmp_path / "va")
    found = meet(act)
    require_models(run(method, pooled_tasks(), small, rounds=4, seed=1, participation=Away(rounds=(2,))), found)


def test_a_site_waits_until_its_last_job_lets_its_folder_go(tmp_path):
    """That job was aborted, and its process has not come to its end yet."""
    with ExitStack() as last:
        last.enter_context(hold_folder(tmp_path / "va"))
        ends = threading.Timer(1.0, last.pop_all().close)
        ends.start()
        begun = time.monotonic()
        found = resumed(methods.fedavg(epochs=1), tmp_path)
        ends.join()
    require_models(run(methods.fedavg(epochs=1), pooled_tasks(), small, rounds=ROUNDS), found)
    assert time.monotonic() - begun > 1.0


def test_a_site_whose_last_job_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["graphcollab.train.prepare"], "ENDING", 0.1)
    with hold_folder(tmp_path / "va"):
        found = resumed(methods.fedavg(epochs=1), tmp_path)
    assert re.search(r"another run is under way in .*va: wait for its end", str(found.pop("va")))
    for name, one in found.items():
        assert "va has failed with a InUseError" in str(one), name
        assert str(tmp_path) not in str(one), name


@pytest.mark.parametrize("lost", ["removed", "newest damaged"])
def test_a_site_whose_checkpoint_is_lost_begins_with_the_average(lost, tmp_path):
    method = methods.fedavg(epochs=1)
    stopped(method, tmp_path)
    if lost == "removed":
        shutil.rmtree(tmp_path / "va")
    else:
        (tmp_path / "va" / f"round-{LOST:06d}" / "state.safetensors").write_text("{")
    found = resumed(method, tmp_path)
    require_models(run(method, pooled_tasks(), small, rounds=ROUNDS, participation=AWAY), found)


def test_a_site_that_cannot_learn_what_it_has_missed_is_named(tmp_path):
    """Others have begun another phase since."""
    method = methods.pens(explore_rounds=3, epochs=1)
    stopped(method, tmp_path)
    found = resumed(method, tmp_path)
    own = found.pop("va")
    assert str(own).startswith(
        f"va has played {LOST} rounds, as its checkpoints say, and cannot go on where others are"
    )
    assert "let all sites start afresh" in str(own)
    for one in found.values():
        assert isinstance(one, ValueError)
        assert str(one).startswith("va has failed with a ConflictError (checkpoint)")


def test_a_site_whose_checkpoints_are_all_damaged_is_named(tmp_path):
    method = methods.fedavg(epochs=1)
    stopped(method, tmp_path)
    before = {name: sorted((tmp_path / name).rglob("*")) for name in NAMES}
    for path in (tmp_path / "va").glob("round-*/state.safetensors"):
        path.write_text("{")
    found = resumed(method, tmp_path)
    assert isinstance(found["va"], ValueError)
    assert "can be read" in str(found["va"])
    assert str(tmp_path / "va") in str(found.pop("va"))
    for name, one in found.items():
        assert "va has failed with a DamagedError" in str(one), name
        assert str(tmp_path) not in str(one), name
    assert {name: sorted((tmp_path / name).rglob("*")) for name in NAMES} == before


@pytest.mark.parametrize("name", ["l2c", "fedavg"])
def test_a_site_that_is_cut_off_comes_back(name, tmp_path):
    """It misses a round, listens in the next, and works again."""
    method, hall, at_work = getattr(methods, name)(epochs=1), Hall(NAMES, poll=0.5), dict[int, bool]()

    def act(here):
        cut = [CutOff(hall, here.name if here.name == "va" else "", 2, at_work if here.name == "cleveland" else {})]
        kept = {"checkpoint": Checkpoint(tmp_path / here.name, every=1), "callbacks": cut}
        return here.run(method, small, rounds=6, **kept)

    found = meet(act, hall)
    missed = tuple(round_ for round_, trains in at_work.items() if not trains)
    assert missed[:2] == (2, 3)
    alone = run(method, pooled_tasks(), small, rounds=6, participation=Away(rounds=missed))
    require_models(alone, found)
    assert not found["cleveland"].history.table("test_metric")[:, : NAMES.index("va")].isnan().any()
    again = meet(lambda here: here.run(method, small, rounds=6, checkpoint=tmp_path / here.name))
    require_models(alone, again)


def full_disk(monkeypatch, folder: Path) -> None:
    """Let nothing be written in a folder once there is a checkpoint in it."""
    write = Saver._finish_part

    def fails(self, part, *rest):
        if self.folder == folder and self._kept:
            raise OSError(errno.ENOSPC, "No space left on device", str(part))
        return write(self, part, *rest)

    monkeypatch.setattr(Saver, "_finish_part", fails)


def test_a_site_whose_disk_is_full_leaves(tmp_path, monkeypatch):
    full_disk(monkeypatch, tmp_path / "va")
    method = methods.l2c(epochs=1)

    def act(here):
        return here.run(method, small, rounds=5, checkpoint=Checkpoint(tmp_path / here.name, every=1))

    with warns("lost", "site 'va'", "No space left on device"):
        found = meet(act)
    assert isinstance(found["va"], OSError)
    assert "goes on from its last checkpoint" in found["va"].__notes__[0]
    others = [name for name in NAMES if name != "va"]
    require_models(run(method, pooled_tasks(), small, rounds=5, participation=Away(rounds=(2, 3, 4))), found, others)
    assert [path.name for path in (tmp_path / "va").glob("round-*")] == ["round-000001"]
    monkeypatch.undo()
    assert isinstance(meet(act)["va"], Result)


def test_a_folder_that_cannot_be_written_to_is_named_before_training(tmp_path):
    (tmp_path / "va").write_text("a file")

    def act(here):
        return here.run(methods.l2c(epochs=1), small, rounds=5, checkpoint=tmp_path / here.name)

    found = meet(act)
    assert all("va" in str(one) for one in found.values()), found
    assert not any(isinstance(one, Result) for one in found.values())
