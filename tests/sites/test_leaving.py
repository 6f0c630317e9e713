"""What a rehearsal says is what leaves a site: counted at the doors, and in a run of the hospitals."""

from __future__ import annotations

import copy
import pickle
from collections import defaultdict

import pytest
import torch

from graphcollab import methods, site
from graphcollab._base.errors import ConflictError
from graphcollab.persistence.lock import hold_folder
from graphcollab.sites.frame import Frame
from graphcollab.sites.hall import Door
from graphcollab.sites.leaving import ADDED
from graphcollab.train import Callback
from tests.raising import raises
from tests.sites.in_threads import NAMES, ROWS, SETTINGS, meet, small

OTHERS = ["cleveland", "hungarian", "switzerland"]
ROUNDS = 4


@pytest.fixture
def doors(monkeypatch):
    """Bytes of what Long Beach has told and sent, each thing once: {reader: bytes}."""
    sizes: dict[tuple[str, int, int], int] = {}
    ask, push = Door.ask, Door.push

    def count(name: str, to: str, content: bytes) -> None:
        about = Frame.unpack(content).about
        if name == "va" and about["verb"] in ("meet", "push"):
            sizes.setdefault((to, about["epoch"], about["step"]), len(content))

    def asks(self, content):
        count(self.name, "the coordinator", content)
        return ask(self, content)

    def pushes(self, to, content):
        count(self.name, to, content)
        return push(self, to, content)

    def read() -> dict[str, int]:
        found = defaultdict(int)
        for (to, *_), size in sizes.items():
            found[to] += size
        return dict(found)

    monkeypatch.setattr(Door, "ask", asks)
    monkeypatch.setattr(Door, "push", pushes)
    return read


def rehearsed(method, dry_run=OTHERS, rounds=ROUNDS, **settings):
    here = site("va", ROWS["va"], dry_run=dry_run, **SETTINGS)
    return here.run(method, small, rounds=rounds, **settings)


@pytest.fixture(scope="module")
def averaged():
    return rehearsed(methods.fedavg(epochs=1))


def by_reader(leaving) -> dict[str, int]:
    found = defaultdict(int)
    for line in leaving.lines:
        found["the coordinator" if line.to in ("everybody", ADDED) else line.to] += line.bytes
    return dict(found)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (methods.l2c(epochs=1), {"evaluate_every": 3}),
        (methods.meta_l2c(epochs=1), {}),
        (methods.fedavg(epochs=1), {"evaluate_every": 2}),
        (methods.ditto(epochs=1), {}),
        (methods.local(epochs=1), {}),
    ],
    ids=["evaluated seldom", "mixer", "server", "two models", "alone"],
)
def test_a_rehearsal_counts_all_that_is_sent(method, settings, doors):
    assert by_reader(rehearsed(method, **settings)) == pytest.approx(doors(), abs=30)


@pytest.mark.parametrize(
    "method", [methods.cobo(), methods.l2c(epochs=1, drop_round=4)], ids=["pairs drawn", "neighbors dropped"]
)
def test_what_some_get_is_shown_at_its_most_for_all(method, doors):
    told, real = by_reader(rehearsed(method, rounds=7)), doors()  # so many that who is left gets more
    assert told.keys() == {"the coordinator", *OTHERS} >= real.keys()
    assert told["the coordinator"] == pytest.approx(real["the coordinator"], abs=30)
    assert {told[to] for to in OTHERS} == {max(real[to] for to in OTHERS)} or method.name == "cobo"
    assert all(told[to] >= real[to] for to in OTHERS)


def test_scores_are_told_to_everybody(averaged):
    for leaving in (averaged, rehearsed(methods.meta_l2c(epochs=1))):
        told = {line.what.partition(" (")[0]: line for line in leaving.lines if line.to == "everybody"}
        assert told["losses and scores of the site, and how much it has sent"].messages == ROUNDS
        added = [line.what for line in leaving.lines if line.to == ADDED]
        assert all(line.startswith("what is added up: models, gradients, counters (") for line in added)
        assert len(added) == 1


def test_a_run_sends_the_models_that_its_rehearsal_has_told(doors):
    told = {to: size for to, size in by_reader(rehearsed(methods.l2c(epochs=1))).items() if to in OTHERS}

    def act(here):
        here.run(methods.l2c(epochs=1), small, rounds=ROUNDS)

    before = doors()
    meet(act)
    assert before == {**doors()}  # the same places in the run, the same sizes; else `setdefault` would have added some
    assert {to: before[to] for to in OTHERS} == told


def test_the_table_says_who_reads_what(tmp_path, averaged):
    leaving = rehearsed(methods.l2c(epochs=1), checkpoint=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    assert (leaving.site, leaving.method, leaving.sites, leaving.rounds) == ("va", "l2c", 4, ROUNDS)
    numbers = sum(one.numel() for one in small_model().parameters())
    models = [line for line in leaving.lines if line.what.startswith("models")]
    assert [line.to for line in models] == OTHERS
    assert {line.messages for line in models} == {ROUNDS}
    assert {line.what for line in models} == {f"models or updates (float32 [{numbers}])"}
    assert all(ROUNDS * 4 * numbers < line.bytes < ROUNDS * (4 * numbers + 400) for line in models)
    text = str(leaving)
    assert f"What would leave va in {ROUNDS} rounds of l2c among 4 sites" in text
    assert f"{leaving.bytes:,} bytes in all" in text
    assert leaving.bytes == sum(line.bytes for line in leaving.lines)
    assert "to sites that may hear it: the part of its model that is mixed\n" in text
    assert "to the coordinator, to be added up: nothing" in text
    assert "to the coordinator, to be added up: the part of its model that is averaged" in str(averaged)


def small_model():
    import graphcollab

    columns = ROWS["va"]
    return small(graphcollab.Tasks.from_frame({**columns, "at": ["va"] * len(columns["age"])}, node="at", **SETTINGS))


@pytest.mark.parametrize(("dry_run", "count"), [(True, 4), (["Genf"], 2), (["Genf", "Basel"], 3)])
def test_so_many_sites_are_rehearsed(dry_run, count):
    assert rehearsed(methods.fedavg(epochs=1), dry_run=dry_run).sites == count


def test_listeners_are_the_others_where_no_others_are_named():
    here = site("va", ROWS["va"], dry_run=True, listeners=["cleveland", "hungarian"], **SETTINGS)
    leaving = here.run(methods.l2c(epochs=1), small, rounds=1)
    assert {line.to for line in leaving.lines} == {"everybody", "cleveland", "hungarian"}


def test_sites_that_may_not_listen_get_no_models():
    here = site("va", ROWS["va"], dry_run=OTHERS, listeners=["cleveland"], **SETTINGS)
    leaving = here.run(methods.l2c(epochs=1), small, rounds=2)
    assert {line.to: line.bytes > 0 for line in leaving.lines if line.what.startswith("models")} == {"cleveland": True}


def test_a_rehearsal_warns_of_nothing_that_copies_find(recwarn):
    rehearsed(methods.l2c(lr=0.5, epochs=1))
    assert [str(one.message) for one in recwarn] == []


def test_what_is_added_up_is_told_from_what_everybody_reads(averaged):
    readers = {line.what.split(" (")[0]: line.to for line in averaged.lines}
    assert readers["what is added up: models, gradients, counters"] == ADDED
    assert readers["what is agreed on, and how tables are prepared"] == "everybody"


def test_a_rehearsal_writes_nothing(tmp_path):
    kept = tmp_path / "history.json"
    kept.write_text("of the real run")

    class Log(Callback):
        def on_evaluate(self, data, history):
            history.to_json(kept)

    with raises("conflict", "callbacks"):
        rehearsed(methods.l2c(epochs=1), callbacks=[Log()])
    assert kept.read_text() == "of the real run"


@pytest.mark.parametrize(
    ("rows", "settings", "why"),
    [
        (ROWS["va"], {"target": "diseases"}, "diseases"),
        ("/nowhere/patients.csv", {}, "/nowhere/patients.csv"),
        ({**ROWS["va"], "age": ["old"] * len(ROWS["va"]["age"])}, {"metric": "nonsense"}, "nonsense"),
    ],
)
def test_what_is_wrong_with_the_own_data_is_said_of_them_and_not_of_a_copy(rows, settings, why):
    here = site("va", rows, dry_run=OTHERS, **{**SETTINGS, **settings})
    with pytest.raises((ValueError, OSError, KeyError)) as told:
        here.run(methods.local(epochs=1), small, rounds=1)
    words = f"{told.value} {told.value.__cause__ or ''}"
    assert why in words
    assert not any(name in words for name in OTHERS)


def test_other_sites_are_named_by_text():
    with raises("value", "dry_run", kind=(TypeError, ValueError)):
        site("va", ROWS["va"], dry_run=[1, 2], **SETTINGS)
    with raises("empty", "dry_run"):
        site("va", ROWS["va"], dry_run=[], **SETTINGS)
    with raises("empty", "dry_run"):
        site("va", ROWS["va"], dry_run=["va"], **SETTINGS)


def test_a_rehearsal_can_be_copied_and_pickled():
    leaving = rehearsed(methods.local(epochs=1))
    assert copy.deepcopy(leaving) == copy.copy(leaving) == pickle.loads(pickle.dumps(leaving)) == leaving


def test_a_checkpoint_that_could_not_be_written_is_found_out(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with raises("value", "checkpoint"):
        rehearsed(methods.local(epochs=1), checkpoint=tmp_path / "file" / "kept")
    with raises("value", "checkpoint"):
        rehearsed(methods.local(epochs=1), checkpoint=3)


def test_a_folder_that_a_run_uses_can_be_written_to(tmp_path):
    with hold_folder(tmp_path):
        assert rehearsed(methods.local(epochs=1), checkpoint=tmp_path).lines


def test_a_rehearsal_in_a_job_is_refused_at_all_sites():
    def act(here):
        return here.run(methods.local(epochs=1), small, rounds=1)

    found = meet(act, va={"dry_run": OTHERS})
    assert {type(one) for one in found.values()} == {ConflictError}
    assert str(found["va"]) == "va rehearses (dry_run=) in a job: take dry_run= out of its script"


def test_nothing_is_sent_to_anybody_outside():
    """A rehearsal needs no connection."""
    assert torch.is_tensor(next(small_model().parameters()))
    assert rehearsed(methods.local(epochs=1)).lines
    assert set(NAMES) == {*OTHERS, "va"}
